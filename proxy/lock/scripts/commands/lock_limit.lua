-- lock_limit: LOCK ... LIMIT n.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
-- KEYS[5]  fence counter
--
-- KEYS of a short call: lock, record, queue, fence counter; its ARGV: token, lease ms, ticket, how
-- many owners there may be. A full call has these ARGV:
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  lease ms
-- ARGV[4]  ticket
-- ARGV[5]  how many ms to wait
-- ARGV[6]  place in the queue or ''
-- ARGV[7]  how many owners there may be
-- ARGV[8]  and more: tokens by which the client's own connection has a place, see any_own()
--
-- returns  the fencing token; nil: all places are taken; QUEUED (see enqueue()); to a short call,
--          BUSY: it has done nothing, because only a full one can
-- layout   hasp's own: see count_places()
-- include any_own
-- include client_error
-- include count_places
-- include enqueue
-- include hand_off_places
-- include places_left
-- include take_place
local lock, record, queue, side, counter = unpack(KEYS)
local is_short = #KEYS == 4
local token, lease, ticket, wait_ms, place, limit = unpack(ARGV, is_short and 1 or 2)
if is_short then
	counter, limit = side, wait_ms
end
local n, wrong_type = count_places(lock, record)
if not n then
	return wrong_type
end
local mine = n > 0 and redis.call('ZSCORE', lock, token)
if not mine and redis.call('EXISTS', queue) == 1 then
	if is_short then
		return redis.status_reply('BUSY')
	end
	hand_off_places(lock, record, queue, side, counter)
	if redis.call('EXISTS', queue) == 1 then
		n = math.huge
	else
		n, wrong_type = count_places(lock, record)
		if not n then
			return wrong_type
		end
	end
end
-- break limit_more: if not mine and n > tonumber(limit) then
if not mine and n >= tonumber(limit) then
	local function has(own)
		return redis.call('ZSCORE', lock, own)
	end
	if is_short or wait_ms == '0' or any_own(8, has) then
		return false
	end
	return enqueue(lock, places_left(lock), queue, ticket, tonumber(wait_ms), place,
		'l ' .. lease .. ' 0 ' .. token .. ' ' .. limit)
end
local fence = take_place(lock, record, counter, token, lease, ticket)
if type(fence) == 'table' then
	return client_error(fence, 'LOCK')
end
return fence
