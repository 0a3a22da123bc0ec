-- Removes the owners of a semaphore whose lease is over, and returns how many are left. If the key
-- holds something else: nil and Redis' own error.
--
-- The lock is a sorted set of its owners' tokens by the end of their lease in ms. Its record is a
-- hash {token: `<fencing token> <ticket>`}: a sorted set without it is the application's own.
-- include format_ms
-- include keep_places
local function count_places(lock, record)
	local n = redis.pcall('ZCARD', lock)
	if type(n) == 'table' then
		return nil, n
	end
	if n == 0 then
		return 0
	end
	if redis.call('TYPE', record).ok ~= 'hash' then
		return nil, redis.error_reply(
			'WRONGTYPE Operation against a key holding the wrong kind of value')
	end
	local now = redis.call('TIME')
	local now_ms = format_ms(now[1] * 1000 + math.floor(now[2] / 1000))
	local left = n
	local over
	repeat
		over = redis.call('ZRANGEBYSCORE', lock, '-inf', now_ms, 'LIMIT', '0', '1000')
		if over[1] then
			redis.call('ZREM', lock, unpack(over))
			redis.call('HDEL', record, unpack(over))
			left = left - #over
		end
	until #over < 1000
	if left < n then
		keep_places(lock, record)
	end
	return left
end
