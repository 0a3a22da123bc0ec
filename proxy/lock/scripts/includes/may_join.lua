-- Returns true if the first waiter may have a lock that is not free. `owner` is hand_off()'s. Each
-- waiter for a semaphore names how many owners there may be. Also true for an entry that is no
-- waiter, or past its deadline: hand_off() removes it. The second result is true if the time of
-- some readers is over, and one call cannot remove all of them.
-- include sides
local function may_join(keys, waiter, owner, now_ms)
	local lock = keys.lock
	if owner.token then
		return waiter and waiter.kind == 'h' and waiter.token == owner.token
	end
	if not waiter or waiter.deadline_ms <= now_ms then
		return true
	end
	if owner.sides then
		local kind = waiter.kind
		if kind ~= 'm' and kind ~= 'x' then
			return false
		end
		local allowed, _, more = sides().allows(lock, keys.record, keys.side, waiter.token, kind)
		return allowed, more
	end
	local n = redis.call('ZCARD', lock)
	return waiter.kind == 'l' and (n < (tonumber(waiter.value) or 0)
		or type(redis.call('ZSCORE', lock, waiter.token)) == 'string')
end
