-- guard_finish: the write that ends what a read began, of one guarded key: what guard_write does
-- for most, in as few calls and arguments as it takes.
--
-- KEYS     guard, queue; the guarded key; then the command's other keys
-- ARGV     token, lease ms; the command
-- returns  the command's reply; LOCKLOST when the guard is not the owner's any more
-- layout   hasp's
local guard, token = KEYS[1], ARGV[1]
if redis.pcall('GET', guard) ~= token then
	-- include lost.lua
	return lost(KEYS[3])
end
local reply = redis.pcall(unpack(ARGV, 3))
if type(reply) == 'table' and reply.err then
	if redis.call('PTTL', guard) < tonumber(ARGV[2]) then
		redis.call('PEXPIRE', guard, ARGV[2])
	end
	-- include as_sent.lua
	return as_sent(reply, ARGV[3])
end
redis.call('DEL', guard)
if redis.call('EXISTS', KEYS[2]) == 1 then
	-- include queue.lua
	hand_over(guard, guard, KEYS[2], guard)
end
return reply
