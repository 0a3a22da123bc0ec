-- A semaphore lasts as long as the longest lease of its owners (see count_places.lua).
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
