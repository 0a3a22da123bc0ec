-- Tells Redisson's waiters that the lock is free. As Redisson names the channel: a name with a
-- brace of its own gets no others.
-- include announce
local function notify_redisson(lock, counter)
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	announce('redisson_lock__channel:' .. name, '0', counter)
end
