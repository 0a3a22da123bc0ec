-- guard_write: a command that writes guarded keys: all of their guards are its owner's, or free,
-- or nothing is written.
--
-- KEYS     guard, queue, readers (none: the guard again) for each of the n guarded keys, in the
--          keys' order; then those keys; then the command's other keys
-- ARGV     n, ticket ('': it cannot wait), how many ms to wait, place in the queue or '';
--          token, lease ms, 'held' when the key was read and must still be its owner's or '',
--          'release' or 'keep' for each of the n; the command, or nothing
-- returns  the command's reply, GRANTED without one; LOCKLOST with the first key that was lost
--          since it was read; LOCKED with the first key that is another's; QUEUED (see
--          stand.lua), and its number
-- layout   hasp's
-- include guards.lua
local n, wait = tonumber(ARGV[1]), ARGV[3]
local owners, read = {}, {}
for i = 1, n do
	local guard, readers = KEYS[3 * i - 2], KEYS[3 * i]
	local token = ARGV[1 + 4 * i]
	owners[i] = redis.pcall('GET', guard)
	read[i] = ARGV[3 + 4 * i] == 'held'
		or readers ~= guard and redis.call('HEXISTS', readers, token) == 1
	if read[i] and owners[i] ~= token then
		if readers ~= guard then
			redis.call('HDEL', readers, token)
		end
		return lost(KEYS[3 * n + i])
	end
end
for i = 1, n do
	local guard, queue = KEYS[3 * i - 2], KEYS[3 * i - 1]
	local token, lease = ARGV[1 + 4 * i], ARGV[2 + 4 * i]
	if not is_owner(owners[i], token) and (owners[i] or not pass_on(guard, queue)) then
		if ARGV[2] ~= '' and wait ~= '0' then
			for j = 1, i - 1 do
				local mine = ARGV[1 + 4 * j]
				redis.call('SET', KEYS[3 * j - 2],
					owners[j] == mine and mine or mine .. ' ' .. ARGV[2], 'PX',
					ARGV[2 + 4 * j])
			end
		end
		return wait_for(i, KEYS[3 * n + i], guard, queue, ARGV[2], wait, ARGV[4], lease, token)
	end
end
local first = 5 + 4 * n
if not ARGV[first] then
	return redis.status_reply('GRANTED')
end
local reply = redis.pcall(unpack(ARGV, first))
local failed = type(reply) == 'table' and reply.err
for i = 1, n do
	local guard, queue, readers = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
	local token, lease = ARGV[1 + 4 * i], ARGV[2 + 4 * i]
	if is_owner(owners[i], token) then
		if not read[i] or not failed and ARGV[4 + 4 * i] == 'release' then
			redis.call('DEL', guard)
			pass_on(guard, queue)
			if readers ~= guard then
				redis.call('HDEL', readers, token)
			end
		elseif redis.call('PTTL', guard) < tonumber(lease) then
			redis.call('PEXPIRE', guard, lease)
		end
	end
end
if failed then
	return as_sent(reply, ARGV[first])
end
return reply
