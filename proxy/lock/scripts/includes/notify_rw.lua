-- Tells Redisson's waiters for a read-write lock that it is free, or that readers have it, if nobody
-- is in line before them. Names the channel as Redisson does.
-- include announce
local function notify_rw(lock, queue, message, counter)
	if queue and redis.call('EXISTS', queue) == 1 or redis.call('HGET', lock, 'mode') == 'write' then
		return
	end
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	announce('redisson_rwlock:' .. name, message, counter)
end
