-- Removes the entries of a worker that is gone from a queue: `entry`, the first, and others of this
-- worker among the first 64. `waiter` is the waiter of `entry`. `deaf` is is_present()'s.
-- include mark_woken
-- include parse_waiter
local function drop_worker(queue, entry, waiter, now_ms, deaf)
	local worker = waiter.worker
	deaf[worker] = 'gone'
	local last, more = entry, redis.call('ZCARD', queue) > 64
	for _, other in ipairs(redis.call('ZRANGE', queue, '0', '63')) do
		if other:sub(1, #worker + 1) == worker .. '-' then
			redis.call('ZREM', queue, last)
			last = other
		end
	end
	-- If the queue has more entries, the worker's last one of these 64 stays, marked as woken long
	-- ago: when it becomes the first, the script searches the next 64 at once.
	local rest = more and last ~= entry and parse_waiter(last, now_ms)
	if rest then
		mark_woken(queue, last, rest, waiter.woken_ms)
	else
		redis.call('ZREM', queue, last)
	end
end
