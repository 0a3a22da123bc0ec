-- lock_string: LOCK in the layouts `refresh` and `no`.
--
-- KEYS     lock, fence record, fence counter
-- ARGV     token, lease ms, 'refresh' or 'no'
-- returns  the fencing token; nil: held, for 'refresh' by another
-- layout   go-zero's RedisLock: a string holding the token
-- include as_sent.lua
-- include fence.lua
local lock, record, token, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local owner = redis.pcall('GET', lock)
if type(owner) == 'table' then
	return owner
end
if owner and (owner ~= token or ARGV[3] ~= 'refresh') then
	return false
end
local fence = owner and remembered(record, token) or new_fence(KEYS[3])
if type(fence) == 'table' then
	return as_sent(fence, 'LOCK')
end
redis.call('SET', lock, token, 'PX', lease)
remember(record, token, fence, lease)
return fence
