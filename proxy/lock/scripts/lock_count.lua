-- lock_count: LOCK in the layout `count`.
--
-- KEYS     lock, fence record, fence counter
-- ARGV     token, lease ms
-- returns  the fencing token; nil: another's
-- layout   Redisson's RLock: a hash {token: holds}
-- include as_sent.lua
-- include fence.lua
local lock, record, token, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local mine = redis.pcall('HEXISTS', lock, token)
if type(mine) == 'table' then
	return mine
end
if mine == 0 and redis.call('EXISTS', lock) == 1 then
	return false
end
local fence = mine == 1 and remembered(record, token) or new_fence(KEYS[3])
if type(fence) == 'table' then
	return as_sent(fence, 'LOCK')
end
local n = redis.pcall('HINCRBY', lock, token, 1)
if type(n) == 'table' then
	return n
end
redis.call('PEXPIRE', lock, lease)
remember(record, token, fence, lease)
return fence
