-- poll: hasp's own question about a lock that its clients wait for. A lock that is free, because
-- its lease ended or a client released it without hasp, is handed off to the first waiter.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
-- KEYS[5]  fence counter
--
-- ARGV[1]  ticket of one of the waiters ('': only hand off)
-- ARGV[2]  its place
-- ARGV[3]  kind
-- ARGV[4]  token
-- ARGV[5]  value
-- ARGV[6]  lease ms to begin again if it has the lock by now, or ''
--
-- returns  what became of it (queued, granted, gone), for how many ms the lock is held (-1: for
--          ever, -2: not at all), its fencing token (0: none)
-- layout   any; see hand_off.lua
-- include find_entry
-- include granted_fence
-- include hand_off
local lock, record, queue, side, counter = unpack(KEYS)
local ticket, place, kind, token, value, lease = unpack(ARGV)
if redis.call('EXISTS', lock) == 0 and redis.call('EXISTS', queue) == 1 then
	hand_off(lock, record, queue, side, counter)
end
if ticket == '' then
	return { 'gone', redis.call('PTTL', lock), 0 }
end
if find_entry(queue, ticket, place) then
	return { 'queued', redis.call('PTTL', lock), 0 }
end
local fence = granted_fence(lock, record, side, kind, ticket, token, value, true)
if not fence then
	return { 'gone', redis.call('PTTL', lock), 0 }
end
if lease ~= '' and redis.call('PTTL', lock) < tonumber(lease) then
	redis.call('PEXPIRE', lock, lease)
	redis.call('PEXPIRE', record, lease)
	if kind == 'r' or kind == 'h' then
		-- (See add_hold.lua.)
		redis.call('PEXPIRE', side, lease + (kind == 'h' and 60000 or 0))
	end
end
return { 'granted', redis.call('PTTL', lock), fence }
