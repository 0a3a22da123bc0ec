-- Admits the first waiters for a semaphore, as many as there are places. Returns the results of
-- hand_off().
-- include count_places
-- include hand_off
local function hand_off_places(lock, record, queue, side, counter)
	local n = count_places(lock, record)
	if n then
		return hand_off(lock, record, queue, side, counter, n > 0 and { places = true } or nil)
	end
end
