-- guard_read: a command that reads guarded keys: takes their guards, or keeps those that it
-- has, and reads.
--
-- KEYS     guard, queue, readers (none: the guard again) for each of the n guarded keys, in the
--          keys' order; then those keys; then the command's other keys
-- ARGV     n, ticket ('': it cannot wait), how many ms to wait, place in the queue or '',
--          'read', or 'take' to leave the reading to hasp, and behind that for each of the n,
--          or for none of them, what is known of it: 'r' when it was read before, 'm' when it
--          was and must still be its owner's, 's' the same if `readers` says so, else '-';
--          token, lease ms for each of the n; the command
-- returns  the command's reply, or GRANTED, and 'anew' when a guard was not its owner's;
--          LOCKED with the first key that is another's; LOCKLOST with the first key that was
--          lost; QUEUED (see stand.lua), and its number
-- layout   hasp's
-- include guards.lua
local n, wait = tonumber(ARGV[1]), ARGV[3]
-- Guards that were not its owner's; of these, whose keys it had read before and lost; and who
-- was not among the readers.
local taken, again, fresh = {}, {}, {}

local function give_back(these)
	for _, j in ipairs(these) do
		redis.call('DEL', KEYS[3 * j - 2])
	end
end

for i = 1, n do
	local guard, queue, readers = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
	local token, lease = ARGV[4 + 2 * i], ARGV[5 + 2 * i]
	local got, known = false, ARGV[5]:sub(4 + i, 4 + i)
	local read = known == 's' and redis.call('HGET', readers, token)
	if read == '0' or (known == 'm' or read) and redis.pcall('GET', guard) ~= token then
		give_back(taken)
		if readers ~= guard then
			redis.call('HDEL', readers, token)
		end
		return lost(KEYS[3 * n + i])
	end
	if redis.call('EXISTS', queue) == 0 then
		got = redis.pcall('SET', guard, token, 'NX', 'PX', lease)
		if type(got) == 'table' and got.err then
			give_back(taken)
			return as_sent(got, 'SET')
		end
	end
	if got then
		taken[#taken + 1] = i
	else
		local owner = redis.pcall('GET', guard)
		if owner == token then
			if redis.call('PTTL', guard) < tonumber(lease) then
				redis.call('PEXPIRE', guard, lease)
			end
		elseif not owner and pass_on(guard, queue) then
			redis.call('SET', guard, token, 'PX', lease)
			taken[#taken + 1] = i
		else
			-- Who waits in vain has what it lost no more than before.
			give_back((ARGV[2] == '' or wait == '0') and taken or again)
			if readers ~= guard and redis.call('HEXISTS', readers, token) == 1 then
				redis.call('HSET', readers, token, 0)
			end
			return wait_for(i, KEYS[3 * n + i], guard, queue, ARGV[2], wait, ARGV[4], lease,
				token)
		end
	end
	if taken[#taken] == i
		and (known == 'r' or readers ~= guard and redis.call('HEXISTS', readers, token) == 1) then
		again[#again + 1] = i
	end
end
-- Not before: while one of them is another's, nothing is read.
for i = 1, n do
	local readers = KEYS[3 * i]
	if readers ~= KEYS[3 * i - 2] then
		fresh[i] = redis.call('HSET', readers, ARGV[4 + 2 * i], 1) == 1
		redis.call('PEXPIRE', readers, 86400000)
	end
end
if ARGV[5]:sub(1, 4) == 'take' then
	return redis.status_reply(#taken > 0 and 'GRANTED anew' or 'GRANTED')
end
local first = 6 + 2 * n
local reply = redis.pcall(unpack(ARGV, first))
if type(reply) == 'table' and reply.err then
	-- Nothing was read, and nobody had time to stand in line.
	give_back(taken)
	for i, is_fresh in pairs(fresh) do
		if is_fresh then
			redis.call('HDEL', KEYS[3 * i], ARGV[4 + 2 * i])
		end
	end
	return as_sent(reply, ARGV[first])
end
return reply
