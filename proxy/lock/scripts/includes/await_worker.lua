-- Decides about the first entry of a queue if its worker does not listen at this server. A worker
-- of several servers (its number begins with `n`) may be about to subscribe: after a failover,
-- workers learn of the new server one after the other. So its entries keep their places for 3 s;
-- then the script removes those among the first 64 entries. `deaf` is is_present()'s. `is_held`:
-- the lock has an owner, and the waiter would join it. Returns the state of the entry:
--
--     woken     its worker may still subscribe
--     absent    its worker is gone
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
