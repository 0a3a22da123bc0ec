-- extend: LOCK.EXTEND.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  sidecar
--
-- ARGV[1]  token
-- ARGV[2]  layout: 'hash', 'string'
-- ARGV[3]  lease ms
--
-- returns  1; 0: this owner does not have the lock
-- layout   Redisson's RLock or go-zero's RedisLock, a semaphore (see count_places()), or a
--          read-write lock (see rw.lua): extends all holds of the owner
-- include client_error
-- include count_holds
-- include live_reads
-- include set_lease_rw
-- include set_place
local lock, record, side = unpack(KEYS)
local token, layout, lease = unpack(ARGV)
local holds, found = count_holds(lock, record, token, layout)
if not holds then
	return found
end
if holds == 0 then
	return 0
end
if found == 'zset' then
	local refused = set_place(lock, record, token, lease, false)
	return refused and client_error(refused, 'EXTEND') or 1
end
if found == 'm' or found == 'x' then
	local reads = found == 'm' or live_reads(lock, token, redis.call('HGET', lock, token)) > 0
	local refused = reads and set_lease_rw(lock, record, side, token, 'm', lease, false)
	if not refused and found == 'x' then
		refused = set_lease_rw(lock, record, side, token, 'x', lease, false)
	end
	return refused and client_error(refused, 'EXTEND') or 1
end
local reply = redis.pcall('PEXPIRE', lock, lease)
if type(reply) == 'table' then
	return client_error(reply, 'EXTEND')
end
redis.call('PEXPIRE', record, lease)
if holds > 1 then
	-- (add_hold() explains the 60 s.)
	redis.call('PEXPIRE', side, string.format('%.0f', lease + 60000))
end
return 1
