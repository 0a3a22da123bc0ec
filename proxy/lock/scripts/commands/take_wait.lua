-- take_wait: SETNX and SET ... NX on a lock of a rule with `wait`.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  fence counter
-- KEYS[5]  sidecar (owner = value: the lock itself)
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  lease ms
-- ARGV[4]  ticket
-- ARGV[5]  how many ms to wait
-- ARGV[6]  value
-- ARGV[7]  form: SETNX, SET
-- ARGV[8]  place in the queue or ''
-- ARGV[9]  end of the lease in ms or 0
-- ARGV[10] 'refresh' or 'no'
-- ARGV[11] and more: tokens by which the client's own connection has the lock, see any_own()
--
-- A short call ends after the form: it has no place and no end, and the lock is not reentrant.
--
-- returns  the reply of Redis to that form: 1/0, OK/nil; QUEUED (see enqueue())
-- layout   hasp's: the lock as the application stored it, the owner beside it
-- include any_own
-- include check_owner
-- include client_error
-- include enforce_lease
-- include enqueue
-- include get_string
-- include hand_off
-- include record_try
local lock, record, queue, counter, side = unpack(KEYS)
local token, lease, ticket, wait_ms, value, form, place, until_ms, reentrant = unpack(ARGV, 2)
place, until_ms = place or '', until_ms or '0'
local took, refused = 1, 0
if form == 'SET' then
	took, refused = redis.status_reply('OK'), false
end
local option, number = 'PX', lease
if until_ms ~= '0' then
	option, number = 'PXAT', until_ms
end

local reply, held_ms = false, -1
-- break overtake_queue: if true then
if redis.call('EXISTS', queue) == 0 then
	held_ms = -2
	reply = redis.pcall('SET', lock, value, 'NX', option, number)
	if type(reply) == 'table' and reply.err then
		local command = 'SET'
		-- paste client_error
	end
	if reply and option == 'PX' then
		if side ~= lock then
			redis.call('SET', side, token .. ' ' .. value, 'PX', number)
		end
		-- Write the record as record_try() does.
		redis.call('SET', record, (side == lock and '-' or token) .. ' - ' .. ticket, 'PX', lease)
		return took
	end
end
local mine
if not reply then
	local held, wrong_type
	if reentrant == 'refresh' then
		held, mine, wrong_type = check_owner(lock, side, token)
		if side == lock then
			mine = held == value
		end
	else
		held, wrong_type = get_string(lock)
	end
	if not mine and (held or wrong_type or not hand_off(lock, record, queue, side, counter)) then
		local function has(own)
			return select(2, check_owner(lock, side, own))
		end
		if wait_ms == '0' or any_own(11, has) then
			return refused
		end
		return enqueue(lock, held_ms, queue, ticket, tonumber(wait_ms), place,
			(side == lock and 'v ' or 'r ') .. lease .. ' ' .. until_ms .. ' '
			.. (side == lock and '-' or token) .. ' ' .. value)
	end
	reply = redis.pcall('SET', lock, value, option, number)
	if reply.err then
		return client_error(reply, 'SET')
	end
end
enforce_lease(lock, side, token .. ' ' .. value, tonumber(lease), tonumber(lease))
record_try(lock, record, side, token, ticket, mine)
return took
