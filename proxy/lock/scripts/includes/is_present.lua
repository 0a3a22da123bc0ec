-- Is the waiter still there: not past its deadline or the end of its lease, and its worker
-- listens? `deaf` remembers for each worker whether it does not.
local function is_present(waiter, now_ms, deaf)
	local worker = waiter.worker
	if deaf[worker] == nil then
		-- PUBLISH would also count clients that listen to a pattern.
		local count = redis.pcall('PUBSUB', 'NUMSUB', 'hasp:worker:' .. worker)
		deaf[worker] = count[2] == 0
	end
	-- break nobody_present: return false
	return not deaf[worker] and waiter.deadline_ms > now_ms and tonumber(waiter.lease) > 0
end
