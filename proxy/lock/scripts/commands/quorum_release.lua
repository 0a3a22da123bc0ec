-- quorum_release: frees a lock at one server of a quorum.
--
-- KEYS[1]  lock
--
-- ARGV[1]  value
--
-- returns  1; 0: the lock has another value, or is free
-- layout   Redlock's
local lock, value = KEYS[1], ARGV[1]
if redis.call('GET', lock) ~= value then
	return 0
end
return redis.call('DEL', lock)
