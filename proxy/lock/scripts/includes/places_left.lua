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
