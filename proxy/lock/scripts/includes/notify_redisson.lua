-- Notifies Redisson's waiters that the lock is free. As Redisson does, adds no braces to a name
-- that has one.
-- include announce
local function notify_redisson(lock, counter)
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	announce('redisson_lock__channel:' .. name, '0', counter)
end
