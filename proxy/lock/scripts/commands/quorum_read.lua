-- quorum_read: reads the state of a lock at one server of a quorum.
--
-- KEYS[1]  lock
--
-- returns  the lock's value, and the ms left of its lease; nil: the lock is free
-- layout   Redlock's
local lock = KEYS[1]
local value = redis.call('GET', lock)
return value and { value, redis.call('PTTL', lock) }
