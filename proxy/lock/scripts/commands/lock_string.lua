-- lock_string: LOCK in the layouts `refresh` and `no`.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
-- KEYS[5]  fence counter
--
-- KEYS of a short call: lock, record, queue, fence counter; its ARGV: token, lease ms, ticket,
-- 'refresh' or 'no'. A full call has these ARGV:
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  lease ms
-- ARGV[4]  ticket
-- ARGV[5]  how many ms to wait
-- ARGV[6]  place in the queue or ''
-- ARGV[7]  'refresh' or 'no'
-- ARGV[8]  and more: tokens by which the client's own connection has the lock, see any_own()
--
-- returns  the fencing token; nil: held, for 'refresh' by another owner; QUEUED (see enqueue());
--          to a short call, BUSY: it has done nothing, because only a full one can
-- layout   go-zero's RedisLock: a string holding the token
-- include any_own
-- include client_error
-- include enqueue
-- include hand_off
-- include next_fence
-- include recorded_fence
-- include write_record
local lock, record, queue, side, counter = unpack(KEYS)
local is_short = #KEYS == 4
local token, lease, ticket, wait_ms, place, reentrant = unpack(ARGV, is_short and 1 or 2)
if is_short then
	counter, reentrant = side, wait_ms
end
local owner = redis.pcall('GET', lock)
if type(owner) == 'table' then
	return owner
end
local mine = owner == token and reentrant == 'refresh'

-- break overtake_queue: if not mine and owner then
if not mine and (owner or redis.call('EXISTS', queue) == 1) then
	if not owner and is_short then
		return redis.status_reply('BUSY')
	end
	if owner or not hand_off(lock, record, queue, side, counter) then
		local function has(own)
			return own == owner
		end
		if is_short or wait_ms == '0' or any_own(8, has) then
			return false
		end
		return enqueue(lock, -2, queue, ticket, tonumber(wait_ms), place,
			's ' .. lease .. ' 0 ' .. token .. ' ')
	end
end

local fence, digits
if owner then
	fence, digits = recorded_fence(record, token)
end
if not fence then
	fence, digits = next_fence(counter)
end
if type(fence) == 'table' then
	return client_error(fence, 'LOCK')
end
redis.call('SET', lock, token, 'PX', lease)
-- Mark the try, because undoing it would take the lock from an owner that had it before.
write_record(record, token, digits, owner and '=' .. ticket or ticket, lease)
return fence
