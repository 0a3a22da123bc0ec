-- The first entry of a queue has no proof of this hasp process. It may be another process', or
-- forged: so nothing is written that it asks for. Its worker is told to look at the lock, and takes
-- it by its own proof; the entry keeps its place meanwhile, for 3 s. `is_held`: its owner has the
-- lock already, and it is to join. Returns what became of it:
--
--     woken     it may take the lock
--     absent    it was woken, and did not come
--     deaf      its worker does not listen
--     refused   this user may not publish
-- include ask_worker
-- include mark_woken
local function wake(queue, entry, waiter, now_ms, is_held)
	if waiter.woken_ms > 0 and not is_held then
		return math.abs(now_ms - waiter.woken_ms) > 3000 and 'absent' or 'woken'
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
