-- leave: a try to take a lock is over, as far as its client is concerned: it leaves the queue. If
-- it was let in meanwhile, or took the lock at once and nobody ever learned of it, that is
-- undone, or told.
--
-- KEYS     lock, record, queue, sidecar, fence counter
-- ARGV     ticket, its place ('': not known, '0': it never stood in line), kind, token, value,
--          'undo', or 'tell' to leave it what it has
-- returns  what became of it (left, granted, undone, gone), for how many ms the lock is held,
--          its fencing token (0: none)
-- layout   any; see queue.lua
local lock, record, queue, side = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ticket, kind = ARGV[1], ARGV[3]
-- include standing.lua
local entry = ARGV[2] ~= '0' and entry_of(queue, ticket, ARGV[2])
if entry then
	redis.call('ZREM', queue, entry)
	return { 'left', 0, 0 }
end
local fence = granted(lock, record, side, kind, ticket, ARGV[4], ARGV[5])
if not fence then
	return { 'gone', 0, 0 }
end
if ARGV[6] == 'tell' then
	return { 'granted', redis.call('PTTL', lock), fence }
end
if kind == 'h' and redis.call('HINCRBY', lock, ARGV[4], -1) > 0 then
	local v = redis.call('GET', record)
	if v:sub(-#ticket - 1) == ' ' .. ticket then
		redis.call('SET', record, v:sub(1, -#ticket - 1) .. '-', 'KEEPTTL')
	else
		redis.call('ZREM', side, string.format('%.0f', fence) .. ' ' .. ticket)
	end
	return { 'undone', 0, 0 }
end
redis.call('DEL', lock, record, side)
-- include queue.lua
if hand_over(lock, record, queue, side, KEYS[5]) and kind == 'h' then
	-- include redisson.lua
	tell_redisson(lock)
end
return { 'undone', 0, 0 }
