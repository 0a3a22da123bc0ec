-- incr: INCR, or INCRBY by 1, on a rule's lock. The client that counts 1 has acquired it; later
-- counts change the lock's value, so the sidecar follows and the lock stays its owner's.
--
-- KEYS[1]  lock
-- KEYS[2]  sidecar (owner = value: the lock itself)
-- KEYS[3]  record
--
-- ARGV[1]  token
-- ARGV[2]  lease ms
-- ARGV[3]  ticket
-- ARGV[4]  the command as it was sent, and ARGV[5], if it is INCRBY, its number
--
-- returns  the count
-- layout   hasp's
-- include client_error
-- include hasp_error
-- include int_overflow
-- include record_try
local lock, side, record = unpack(KEYS)
local token, lease, ticket, command = unpack(ARGV)
local count = redis.pcall(command, lock, unpack(ARGV, 5))
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
	local note = redis.pcall('GET', side)
	local space = type(note) == 'string' and note:find(' ', 1, true)
	-- break forget_count: if false then
	if space and note:sub(space + 1) == string.format('%.0f', count - 1) then
		note = note:sub(1, space) .. string.format('%.0f', count)
		redis.call('SET', side, note, 'KEEPTTL')
	end
end
if redis.call('PTTL', lock) == -1 then
	redis.call('PEXPIRE', lock, lease)
	redis.call('PEXPIRE', side, lease)
end
return count
