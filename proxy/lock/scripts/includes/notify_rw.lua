-- Notifies Redisson's waiters that a read-write lock is free, or that readers have it, unless
-- hasp's own clients wait for it. Names the channel as Redisson does.
-- include announce
local function notify_rw(lock, queue, message, counter)
	if queue and redis.call('EXISTS', queue) == 1 or redis.call('HGET', lock, 'mode') == 'write' then
		return
	end
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	announce('redisson_rwlock:' .. name, message, counter)
end
