-- persist: PERSIST on a rule's key. A string keeps its expiry, whoever asks;
-- other types are none of the rule's business.
--
-- KEYS     lock, sidecar
-- ARGV     lease ms
-- returns  0 for a string; as Redis for other types
-- layout   hasp's
local lock = KEYS[1]
if redis.call('TYPE', lock).ok ~= 'string' then
	return redis.pcall('PERSIST', lock)
end
if redis.call('PTTL', lock) == -1 then
	redis.call('PEXPIRE', lock, ARGV[1])
	redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
return 0
