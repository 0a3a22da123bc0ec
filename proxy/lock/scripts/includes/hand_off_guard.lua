-- Hands a guard that is free to the first waiter. True when no client waits: it is still free.
-- include hand_off
local function hand_off_guard(guard, queue)
	if redis.call('EXISTS', queue) == 0 then
		return true
	end
	return hand_off(guard, guard, queue, guard)
end
