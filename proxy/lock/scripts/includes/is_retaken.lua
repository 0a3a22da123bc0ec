-- Returns true if a rule's lock was retaken past hasp with its old value. hasp gives the lock and
-- its sidecar the same expiry, so the expiry of a lock that was retaken differs from the sidecar's.
-- The difference must exceed 1000 ms: before Redis 7.2 the clock goes on while a script runs, and a
-- busy machine can stop Redis between the two commands that set the expiries.
local function is_retaken(lock, side)
	if side == lock then
		return false
	end
	local ttl = redis.call('PTTL', lock)
	return ttl == -1 or math.abs(ttl - redis.call('PTTL', side)) > 1000
end
