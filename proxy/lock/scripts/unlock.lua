-- unlock: UNLOCK, and hasp's own release of a verbs' lock.
--
-- KEYS     lock, record, queue, sidecar, fence counter
-- ARGV     token, layout ('hash', 'string'), '' or the ticket of the acquisition that is meant,
--          which must be the latest
-- returns  1 released (and handed to the first waiter), or one hold given back; 0 not this
--          owner's
-- layout   Redisson's RLock, with its message to its waiters, or go-zero's RedisLock
-- include as_sent.lua
-- include verbs.lua
local lock, token = KEYS[1], ARGV[1]
local n, layout = holds(lock, token, ARGV[2])
if not n then
	return layout
end
if n == 0 then
	return 0
end
if ARGV[3] ~= '' then
	local v = redis.pcall('GET', KEYS[2])
	if type(v) ~= 'string' or v:match('^%S+ %S+ =?(.+)$') ~= ARGV[3] then
		return 0
	end
end
if n > 1 then
	local left = redis.pcall('HINCRBY', lock, token, '-1')
	if type(left) == 'table' then
		return as_sent(left, 'UNLOCK')
	end
	return 1
end
local reply = redis.pcall('DEL', lock, KEYS[2], KEYS[4])
if type(reply) == 'table' then
	return as_sent(reply, 'UNLOCK')
end
-- include queue.lua
if hand_over(lock, KEYS[2], KEYS[3], KEYS[4], KEYS[5]) and layout == 'hash' then
	-- include redisson.lua
	tell_redisson(lock)
end
return 1
