-- info: LOCK.INFO.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
--
-- ARGV[1]  RESP version of the client
--
-- returns  owner, holds, ttl (ms; -1: none), fence (nil: not known), waiters, each behind its name
--          (RESP3: a map); nil: free
-- layout   Redisson's RLock or go-zero's RedisLock, whichever the key holds
-- include recorded_fence
local lock, record, queue = unpack(KEYS)
local resp = ARGV[1]
local layout = redis.call('TYPE', lock).ok
if layout == 'none' then
	return false
end
local owner, holds
if layout == 'hash' then
	-- A lock has one field; whatever else this may be, do not walk all of it.
	local fields = redis.pcall('HSCAN', lock, 0, 'COUNT', 1)
	if fields.err then
		return fields
	end
	owner, holds = fields[2][1] or '', tonumber(fields[2][2]) or 0
else
	owner, holds = redis.pcall('GET', lock), 1
	if type(owner) == 'table' then
		return owner
	end
end
local waiters = redis.pcall('ZCARD', queue)
if type(waiters) == 'table' then
	waiters = 0
end
local ttl, fence = redis.call('PTTL', lock), recorded_fence(record, owner) or false
if resp == '3' then
	return {
		map = { owner = owner, holds = holds, ttl = ttl, fence = fence, waiters = waiters },
	}
end
return { 'owner', owner, 'holds', holds, 'ttl', ttl, 'fence', fence, 'waiters', waiters }
