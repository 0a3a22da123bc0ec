-- quorum_extend: extends a lease at one server of a quorum. Never shortens a lease, because a
-- client that relies on the longer lease may not learn of the shorter.
--
-- KEYS[1]  lock
--
-- ARGV[1]  value
-- ARGV[2]  lease ms
--
-- returns  1; 0: the lock has another value; -1: the lock is free
-- layout   Redlock's
local lock = KEYS[1]
local value, lease = unpack(ARGV)
local found = redis.call('GET', lock)
if found ~= value then
	return found and 0 or -1
end
if redis.call('PTTL', lock) < tonumber(lease) then
	redis.call('PEXPIRE', lock, lease)
end
return 1
