-- check: hasp's own look at a lock that its clients wait for. A lock that is free, because its
-- lease ended or somebody released it past us, is handed to the first waiter.
--
-- KEYS     lock, record, queue, sidecar, fence counter
-- ARGV     ticket of one of the waiters ('': only hand over), its place, kind, token, value,
--          lease ms to begin again if it has the lock by now, or ''
-- returns  what became of it (queued, granted, gone), for how many ms the lock is held (-1: for
--          ever, -2: not at all), its fencing token (0: none)
-- layout   any; see queue.lua
local lock, record, queue, side = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ticket, kind = ARGV[1], ARGV[3]
if redis.call('EXISTS', lock) == 0 and redis.call('EXISTS', queue) == 1 then
	-- include queue.lua
	hand_over(lock, record, queue, side, KEYS[5])
end
if ticket == '' then
	return { 'gone', redis.call('PTTL', lock), 0 }
end
-- include standing.lua
if entry_of(queue, ticket, ARGV[2]) then
	return { 'queued', redis.call('PTTL', lock), 0 }
end
local fence = granted(lock, record, side, kind, ticket, ARGV[4], ARGV[5])
if not fence then
	return { 'gone', redis.call('PTTL', lock), 0 }
end
if ARGV[6] ~= '' and redis.call('PTTL', lock) < tonumber(ARGV[6]) then
	redis.call('PEXPIRE', lock, ARGV[6])
	redis.call('PEXPIRE', record, ARGV[6])
	if kind == 'r' or kind == 'h' then
		redis.call('PEXPIRE', side, ARGV[6] + (kind == 'h' and 60000 or 0))
	end
end
return { 'granted', redis.call('PTTL', lock), fence }
