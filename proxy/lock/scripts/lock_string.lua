-- lock_string: LOCK in the layouts `refresh` and `no`.
--
-- KEYS     lock, record, queue, sidecar, fence counter
-- ARGV     token, lease ms, ticket, how many ms to wait, place in the queue or '',
--          'refresh' or 'no'
-- returns  the fencing token; nil: held, for 'refresh' by another; QUEUED (see stand.lua)
-- layout   go-zero's RedisLock: a string holding the token
-- include as_sent.lua
-- include fence.lua
local lock, record, queue = KEYS[1], KEYS[2], KEYS[3]
local token, lease, ticket = ARGV[1], ARGV[2], ARGV[3]
local owner = redis.pcall('GET', lock)
if type(owner) == 'table' then
	return owner
end
local mine = owner == token and ARGV[6] == 'refresh'
if not mine and (owner or redis.call('EXISTS', queue) == 1) then
	-- include queue.lua
	-- include stand.lua
	if owner or not hand_over(lock, record, queue, KEYS[4], KEYS[5]) then
		if ARGV[4] == '0' then
			return false
		end
		return stand(lock, -2, queue, ticket, tonumber(ARGV[4]), ARGV[5],
			's ' .. lease .. ' 0 ' .. token .. ' ')
	end
end
local fence = owner and remembered(record, token) or new_fence(KEYS[5])
if type(fence) == 'table' then
	return as_sent(fence, 'LOCK')
end
redis.call('SET', lock, token, 'PX', lease)
-- Who has it already would lose it, if that were undone: so it is marked.
remember(record, token, fence, owner and '=' .. ticket or ticket, lease)
return fence
