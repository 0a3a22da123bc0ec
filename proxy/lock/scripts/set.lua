-- set: SET without NX, SETEX, PSETEX and GETSET on a rule's lock.
--
-- KEYS     lock, sidecar
-- ARGV     token, value, expiry option (PX, EXAT, PXAT, KEEPTTL), its number (KEEPTTL: ''),
--          form (SET, XX, GET, XXGET, GETSET), lease ms, longest lease ms
-- returns  what Redis answers to that form. Another's lock: nil with XX, LOCKED
--          without. Not the holder's value: who has read that before (GET, then GETSET: the
--          same value means that nobody was faster) would take it for success.
-- layout   hasp's
-- include common.lua
local lock, side, token, value = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local option, number, form = ARGV[3], ARGV[4], ARGV[5]
local held, mine, wrong = whose(lock, side, token)
if side == lock and held then
	mine = held == token or held == value
end
if mine == false then
	if form == 'XX' or form == 'XXGET' then
		return false
	end
	return locked(lock)
end
local reply
if form == 'GETSET' then
	if wrong then
		return wrong
	end
	reply = redis.pcall('SET', lock, value, option, number)
else
	local argv = { 'SET', lock, value, option }
	if option ~= 'KEEPTTL' then
		argv[#argv + 1] = number
	end
	if form == 'XX' or form == 'XXGET' then
		argv[#argv + 1] = 'XX'
	end
	if form == 'GET' or form == 'XXGET' then
		argv[#argv + 1] = 'GET'
	end
	reply = redis.pcall(unpack(argv))
end
if type(reply) == 'table' and reply.err then
	return as_sent(reply, 'SET')
end
if not reply and form ~= 'GET' then
	return reply
end
if option ~= 'PX' then
	settle(lock, side, token .. ' ' .. value, tonumber(ARGV[6]), tonumber(ARGV[7]))
elseif side ~= lock then
	redis.call('SET', side, token .. ' ' .. value, 'PX', number)
end
if form == 'GETSET' then
	return held or false
end
return reply
