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
--
-- returns  what became of it (left, granted, undone, gone), for how many ms the lock is held,
--          its fencing token (0: none)
-- layout   any; see hand_off.lua
-- include end_place
-- include find_entry
-- include granted_fence
-- include hand_off
-- include hand_off_places
-- include notify_redisson
-- include places_left
local lock, record, queue, side, counter = unpack(KEYS)
local ticket, place, kind, token, value, what = unpack(ARGV, 2)
local entry = place ~= '0' and find_entry(queue, ticket, place)
if entry then
	redis.call('ZREM', queue, entry)
	-- Those behind it may have waited for it to take the lock; see wake.lua.
	if kind == 'l' then
		hand_off_places(lock, record, queue, side, counter)
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
	return { 'granted', kind == 'l' and places_left(lock, token) or redis.call('PTTL', lock), fence }
end
if kind == 'l' then
	end_place(lock, record, token)
	hand_off_places(lock, record, queue, side, counter)
	return { 'undone', 0, 0 }
end
if kind == 'h' and redis.call('HINCRBY', lock, token, -1) > 0 then
	-- Other tries of the owner keep their holds.
	local note = redis.call('GET', record)
	if note:sub(-#ticket - 1) == ' ' .. ticket then
		redis.call('SET', record, note:sub(1, -#ticket - 1) .. '-', 'KEEPTTL')
	else
		redis.call('ZREM', side, string.format('%.0f', fence) .. ' ' .. ticket)
	end
	return { 'undone', 0, 0 }
end
redis.call('DEL', lock, record, side)
if not hand_off(lock, record, queue, side, counter) or kind ~= 'h' then
	return { 'undone', 0, 0 }
end
notify_redisson(lock)
return { 'undone', 0, 0 }
