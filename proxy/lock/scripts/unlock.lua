-- unlock: UNLOCK, and hasp's own release of a verbs' lock.
--
-- KEYS     lock, fence record
-- ARGV     token, layout ('hash', 'string', '' for either), 'all' to give back every hold or ''
-- returns  1 released, or one hold given back; 0 not this owner's
-- layout   Redisson's RLock, with its message to the waiters, or go-zero's RedisLock
-- include as_sent.lua
-- include verbs.lua
local lock, token = KEYS[1], ARGV[1]
local n, layout = holds(lock, token, ARGV[2])
if not n then
	return layout
end
if n == 0 then
	return 0
end
if n > 1 and ARGV[3] ~= 'all' then
	local left = redis.pcall('HINCRBY', lock, token, -1)
	if type(left) == 'table' then
		return as_sent(left, 'UNLOCK')
	end
	return 1
end
local reply = redis.pcall('DEL', lock, KEYS[2])
if type(reply) == 'table' then
	return as_sent(reply, 'UNLOCK')
end
if layout == 'hash' then
	-- As Redisson names it: a name with a brace of its own gets no others.
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	redis.pcall('PUBLISH', 'redisson_lock__channel:' .. name, '0')
end
return 1
