-- The worker of the first entry of a queue does not listen at this server. A worker that knows
-- several servers (its number begins with `n`) may only be about to: another server has taken over
-- this lock, and workers hear of that one after the other. So its entries keep their places for
-- 3 s; then those among the first 64 entries go. `deaf` is is_present()'s. `is_held`: the lock's owner has it already,
-- and others are to join.
-- Returns what became of the entry:
--
--     woken     it may come yet
--     absent    it is gone
-- include mark_woken
-- include parse_waiter
local function await_worker(queue, entry, waiter, now_ms, deaf, is_held)
	local worker = waiter.worker
	if worker:sub(1, 1) ~= 'n' then
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
	deaf[worker] = 'gone'
	local last, more = entry, redis.call('ZCARD', queue) > 64
	for _, other in ipairs(redis.call('ZRANGE', queue, '0', '63')) do
		if other:sub(1, #worker + 1) == worker .. '-' then
			redis.call('ZREM', queue, last)
			last = other
		end
	end
	-- If there are other entries, the last of these 64 stays, woken long ago: when it becomes the first,
	-- the next 64 are searched at once.
	local rest = more and last ~= entry and parse_waiter(last, now_ms)
	if rest then
		mark_woken(queue, last, rest, waiter.woken_ms)
	else
		redis.call('ZREM', queue, last)
	end
	return 'absent'
end
