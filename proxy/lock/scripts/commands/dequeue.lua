-- dequeue: takes a try out of the queue, because its client has given up. If the try has got the
-- lock, by a grant or at once (and the reply was lost), the script undoes or reports that.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  fence counter
-- KEYS[5]  sidecar
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  ticket
-- ARGV[3]  the try's place ('': not known, '0': it never was in the queue)
-- ARGV[4]  kind
-- ARGV[5]  token
-- ARGV[6]  value
-- ARGV[7]  'undo', or 'tell' to leave the lock to the try
-- ARGV[8]  if the place is not known: how many ms ago the try was sent
--
-- returns  the outcome (left, granted, undone, gone), for how many ms the lock is held, the fencing
--          token (0: none)
-- layout   any; see hand_off.lua
-- include end_place
-- include find_entry
-- include undo_try
-- include granted_fence
-- include hand_off_kind
-- include places_left
-- include read_left
local lock, record, queue, counter, side = unpack(KEYS)
local ticket, place, kind, token, value, what, age_ms = unpack(ARGV, 2)
local entry = place ~= '0' and find_entry(queue, ticket, place, age_ms)
if entry then
	redis.call('ZREM', queue, entry)
	-- This try may have kept later waiters from a free lock: see wake().
	if kind == 'l' or kind == 'm' or kind == 'x' or redis.call('EXISTS', lock) == 0 then
		hand_off_kind(lock, record, queue, side, counter, kind)
	end
	return { 'left', 0, 0 }
end
local fence = granted_fence(lock, record, side, kind, ticket, token, value,
	what == 'tell')
if not fence then
	return { 'gone', 0, 0 }
end
if what == 'tell' then
	local left
	if kind == 'l' then
		left = places_left(lock, token)
	elseif kind == 'm' then
		left = read_left(lock, token, redis.call('HGET', lock, token))
	else
		left = redis.call('PTTL', lock)
	end
	return { 'granted', left, fence }
end
if kind == 'l' then
	end_place(lock, record, token)
	hand_off_kind(lock, record, queue, side, counter, kind)
	return { 'undone', 0, 0 }
end
undo_try(lock, record, queue, side, counter, kind, ticket, token)
return { 'undone', 0, 0 }
