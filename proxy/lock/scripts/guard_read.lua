-- guard_read: a command that reads guarded keys: takes their guards, or keeps those that it
-- has, and reads.
--
-- KEYS     guard, queue, readers (none: the guard again) for each of the n guarded keys, in the
--          keys' order; then those keys; then the command's other keys
-- ARGV     n, ticket ('': it cannot wait), how many ms to wait, place in the queue or '',
--          'read', or 'take' to leave the reading to hasp, and behind that for each of the n,
--          or for none of them, what is known of it: 'm' when it was read before and must still
--          be its owner's, 's' the same if `readers` says so, else '-';
--          token, lease ms for each of the n; the command
-- returns  the command's reply, or GRANTED, and 'anew' when nobody had read under one of them;
--          LOCKED with the first key that is another's; LOCKLOST with the first key that was
--          lost; QUEUED (see stand.lua), and its number
-- layout   hasp's
-- include guards.lua
local n, ticket, wait = tonumber(ARGV[1]), ARGV[2], ARGV[3]
-- Guards that were not its owner's; and those that were, with nothing read under them yet.
local taken, unread = {}, {}

local function give_back(these)
	for _, j in ipairs(these) do
		redis.call('DEL', KEYS[3 * j - 2])
		pass_on(KEYS[3 * j - 2], KEYS[3 * j - 1])
	end
end

local function keep(these, what)
	for _, j in ipairs(these) do
		redis.call('SET', KEYS[3 * j - 2], ARGV[4 + 2 * j] .. what, 'PX', ARGV[5 + 2 * j])
	end
end

for i = 1, n do
	local guard, queue, readers = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
	local token, lease = ARGV[4 + 2 * i], ARGV[5 + 2 * i]
	local got, known = false, ARGV[5]:sub(4 + i, 4 + i)
	local read = known == 'm' or known == 's' and redis.call('HEXISTS', readers, token) == 1
	if read and redis.pcall('GET', guard) ~= token then
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
		elseif is_owner(owner, token) then
			unread[#unread + 1] = i
		elseif not owner and pass_on(guard, queue) then
			redis.call('SET', guard, token, 'PX', lease)
			taken[#taken + 1] = i
		else
			if ticket == '' or wait == '0' then
				give_back(taken)
			else
				keep(taken, ' ' .. ticket)
				keep(unread, ' ' .. ticket)
			end
			return wait_for(i, KEYS[3 * n + i], guard, queue, ticket, wait, ARGV[4], lease,
				token)
		end
	end
end
local reply
if ARGV[5]:sub(1, 4) == 'take' then
	reply = redis.status_reply(#taken + #unread > 0 and 'GRANTED anew' or 'GRANTED')
else
	local first = 6 + 2 * n
	reply = redis.pcall(unpack(ARGV, first))
	if type(reply) == 'table' and reply.err then
		-- Nothing was read, and who only took part in that needs no guard.
		give_back(taken)
		give_back(unread)
		return as_sent(reply, ARGV[first])
	end
end
keep(unread, '')
for i = 1, n do
	local readers = KEYS[3 * i]
	if readers ~= KEYS[3 * i - 2] then
		note_reader(readers, ARGV[4 + 2 * i])
	end
end
return reply
