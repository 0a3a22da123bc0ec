-- Removes a worker that is gone from a queue: `entry`, the first, which is its, and those of its entries
-- that are among the first 64. `waiter`: that of `entry`. `deaf` is is_present()'s.
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
	-- If there are other entries, the last of these 64 stays, woken long ago: when it becomes the first,
	-- the next 64 are searched at once.
	local rest = more and last ~= entry and parse_waiter(last, now_ms)
	if rest then
		mark_woken(queue, last, rest, waiter.woken_ms)
	else
		redis.call('ZREM', queue, last)
	end
end
