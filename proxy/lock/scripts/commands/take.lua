-- take: SETNX and SET ... NX on a rule's lock.
--
-- KEYS[1]  lock
-- KEYS[2]  sidecar (owner = value: the lock itself)
-- KEYS[3]  record
--
-- ARGV[1]  token
-- ARGV[2]  value
-- ARGV[3]  argument of the expiry option
-- ARGV[4]  form: SETNX, SET, GET
-- ARGV[5]  ticket
-- ARGV[6]  expiry option: PX, EXAT, PXAT
-- ARGV[7]  'refresh' or 'no'
-- ARGV[8]  lease ms
-- ARGV[9]  longest lease ms
--
-- A short call ends after the ticket. Then the option is PX, and the lock is not reentrant.
--
-- returns  the reply of Redis to that form: 1/0, OK/nil, nil/the old value
-- layout   hasp's: the lock as the application stored it, the owner beside it
-- include check_owner
-- include client_error
-- include enforce_lease
-- include record_try
local lock, side, record = unpack(KEYS)
local token, value, number, form, ticket, option, reentrant, lease, max_lease = unpack(ARGV)
option = option or 'PX'
local reply
if form == 'GET' then
	reply = redis.pcall('SET', lock, value, 'NX', 'GET', option, number)
else
	reply = redis.pcall('SET', lock, value, 'NX', option, number)
end
if type(reply) == 'table' and reply.err then
	local command = 'SET'
	-- paste client_error
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
	-- Write the record as record_try() does.
	redis.call('SET', record, (side == lock and '-' or token) .. ' - ' .. ticket, 'PX', number)
	return reply
end
if not took and reentrant ~= 'refresh' then
	return reply
end
if not took then
	local held, mine = check_owner(lock, side, token)
	if side == lock then
		mine = held == value
	end
	if not mine then
		return reply
	end
	reply = redis.pcall('SET', lock, value, option, number)
	if reply.err then
		return client_error(reply, 'SET')
	end
	if form == 'SETNX' then
		reply = 1
	elseif form == 'GET' then
		reply = false
	end
end
enforce_lease(lock, side, token .. ' ' .. value, tonumber(lease), tonumber(max_lease))
record_try(lock, record, side, token, ticket, not took)
return reply
