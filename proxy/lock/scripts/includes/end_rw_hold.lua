-- An owner gives back one hold of a side of a read-write lock (see rw_allows.lua). The time of
-- another of its holds gets no shorter by that. Returns true when another owner may have the lock
-- now: it is gone, or its writer is a reader from now on.
-- include keep_readers
-- include read_timeouts
local function end_rw_hold(lock, record, side, token, kind)
	local field = kind == 'x' and token .. ':write' or token
	local n = tonumber(redis.call('HGET', lock, field)) or 1
	local own = -2
	if kind == 'm' then
		local timeouts = read_timeouts(lock, token)
		own = redis.call('PTTL', timeouts .. n)
		redis.call('DEL', timeouts .. n)
		if n > 1 and own > redis.call('PTTL', timeouts .. n - 1) then
			redis.call('SET', timeouts .. n - 1, '1', 'PX', own)
		end
	end
	if n > 1 then
		redis.call('HINCRBY', lock, field, '-1')
		return false
	end
	redis.call('HDEL', lock, field)
	redis.pcall('HDEL', record, field)
	if redis.call('HLEN', lock) == 1 then
		redis.call('DEL', lock, record, side)
		return true
	end
	if kind == 'x' then
		redis.call('HSET', lock, 'mode', 'read')
		keep_readers(lock, record, side)
		return true
	end
	-- The lock lasts as long as the longest hold, which was perhaps this one.
	return redis.call('HGET', lock, 'mode') == 'read' and own + 5 >= redis.call('PTTL', lock)
		and not keep_readers(lock, record, side, math.max(own, 0))
end
