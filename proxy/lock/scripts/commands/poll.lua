-- poll: hasp's own question about a lock that its clients wait for. If the lock is free, because
-- its lease ended or a client released it without hasp, the script hands it off to the first
-- waiter.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  fence counter
-- KEYS[5]  sidecar
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  ticket of one of the waiters ('': only hand off)
-- ARGV[3]  the waiter's place
-- ARGV[4]  kind
-- ARGV[5]  token
-- ARGV[6]  value
-- ARGV[7]  lease ms to begin again if the waiter has the lock by now, or ''
--
-- returns  the outcome: queued, granted or gone; for how many ms the lock is held (a semaphore: for
--          how many ms the waiter has its place, or no place is free); the fencing token (0: none).
--          In place of the ms: -1: held for ever; -2: free; 0: poll again, because one call did not
--          remove all waiters that are gone
-- layout   any; see hand_off.lua
-- include begin_lease
-- include find_entry
-- include granted_fence
-- include hand_off
-- include hand_off_kind
-- include places_left
-- include read_left
-- include recorded_fence
local lock, record, queue, counter, side = unpack(KEYS)
local ticket, place, kind, token, value, lease = unpack(ARGV, 2)
local _, more
if kind == 'l' or kind == 'm' or kind == 'x'
	or redis.call('EXISTS', lock) == 0 and redis.call('EXISTS', queue) == 1 then
	_, more = hand_off_kind(lock, record, queue, side, counter, kind)
elseif kind == 'h' and ticket ~= '' and redis.pcall('HEXISTS', lock, token) == 1 then
	-- Another hasp process had handed the lock off to an earlier waiter of the same owner.
	local digits = select(2, recorded_fence(record, token))
	if digits then
		_, more = hand_off(lock, record, queue, side, counter, {
			token = token,
			fence = digits,
			lease = string.format('%.0f', redis.call('PTTL', lock)),
		})
	end
end
local held_ms = kind == 'l' and places_left(lock) or redis.call('PTTL', lock)
if ticket == '' then
	return { 'gone', held_ms, 0 }
end
if find_entry(queue, ticket, place) then
	return { 'queued', more and 0 or held_ms, 0 }
end
local fence = granted_fence(lock, record, side, kind, ticket, token, value, true)
if not fence then
	return { 'gone', held_ms, 0 }
end
if lease ~= '' then
	-- (add_hold() explains the 60 s.)
	local side_ms = kind == 'h' and 60000 or kind == 'r' and 0
	local refused = begin_lease(lock, record, side, token, kind == 'l' and 'zset' or kind, lease,
		true, side_ms)
	if refused then
		return refused
	end
end
if kind == 'l' then
	held_ms = places_left(lock, token)
elseif kind == 'm' then
	held_ms = read_left(lock, token, redis.call('HGET', lock, token))
else
	held_ms = redis.call('PTTL', lock)
end
return { 'granted', held_ms, fence }
