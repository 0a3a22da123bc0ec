-- guard_read: a command that reads guarded keys: takes their guards, or keeps those that it
-- has, and reads.
--
-- KEYS     guard, queue, readers (none: the guard again) for each of the n guarded keys, in the
--          keys' order; then those keys; then the command's other keys
-- ARGV     n, ticket ('': it cannot wait), how many ms to wait, place in the queue or '',
--          'run', or 'take' to leave the reading to hasp; token, lease ms for each of the n;
--          the command
-- returns  the command's reply, or GRANTED; LOCKED with the first key that is another's;
--          QUEUED (see stand.lua), and its number
-- layout   hasp's
-- include guards.lua
local n, wait = tonumber(ARGV[1]), ARGV[3]
local taken = {}
for i = 1, n do
	local guard, queue, readers = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
	local token, lease = ARGV[4 + 2 * i], ARGV[5 + 2 * i]
	local got = false
	if redis.call('EXISTS', queue) == 0 then
		got = redis.pcall('SET', guard, token, 'NX', 'PX', lease)
		if type(got) == 'table' and got.err then
			got = as_sent(got, 'SET')
			for _, j in ipairs(taken) do
				redis.call('DEL', KEYS[3 * j - 2])
			end
			return got
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
			if ARGV[2] == '' or wait == '0' then
				for _, j in ipairs(taken) do
					redis.call('DEL', KEYS[3 * j - 2])
				end
			end
			return wait_for(i, KEYS[3 * n + i], guard, queue, ARGV[2], wait, ARGV[4], lease,
				token)
		end
	end
	if readers ~= guard then
		redis.call('HSET', readers, token, 1)
		redis.call('PEXPIRE', readers, 86400000)
	end
end
if ARGV[5] == 'take' then
	return redis.status_reply('GRANTED')
end
local first = 6 + 2 * n
local reply = redis.pcall(unpack(ARGV, first))
if type(reply) == 'table' and reply.err then
	-- Nothing was read, and nobody had time to stand in line.
	for _, j in ipairs(taken) do
		redis.call('DEL', KEYS[3 * j - 2])
	end
	return as_sent(reply, ARGV[first])
end
return reply
