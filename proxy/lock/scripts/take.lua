-- take: SETNX and SET ... NX on a rule's lock.
--
-- KEYS     lock, sidecar
-- ARGV     token, value, expiry option (PX, EXAT, PXAT), its number,
--          form (SETNX, SET, GET), 'refresh' or 'no', lease ms, longest lease ms
-- returns  what Redis answers to that form: 1/0, OK/nil, nil/the old value
-- layout   hasp's: the lock as the application stored it, the owner beside it
local lock, side, token, value = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local option, number, form = ARGV[3], ARGV[4], ARGV[5]
local reply
if form == 'GET' then
	reply = redis.pcall('SET', lock, value, 'NX', 'GET', option, number)
else
	reply = redis.pcall('SET', lock, value, 'NX', option, number)
end
if type(reply) == 'table' and reply.err then
	-- include as_sent.lua
	return as_sent(reply, 'SET')
end
local took = reply
if form == 'GET' then
	took = not reply
elseif form == 'SETNX' then
	reply = reply and 1 or 0
end
if took and option == 'PX' then
	if side ~= lock then
		redis.call('SET', side, token .. ' ' .. value, 'PX', number)
	end
	return reply
end
if not took and ARGV[6] ~= 'refresh' then
	return reply
end
-- include common.lua
if not took then
	local held, mine = whose(lock, side, token)
	if side == lock then
		mine = held == value
	end
	if not mine then
		return reply
	end
	reply = redis.pcall('SET', lock, value, option, number)
	if reply.err then
		return as_sent(reply, 'SET')
	end
	if form == 'SETNX' then
		reply = 1
	elseif form == 'GET' then
		reply = false
	end
end
settle(lock, side, token .. ' ' .. value, tonumber(ARGV[7]), tonumber(ARGV[8]))
return reply
