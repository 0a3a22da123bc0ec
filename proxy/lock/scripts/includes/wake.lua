-- The first entry of a queue has no proof of this hasp process. It may be another process', or
-- forged: so nothing is written that it asks for. Its worker is told to look at the lock, and takes
-- it by its own proof; the entry keeps its place meanwhile, for 3 s. Then its worker counts as gone, as
-- one whose host is frozen is, and so are the other waiters of that worker. `deaf` is is_present()'s.
-- `is_held`: its owner has the lock already, and it is to join. Returns what became of it:
--
--     woken     it may take the lock
--     absent    it was woken, and did not come
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
