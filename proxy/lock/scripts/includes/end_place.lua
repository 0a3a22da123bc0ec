-- Gives an owner's place of a semaphore back (see count_places.lua).
-- include keep_places
local function end_place(lock, record, token)
	redis.call('ZREM', lock, token)
	redis.call('HDEL', record, token)
	keep_places(lock, record)
end
