-- lock_count: LOCK in the layout `count`.
--
-- KEYS     lock, record, queue, sidecar, fence counter
-- ARGV     token, lease ms, ticket, how many ms to wait, place in the queue or ''
-- returns  the fencing token; nil: another's; QUEUED (see stand.lua)
-- layout   Redisson's RLock: a hash {token: holds}
-- include as_sent.lua
-- include fence.lua
local lock, record, queue = KEYS[1], KEYS[2], KEYS[3]
local token, lease, ticket = ARGV[1], ARGV[2], ARGV[3]
local there, mine = redis.call('EXISTS', lock, queue), 0
if there > 0 then
	mine = redis.pcall('HEXISTS', lock, token)
	if type(mine) == 'table' then
		return mine
	end
end
if mine == 0 and there > 0 then
	-- include queue.lua
	-- include stand.lua
	-- When it ends is watched already for those who stand in line.
	local held = -1
	if there == 1 then
		held = redis.call('PTTL', lock)
	end
	if held ~= -2 or not hand_over(lock, record, queue, KEYS[4], KEYS[5]) then
		if ARGV[4] == '0' then
			return false
		end
		return stand(lock, held, queue, ticket, tonumber(ARGV[4]), ARGV[5],
			'h ' .. lease .. ' 0 ' .. token .. ' ')
	end
end
local known = mine == 1 and remembered(record, token)
local fence = known or new_fence(KEYS[5])
if type(fence) == 'table' then
	return as_sent(fence, 'LOCK')
end
local n = redis.pcall('HINCRBY', lock, token, '1')
if type(n) == 'table' then
	return n
end
if mine == 1 then
	-- No hold ends before it was to.
	local left = redis.call('PTTL', lock)
	if left > tonumber(lease) then
		lease = string.format('%.0f', left)
	end
end
redis.call('PEXPIRE', lock, lease)
if known then
	-- include join.lua
	redis.call('PEXPIRE', record, lease)
	join(KEYS[4], string.format('%.0f', fence), ticket, lease)
else
	remember(record, token, fence, ticket, lease)
end
return fence
