-- release: hasp's own release of a rule's lock.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  fence counter
-- KEYS[5]  sidecar (owner = value: the lock itself)
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token (owner = value: the value)
-- ARGV[3]  ticket of the try that took the lock: if there is a record, it must have this ticket.
--          '-': a script of the application took the lock, so a record is of an earlier try
-- ARGV[4]  how many ms of the lease may be left (0: no limit); if more is left, the owner has taken
--          the lock again
--
-- returns  1; 0 if this owner no longer has the lock. If others have raised a counter, it loses
--          only the part that its owner added
-- layout   hasp's
-- include check_owner
-- include hand_off
-- include is_retaken
-- include take_back
local lock, record, queue, counter, side = unpack(KEYS)
local token, ticket, most_ms = ARGV[2], ARGV[3], tonumber(ARGV[4])
local _, mine = check_owner(lock, side, token)
if not mine or is_retaken(lock, side) then
	return 0
end
-- (A lock may outlive its record, for example if a script of the application sets the expiry.)
local note = redis.pcall('GET', record)
if ticket ~= '-' and type(note) == 'string' and note:match('^%S+ %S+ =?(.+)$') ~= ticket then
	return 0
end
if most_ms > 0 and redis.call('PTTL', lock) > most_ms then
	return 0
end
if take_back(lock, record, side) then
	return 1
end
redis.call('DEL', lock, side, record)
if redis.call('EXISTS', queue) == 0 then
	return 1
end
hand_off(lock, record, queue, side, counter)
return 1
