-- lock_count: LOCK in the layout `count`.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
-- KEYS[5]  fence counter
--
-- KEYS of a short call may leave out the sidecar; its ARGV: token, lease ms, ticket. A full call
-- has these ARGV:
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  lease ms
-- ARGV[4]  ticket
-- ARGV[5]  how many ms to wait
-- ARGV[6]  place in the queue or ''
-- ARGV[7]  and more: tokens by which the client's own connection has the lock, see any_own()
--
-- returns  the fencing token; nil: another owner has it; QUEUED (see enqueue()); to a short call,
--          BUSY: it has done nothing, because only a full one can
-- layout   Redisson's RLock: a hash {token: holds}
-- include add_hold
-- include any_own
-- include client_error
-- include enqueue
-- include hand_off
-- include next_fence
-- include recorded_fence
-- include write_record
local lock, record, queue, side, counter = unpack(KEYS)
local is_short = #ARGV == 3
local has_side = counter
if not has_side then
	counter = side
end
local token, lease, ticket, wait_ms, place = unpack(ARGV, is_short and 1 or 2)
-- break overtake_queue: local existing, mine = redis.call('EXISTS', lock), 0
local existing, mine = redis.call('EXISTS', lock, queue), 0
if existing > 0 then
	local fields = redis.pcall('HMGET', lock, token, 'mode')
	if fields.err then
		return fields
	end
	if fields[2] == 'read' or fields[2] == 'write' then
		return redis.error_reply(
			'WRONGTYPE Operation against a key holding the wrong kind of value')
	end
	mine = fields[1] and 1 or 0
	if mine == 1 and not has_side then
		return redis.status_reply('BUSY')
	end
end

if mine == 0 and existing > 0 then
	-- If clients wait, hasp probes the lock by itself when its lease ends.
	local held_ms = -1
	if existing == 1 then
		held_ms = redis.call('PTTL', lock)
	end
	if held_ms == -2 and is_short then
		return redis.status_reply('BUSY')
	end
	if held_ms ~= -2 or not hand_off(lock, record, queue, side, counter) then
		local function has(own)
			return redis.call('HMGET', lock, own)[1]
		end
		if is_short or wait_ms == '0' or any_own(7, has) then
			return false
		end
		return enqueue(lock, held_ms, queue, ticket, tonumber(wait_ms), place,
			'h ' .. lease .. ' 0 ' .. token .. ' ')
	end
end

local fence, digits
if mine == 1 then
	fence, digits = recorded_fence(record, token)
end
local is_recorded = fence
if not fence then
	fence, digits = next_fence(counter)
end
if type(fence) == 'table' then
	return client_error(fence, 'LOCK')
end
local holds = redis.pcall('HINCRBY', lock, token, '1')
if type(holds) == 'table' then
	return holds
end
if mine == 1 then
	-- This hold must not shorten the lease of another one.
	local left = redis.call('PTTL', lock)
	if left > tonumber(lease) then
		lease = string.format('%.0f', left)
	end
end
redis.call('PEXPIRE', lock, lease)
if not is_recorded then
	write_record(record, token, digits, ticket, lease)
	return fence
end
redis.call('PEXPIRE', record, lease)
add_hold(side, digits, ticket, lease)
return fence
