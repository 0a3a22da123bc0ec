-- quorum_read: what one server of a quorum knows of a lock.
--
-- KEYS[1]  lock
--
-- returns  value and ms left of its lease; nil it is free
-- layout   Redlock's
local lock = KEYS[1]
local value = redis.call('GET', lock)
return value and { value, redis.call('PTTL', lock) }
