-- Gives back one hold of a side of a read-write lock, and admits the first waiters. If other
-- clients may still have it, notifies Redisson's waiters as Redisson does: by `0` that a reader has
-- left, so that one of them may try; by `1` that a writer has. queue == nil: no client waits.
-- include sides
-- include hand_off_rw
-- include notify_rw
local function release_rw(lock, record, queue, side, counter, token, kind)
	if not sides().release(lock, record, side, token, kind) then
		return
	end
	if queue then
		hand_off_rw(lock, record, queue, side, counter)
	end
	notify_rw(lock, queue, kind == 'x' and '1' or '0', counter)
end
