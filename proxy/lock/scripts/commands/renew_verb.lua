-- renew_verb: hasp's own renewal of the verbs' locks. Never shortens a lease, and does not renew a
-- lock that the same owner has acquired again since. (A record may have a smaller token than
-- MLOCK's: a lock that the owner had before keeps its token.)
--
-- KEYS     lock, record, sidecar for each of the n locks
--
-- ARGV     lease ms, token, fencing token, layout ('hash' or 'string'; the kind of a side of a
--          read-write lock) for each of the n
--
-- returns  for each of the n: 1; 0: it is free; -2: this owner no longer has it, or has acquired it
--          again since; -1: Redis refused
-- layout   Redisson's RLock or go-zero's RedisLock, a semaphore (see count_places()), or a
--          read-write lock (see rw.lua)
-- include begin_lease
-- include count_holds
-- include read_left
-- include recorded_fence
-- include rw_field
local function renew_side(lock, record, side, lease, token, fence, kind)
	local field = rw_field(token, kind)
	local holds = redis.pcall('HGET', lock, field)
	if type(holds) == 'table' then
		return -1
	end
	local note = redis.pcall('HGET', record, field)
	local recorded = type(note) == 'string' and tonumber(note:match('^%d+'))
	if not holds or recorded and recorded > tonumber(fence)
		or kind == 'm' and read_left(lock, token, holds, 0) < 0 then
		return redis.call('EXISTS', lock) == 1 and -2 or 0
	end
	return begin_lease(lock, record, side, token, kind, lease, true, false) and -1 or 1
end

local function renew(i)
	local lock, record, side = unpack(KEYS, 3 * i - 2, 3 * i)
	local lease, token, fence, layout = unpack(ARGV, 4 * i - 3, 4 * i)
	if layout == 'm' or layout == 'x' then
		return renew_side(lock, record, side, lease, token, fence, layout)
	end
	local holds, found = count_holds(lock, record, token, layout)
	if not holds then
		return -1
	end
	local recorded
	if found == 'zset' then
		local note = redis.call('HGET', record, token)
		recorded = note and tonumber(note:match('^%d+'))
	else
		recorded = recorded_fence(record, token)
	end
	if holds == 0 or recorded and recorded > tonumber(fence) then
		return redis.call('EXISTS', lock) == 1 and -2 or 0
	end
	-- (add_hold() explains the 60 s.)
	local side_ms = holds > 1 and 60000
	return begin_lease(lock, record, side, token, found, lease, true, side_ms) and -1 or 1
end

local replies = {}
for i = 1, #KEYS / 3 do
	local ok, reply = pcall(renew, i)
	replies[i] = ok and reply or -1
end
return replies
