-- take_turn: SETNX and SET ... NX on a lock of a rule with `wait`.
--
-- KEYS     lock, record, queue, sidecar (owner = value: the lock itself), fence counter
-- ARGV     token, lease ms, ticket, how many ms to wait, place in the queue or '', value,
--          end of the lease in ms or 0, form (SETNX, SET), 'refresh' or 'no'
-- returns  what Redis answers to that form: 1/0, OK/nil; QUEUED (see stand.lua)
-- layout   hasp's: the lock as the application stored it, the owner beside it
local lock, record, queue, side = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, lease, value = ARGV[1], ARGV[2], ARGV[6]
local took, failed = 1, 0
if ARGV[8] == 'SET' then
	took, failed = redis.status_reply('OK'), false
end
local px, number = 'PX', lease
if ARGV[7] ~= '0' then
	px, number = 'PXAT', ARGV[7]
end
local reply, ticket, held_for = false, ARGV[3], -1
if redis.call('EXISTS', queue) == 0 then
	held_for = -2
	reply = redis.pcall('SET', lock, value, 'NX', px, number)
	if type(reply) == 'table' and reply.err then
		-- include as_sent.lua
		return as_sent(reply, 'SET')
	end
	if reply and px == 'PX' then
		if side ~= lock then
			redis.call('SET', side, token .. ' ' .. value, 'PX', number)
		end
		redis.call('SET', record, (side == lock and '-' or token) .. ' - ' .. ARGV[3], 'PX', lease)
		return took
	end
end
-- include common.lua
-- include queue.lua
-- include stand.lua
if not reply then
	local held, mine, wrong
	if ARGV[9] == 'refresh' then
		held, mine, wrong = whose(lock, side, token)
		if side == lock then
			mine = held == value
		end
	else
		held, wrong = get(lock)
	end
	if mine then
		-- Who has it already would lose it, if that were undone.
		reply, ticket = true, '-'
	elseif not held and not wrong and hand_over(lock, record, queue, side, KEYS[5]) then
		reply = true
	elseif ARGV[4] == '0' then
		return failed
	else
		local rest = (side == lock and 'v ' or 'r ') .. lease .. ' ' .. ARGV[7] .. ' '
			.. (side == lock and '-' or token) .. ' ' .. value
		return stand(lock, held_for, queue, ARGV[3], tonumber(ARGV[4]), ARGV[5], rest)
	end
	reply = redis.pcall('SET', lock, value, px, number)
	if reply.err then
		return as_sent(reply, 'SET')
	end
end
settle(lock, side, token .. ' ' .. value, tonumber(lease), tonumber(lease))
local left = redis.call('PTTL', lock)
if left > 0 then
	redis.call('SET', record, (side == lock and '-' or token) .. ' - ' .. ticket, 'PX', left)
end
return took
