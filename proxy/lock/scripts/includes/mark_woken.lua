-- Notes in an entry of a queue that it was woken now, see hand_off.lua. The entry keeps its place.
local function mark_woken(queue, entry, waiter, now_ms)
	redis.call('ZADD', queue, redis.call('ZSCORE', queue, entry), waiter.ticket .. ' '
		.. waiter.proof .. ' ' .. string.format('%.0f', now_ms) .. ' ' .. waiter.terms)
	redis.call('ZREM', queue, entry)
end
