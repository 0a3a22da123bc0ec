-- Gives an owner a place of a semaphore (see count_places.lua), for `lease` ms from now; `longest`:
-- does not shorten the time of a present place. `note` is for the record; nil: it has one. Returns
-- Redis' error if it refuses: then nothing was written.
-- include format_ms
-- include keep_places
local function set_place(lock, record, token, lease, longest, note)
	local now = redis.call('TIME')
	local ends_ms = now[1] * 1000 + math.floor(now[2] / 1000) + tonumber(lease)
	local before = longest and redis.call('ZSCORE', lock, token)
	if before and tonumber(before) > ends_ms then
		ends_ms = tonumber(before)
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
