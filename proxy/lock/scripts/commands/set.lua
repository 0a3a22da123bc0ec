-- set: SET without NX, SETEX, PSETEX and GETSET on a rule's lock.
--
-- KEYS[1]  lock
-- KEYS[2]  sidecar (owner = value: the lock itself)
-- KEYS[3]  record
--
-- ARGV[1]  token
-- ARGV[2]  value
-- ARGV[3]  expiry option: PX, EXAT, PXAT, KEEPTTL
-- ARGV[4]  argument of the expiry option (KEEPTTL: '')
-- ARGV[5]  form: SET, XX, GET, XXGET, GETSET
-- ARGV[6]  lease ms
-- ARGV[7]  longest lease ms
-- ARGV[8]  ticket
--
-- returns  the reply of Redis to that form. For another owner's lock: nil with XX, LOCKED without.
--          Does not return the other owner's value. To a client that has read this value by GET,
--          the same value from GETSET would mean success: that no other client was faster
-- layout   hasp's
-- include check_owner
-- include client_error
-- include enforce_lease
-- include hasp_error
-- include record_try
local lock, side, record = unpack(KEYS)
local token, value, option, number, form, lease, max_lease, ticket = unpack(ARGV)
local held, mine, wrong_type = check_owner(lock, side, token)
if side == lock and held then
	mine = held == token or held == value
end
-- break set_by_anybody: if false then
if mine == false then
	if form == 'XX' or form == 'XXGET' then
		return false
	end
	return hasp_error('held', lock)
end
local reply
if form == 'GETSET' then
	if wrong_type then
		return wrong_type
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
	return client_error(reply, 'SET')
end
if not reply and form ~= 'GET' then
	return reply
end
if option == 'PX' then
	if side ~= lock then
		redis.call('SET', side, token .. ' ' .. value, 'PX', number)
	end
	record_try(lock, record, side, token, ticket, mine, number)
else
	enforce_lease(lock, side, token .. ' ' .. value, tonumber(lease), tonumber(max_lease))
	record_try(lock, record, side, token, ticket, mine)
end
if form == 'GETSET' then
	return held or false
end
return reply
