-- Handles a first entry of a queue that has no proof of this hasp process. It may belong to another
-- process, or be forged: so the script grants it nothing, but asks its worker to take the lock by
-- its own proof. The entry keeps its place for 3 s. After that its worker counts as gone, as if its
-- host were frozen, and the script removes this worker's other waiters, too. `deaf` is
-- is_present()'s. `is_held`: the owner of the entry has the lock already, and the entry would join
-- it. Returns the outcome:
--
--     woken     it may take the lock
--     absent    it was woken, but did not take the lock
--     deaf      its worker does not listen
--     refused   this user may not publish
-- include ask_worker
-- include drop_worker
-- include mark_woken
local function wake(queue, entry, waiter, now_ms, deaf, is_held)
	if waiter.woken_ms > 0 and not is_held then
		if math.abs(now_ms - waiter.woken_ms) <= 3000 then
			return 'woken'
		end
		drop_worker(queue, entry, waiter, now_ms, deaf)
		return 'absent'
	end
	local listeners = ask_worker(waiter)
	if type(listeners) ~= 'number' then
		return 'refused'
	end
	if listeners == 0 then
		return 'deaf'
	end
	if not is_held then
		mark_woken(queue, entry, waiter, now_ms)
	end
	return 'woken'
end
