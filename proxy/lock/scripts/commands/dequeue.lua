-- dequeue: a try to take a lock is over, as far as its client is concerned: it leaves the queue. If
-- it was granted the lock meanwhile, or took it at once and no reply arrived, that is undone,
-- or told.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
-- KEYS[5]  fence counter
--
-- ARGV[1]  secret (see sign.lua)
-- ARGV[2]  ticket
-- ARGV[3]  its place ('': not known, '0': it never was in the queue)
-- ARGV[4]  kind
-- ARGV[5]  token
-- ARGV[6]  value
-- ARGV[7]  'undo', or 'tell' to leave it what it has
-- ARGV[8]  if its place is not known: how many ms ago the try was sent
--
-- returns  what became of it (left, granted, undone, gone), for how many ms the lock is held,
--          its fencing token (0: none)
-- layout   any; see hand_off.lua
-- include end_place
-- include find_entry
-- include undo_try
-- include granted_fence
-- include hand_off
-- include hand_off_places
-- include hand_off_rw
-- include places_left
-- include sides
local lock, record, queue, side, counter = unpack(KEYS)
local ticket, place, kind, token, value, what, age_ms = unpack(ARGV, 2)
local entry = place ~= '0' and find_entry(queue, ticket, place, age_ms)
if entry then
	redis.call('ZREM', queue, entry)
	-- Those behind it may have waited for it to take the lock; see wake.lua.
	if kind == 'l' then
		hand_off_places(lock, record, queue, side, counter)
	elseif kind == 'm' or kind == 'x' then
		hand_off_rw(lock, record, queue, side, counter)
	elseif redis.call('EXISTS', lock) == 0 then
		hand_off(lock, record, queue, side, counter)
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
		left = sides().left_of(lock, token, redis.call('HGET', lock, token))
	else
		left = redis.call('PTTL', lock)
	end
	return { 'granted', left, fence }
end
if kind == 'l' then
	end_place(lock, record, token)
	hand_off_places(lock, record, queue, side, counter)
	return { 'undone', 0, 0 }
end
undo_try(lock, record, queue, side, counter, kind, ticket, token, fence)
return { 'undone', 0, 0 }
