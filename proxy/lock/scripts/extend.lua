-- extend: LOCK.EXTEND, and hasp's own renewal of a verbs' lock.
--
-- KEYS     lock, fence record
-- ARGV     token, layout ('hash', 'string', '' for either), lease ms,
--          'longer' to leave a lock alone that has more left, or ''
-- returns  1; 0 not this owner's
-- layout   Redisson's RLock or go-zero's RedisLock
-- include as_sent.lua
-- include verbs.lua
local lock, lease = KEYS[1], ARGV[3]
local n, wrong = holds(lock, ARGV[1], ARGV[2])
if not n then
	return wrong
end
if n == 0 then
	return 0
end
if ARGV[4] == 'longer' and redis.call('PTTL', lock) >= tonumber(lease) then
	return 1
end
local reply = redis.pcall('PEXPIRE', lock, lease)
if type(reply) == 'table' then
	return as_sent(reply, 'EXTEND')
end
redis.call('PEXPIRE', KEYS[2], lease)
return 1
