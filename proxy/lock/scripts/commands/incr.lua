-- incr: INCR, or INCRBY by 1, on a rule's lock. The client that counts to 1 has acquired it. Later
-- counts change the lock's value, so the script updates the sidecar, and the owner keeps the lock.
--
-- KEYS[1]  lock
-- KEYS[2]  sidecar (owner = value: the lock itself)
-- KEYS[3]  record
--
-- ARGV[1]  token
-- ARGV[2]  lease ms
-- ARGV[3]  ticket
-- ARGV[4]  'shared' if several connections have this token, or ''
-- ARGV[5]  the command as it was sent, and ARGV[6], if it is INCRBY, its number
--
-- returns  the count
-- layout   hasp's
-- include add_lease
-- include client_error
-- include hasp_error
-- include int_overflow
-- include recount
-- include record_try
local lock, side, record = unpack(KEYS)
local token, lease, ticket, terms, command = unpack(ARGV)
local count = redis.pcall(command, lock, unpack(ARGV, 6))
if type(count) == 'table' then
	return client_error(count, command)
end
if count == 1 then
	redis.call('PEXPIRE', lock, lease)
	if side ~= lock then
		redis.call('SET', side, token .. ' 1', 'PX', lease)
		record_try(lock, record, side, token, ticket, false, lease)
	end
	return count
end
if int_overflow(count) then
	redis.call('DECR', lock)
	return hasp_error('overflow')
end
if side ~= lock then
	local note = recount(side, token, terms, count - 1, count)
	-- break forget_count: if false then
	if note then
		redis.call('SET', side, note, 'KEEPTTL')
	end
end
add_lease(lock, side, record, lease)
return count
