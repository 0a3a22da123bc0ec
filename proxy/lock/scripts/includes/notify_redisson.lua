-- Tells Redisson's waiters that the lock is free. As Redisson names the channel: a name with a
-- brace of its own gets no others.
local function notify_redisson(lock)
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	redis.pcall('PUBLISH', 'redisson_lock__channel:' .. name, '0')
end
