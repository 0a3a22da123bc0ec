-- Admits the first waiters for a read-write lock that may have it together. Returns the results of
-- hand_off().
-- include hand_off
local function hand_off_rw(lock, record, queue, side, counter)
	return hand_off(lock, record, queue, side, counter,
		redis.call('EXISTS', lock) == 1 and { sides = true } or nil)
end
