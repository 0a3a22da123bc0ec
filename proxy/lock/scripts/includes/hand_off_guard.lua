-- Hands a free guard to the first waiter. Returns true if no client waits: it is still free.
-- include hand_off
local function hand_off_guard(guard, queue)
	if redis.call('EXISTS', queue) == 0 then
		return true
	end
	return hand_off(guard, guard, queue, guard)
end
