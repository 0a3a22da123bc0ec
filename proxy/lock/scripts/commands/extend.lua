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
-- include begin_lease
-- include client_error
-- include count_holds
-- include live_reads
local lock, record, side = unpack(KEYS)
local token, layout, lease = unpack(ARGV)
local holds, found = count_holds(lock, record, token, layout)
if not holds then
	return found
end
if holds == 0 then
	return 0
end
local refused
if found == 'x' and live_reads(lock, token, redis.call('HGET', lock, token)) > 0 then
	refused = begin_lease(lock, record, side, token, 'm', lease, false, false)
end
-- (add_hold() explains the 60 s.)
refused = refused
	or begin_lease(lock, record, side, token, found, lease, false, holds > 1 and 60000)
return refused and client_error(refused, 'EXTEND') or 1
