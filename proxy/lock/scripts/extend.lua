-- extend: LOCK.EXTEND.
--
-- KEYS     lock, record, sidecar
-- ARGV     token, layout ('hash', 'string'), lease ms
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
local reply = redis.pcall('PEXPIRE', lock, lease)
if type(reply) == 'table' then
	return as_sent(reply, 'EXTEND')
end
redis.call('PEXPIRE', KEYS[2], lease)
if n > 1 then
	-- (See join.lua.)
	redis.call('PEXPIRE', KEYS[3], lease + 60000)
end
return 1
