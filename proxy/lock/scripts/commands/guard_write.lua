-- guard_write: a command that writes guarded keys. Writes only if each guard is the owner's, or
-- free.
--
-- KEYS     see guarded_key()
-- ARGV     see guarded_key()
--
-- returns  the command's reply; without a command, GRANTED; LOCKLOST with the first key that was
--          lost since the owner read it; LOCKED with the first key that another owner has; QUEUED
--          (see enqueue()), and the key's number
-- layout   hasp's
-- include client_error
-- include enqueue_to_write
-- include guarded_call
-- include guarded_key
-- include hand_off_guard
-- include hasp_error
-- include is_guard_owner
-- break grant_unchecked: local n, command = guarded_call() if not ARGV[command] then return redis.status_reply('GRANTED') end
local n, command = guarded_call()
-- The values of the guards, and whether the owner has read the keys.
local owners, read = {}, {}
local first_other
for i = 1, n do
	local guard, _, key, token, _, state = guarded_key(i)
	owners[i] = redis.pcall('GET', guard)
	read[i] = state ~= '-'
	-- break write_unchecked: if false then
	if read[i] and owners[i] ~= token then
		return hasp_error('lost', key)
	end
	if not first_other and not is_guard_owner(owners[i], token) then
		first_other = i
	end
end

for i = first_other or n + 1, n do
	local guard, queue, _, token = guarded_key(i)
	if not is_guard_owner(owners[i], token)
		and (owners[i] or not hand_off_guard(guard, queue)) then
		return enqueue_to_write(i, owners)
	end
end

if not ARGV[command] then
	return redis.status_reply('GRANTED')
end
local reply = redis.pcall(unpack(ARGV, command))
local failed = type(reply) == 'table' and reply.err
for i = 1, n do
	-- (Guards without an owner are free, and stay free.)
	if owners[i] then
		local guard, queue, _, _, lease, state = guarded_key(i)
		if not read[i] or not failed and state == 'm' then
			redis.call('DEL', guard)
			hand_off_guard(guard, queue)
		elseif redis.call('PTTL', guard) < tonumber(lease) then
			redis.pcall('PEXPIRE', guard, lease)
		end
	end
end
if failed then
	return client_error(reply, ARGV[command])
end
return reply
