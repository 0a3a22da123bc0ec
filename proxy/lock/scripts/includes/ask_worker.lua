-- Asks a waiter's worker to poll the lock. Returns how many clients of Redis get the message; not a
-- number if this user may not publish.
local function ask_worker(waiter)
	return redis.pcall('PUBLISH', 'hasp:worker:' .. waiter.worker, waiter.ticket .. ' look')
end
