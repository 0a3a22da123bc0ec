-- The layout of a semaphore. The lock is a sorted set of its owners' tokens by the end of their
-- lease in ms. Its record is a hash {token: `<fencing token> <ticket>`}: a sorted set without such
-- a record is the application's own, and no lock.

-- Makes a semaphore last as long as the longest lease of its owners.
local function keep_places(lock, record)
	local last = redis.call('ZRANGE', lock, '-1', '-1', 'WITHSCORES')[2]
	if not last then
		redis.call('DEL', record)
		return
	end
	last = string.format('%.0f', last)
	redis.call('PEXPIREAT', lock, last)
	redis.call('PEXPIREAT', record, last)
end

-- Removes the owners of a semaphore whose lease is over, and returns how many are left. If the key
-- holds something else: nil and Redis' own error.
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

-- Returns true if the owner has a place.
local function has_limit(lock, token)
	return redis.call('ZSCORE', lock, token)
end

-- Returns true if `token` may have one of `limit` places now, or 'free' if no owner has a place.
-- The second result is 'mine' if `token` has a place already. For another type: nil, Redis' error.
-- include count_places
-- include has_limit
local function may_take_limit(lock, record, _, token, limit)
	local n, wrong_type = count_places(lock, record)
	if not n then
		return nil, wrong_type
	end
	if n == 0 then
		return 'free'
	end
	if has_limit(lock, token) then
		return true, 'mine'
	end
	-- break limit_more: return n <= tonumber(limit)
	return n < tonumber(limit)
end

-- Gives an owner a place of a semaphore, for `lease` ms from now; `longest`: does not shorten the
-- time of a place that the owner has. `note`: the new text in the record; nil: the record stays. If
-- Redis refuses the write, returns Redis' error: then nothing was written.
-- include format_ms
-- include keep_places
-- include write_when_full
local function set_place(lock, record, token, lease, longest, note)
	local now = redis.call('TIME')
	local ends_ms = now[1] * 1000 + math.floor(now[2] / 1000) + tonumber(lease)
	local before = longest and redis.call('ZSCORE', lock, token)
	if before and tonumber(before) > ends_ms then
		ends_ms = tonumber(before)
	end
	if not note then
		write_when_full(lock)
	end
	local reply = redis.pcall('ZADD', lock, format_ms(ends_ms), token)
	if type(reply) == 'table' then
		return reply
	end
	if note and type(redis.pcall('HSET', record, token, note)) == 'table' then
		-- (The record belongs to an earlier lock.)
		redis.call('DEL', record)
		redis.call('HSET', record, token, note)
	end
	keep_places(lock, record)
end

-- Takes a place of a semaphore for the owner of the try `ticket`. `is_free`: no owner has a place.
-- An owner that has a place already keeps the place and the fencing token. The script then marks
-- the try as not to be undone, because undoing it would take the place away. Returns the fencing
-- token; or Redis' error: then nothing was written.
-- include next_fence
-- include set_place
local function take_limit(lock, record, _, counter, token, lease, ticket, _, is_free)
	local had = not is_free and redis.call('ZSCORE', lock, token)
	local known = had and redis.call('HGET', record, token)
	local fence = known and tonumber(known:match('^%d+')) or next_fence(counter)
	if type(fence) == 'table' then
		return fence
	end
	local note = string.format('%.0f', fence) .. (known and ' =' or ' ') .. ticket
	return set_place(lock, record, token, lease, had, note) or fence
end

-- As take_free_count(), for a semaphore.
local function take_free_limit(lock, record, token, lease, ticket, _, digits, now)
	local ends_ms = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000) + lease)
	if type(redis.pcall('ZADD', lock, ends_ms, token)) ~= 'table'
		and type(redis.pcall('HSET', record, token, digits .. ' ' .. ticket)) ~= 'table' then
		redis.call('PEXPIREAT', lock, ends_ms)
		redis.call('PEXPIREAT', record, ends_ms)
		return now[1] * 1000000 + now[2]
	end
end

-- Gives an owner's place of a semaphore back.
-- include keep_places
local function end_place(lock, record, token)
	redis.call('ZREM', lock, token)
	redis.call('HDEL', record, token)
	keep_places(lock, record)
end

-- Admits the first waiters for a semaphore, as many as there are places. Returns the results of
-- hand_off().
-- include count_places
-- include hand_off
local function hand_off_places(lock, record, queue, side, counter)
	local n = count_places(lock, record)
	if n then
		return hand_off(lock, record, queue, side, counter, n > 0 and { places = true } or nil)
	end
end

-- Returns for how many ms `token` still has its place of a semaphore; without `token`, in how many
-- ms the first place ends. -2: no owner has a place; -1: the key is no semaphore.
local function places_left(lock, token)
	local first
	if token then
		first = { token, redis.call('ZSCORE', lock, token) or nil }
	else
		first = redis.pcall('ZRANGE', lock, '0', '0', 'WITHSCORES')
	end
	if first.err then
		return -1
	end
	if not first[2] then
		return -2
	end
	local now = redis.call('TIME')
	return math.max(0, first[2] - now[1] * 1000 - math.floor(now[2] / 1000))
end
