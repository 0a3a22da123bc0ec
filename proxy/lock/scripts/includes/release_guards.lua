-- Releases the guards of the guarded keys with these numbers, each to its first waiter.
-- include guarded_key
-- include hand_off_guard
local function release_guards(numbers)
	for _, i in ipairs(numbers) do
		local guard, queue = guarded_key(i)
		redis.call('DEL', guard)
		hand_off_guard(guard, queue)
	end
end
