-- Returns true if the waiter is present: its deadline and the end of its lease have not passed, and
-- its worker listens. `deaf` remembers the workers that do not.
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
