-- Tells Redisson's waiters for a read-write lock that it is free, or that readers have it, if nobody
-- is in line before them. Names the channel as Redisson does.
local function notify_rw(lock, queue, message)
	if redis.call('EXISTS', queue) == 1 or redis.call('HGET', lock, 'mode') == 'write' then
		return
	end
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	redis.pcall('PUBLISH', 'redisson_rwlock:' .. name, message)
end
