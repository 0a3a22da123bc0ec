-- guard_finish: a write of one guarded key that this connection has read. In this most frequent
-- case it replaces guard_write, with fewer calls and arguments.
--
-- KEYS[1]  guard
-- KEYS[2]  queue
-- KEYS[3]  the guarded key; then the command's other keys
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  lease ms
-- ARGV[4]  the command
--
-- returns  the command's reply; LOCKLOST when the guard is not the owner's any more
-- layout   hasp's
-- include client_error
-- include hasp_error
-- include hand_off
local guard, queue, key = KEYS[1], KEYS[2], KEYS[3]
local token, lease, command = ARGV[2], ARGV[3], ARGV[4]
-- break finish_unchecked: if false then
if redis.pcall('GET', guard) ~= token then
	return hasp_error('lost', key)
end
local reply = redis.pcall(unpack(ARGV, 4))
if type(reply) == 'table' and reply.err then
	if redis.call('PTTL', guard) < tonumber(lease) then
		redis.pcall('PEXPIRE', guard, lease)
	end
	return client_error(reply, command)
end
redis.call('DEL', guard)
if redis.call('EXISTS', queue) == 0 then
	return reply
end
hand_off(guard, guard, queue, guard)
return reply
