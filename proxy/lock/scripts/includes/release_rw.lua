-- An owner gives back one hold of a side of a read-write lock, which goes to those who are first in
-- line. When others may have it yet, Redisson's waiters are told, as Redisson does: by `0` that a
-- reader has left, which one of them may use; by `1` that a writer has. queue == nil: nobody is in line.
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
