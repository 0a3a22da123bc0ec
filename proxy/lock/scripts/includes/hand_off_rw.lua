-- Lets in those who are first in line for a read-write lock, and may have it together. Returns what
-- hand_off() does.
-- include hand_off
local function hand_off_rw(lock, record, queue, side, counter)
	return hand_off(lock, record, queue, side, counter,
		redis.call('EXISTS', lock) == 1 and { sides = true } or nil)
end
