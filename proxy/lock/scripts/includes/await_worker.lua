-- The worker of the first entry of a queue does not listen at this server. A worker that knows
-- several servers (its number begins with `n`) may only be about to: another server has taken over
-- this lock, and workers hear of that one after the other. So its entries keep their places for
-- 3 s; then those among the first 64 entries go. `deaf` is is_present()'s. `is_held`: the lock's owner
-- has it already, and others are to join.
-- Returns what became of the entry:
--
--     woken     it may come yet
--     absent    it is gone
-- include drop_worker
-- include mark_woken
local function await_worker(queue, entry, waiter, now_ms, deaf, is_held)
	if waiter.worker:sub(1, 1) ~= 'n' then
		return 'absent'
	end
	if is_held then
		return 'woken'
	end
	if waiter.woken_ms == 0 then
		mark_woken(queue, entry, waiter, now_ms)
		return 'woken'
	end
	if math.abs(now_ms - waiter.woken_ms) <= 3000 then
		return 'woken'
	end
	drop_worker(queue, entry, waiter, now_ms, deaf)
	return 'absent'
end
