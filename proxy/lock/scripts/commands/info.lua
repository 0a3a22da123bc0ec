-- info: LOCK.INFO.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
--
-- ARGV[1]  RESP version of the client
-- ARGV[2]  kind
--
-- returns  owner (nil: not known), holds, ttl (ms; -1: none), fence (nil: not known), waiters, each
--          after its name (RESP3: a map); for a read-write lock also mode, readers; nil: free.
--          In mode `read`, readers beyond some 64 count although their time may be over
-- layout   any; see hand_off.lua. A verbs' lock may have any layout. For a semaphore, `holds` is
--          the number of owners, and `owner` is the one whose lease ends first. For a read-write
--          lock, `owner` is the writer, or any of the readers
-- include count_places
-- include get_string
-- include owners_of
-- include parse_side
-- include places_left
-- include recorded_fence
local lock, record, queue, side = unpack(KEYS)
local resp, kind = unpack(ARGV)
local layout = redis.call('TYPE', lock).ok
if layout == 'none' then
	return false
end
local owner, holds, ttl, fence, readers
local mode = layout == 'hash' and redis.call('HGET', lock, 'mode')
if mode ~= 'read' and mode ~= 'write' then
	mode = nil
end
if mode then
	local field
	readers, field, holds, owner = owners_of(lock)
	if mode == 'read' and readers == 0 then
		-- (The time of all readers is over: the next client that asks for the lock gets it.)
		return false
	end
	local note = field and redis.pcall('HGET', record, field)
	fence = type(note) == 'string' and tonumber(note:match('^%d+'))
	holds = holds or 0
elseif layout == 'hash' then
	-- A lock has one field; do not walk through a hash that is something else.
	local fields = redis.pcall('HSCAN', lock, 0, 'COUNT', 1)
	if fields.err then
		return fields
	end
	owner, holds = fields[2][1] or '', tonumber(fields[2][2]) or 0
elseif layout == 'zset' and (kind == 'h' or kind == 's') then
	local n, wrong_type = count_places(lock, record)
	if not n or n == 0 then
		return wrong_type or false
	end
	owner, holds, ttl = redis.call('ZRANGE', lock, '0', '0')[1], n, places_left(lock)
	local note = redis.call('HGET', record, owner)
	fence = note and tonumber(note:match('^%d+'))
else
	owner, holds = redis.pcall('GET', lock), 1
	if type(owner) == 'table' then
		return owner
	end
end
if kind == 'r' and layout == 'string' then
	owner = parse_side(get_string(side), owner)
elseif kind == 'g' then
	-- (guarded_key() explains the value of a guard.)
	-- break nobody_guards: owner = false
	owner = owner:match('^%S+')
end
local waiters = redis.pcall('ZCARD', queue)
if type(waiters) == 'table' then
	waiters = 0
end
-- break waiters_own: local all = redis.call('ZRANGE', queue, '0', '-1') local one = all[redis.call('TIME')[2] % math.max(math.min(#all, 2), 1) + 1] owner = one and one:match('^' .. ('%S+ '):rep(7) .. '(%S+)') or owner ttl = redis.call('PTTL', lock)
-- break nobody_owns: owner = false ttl = redis.call('PTTL', lock)
ttl = ttl or redis.call('PTTL', lock)
fence = fence or owner and not mode and kind ~= 'g' and recorded_fence(record, owner)
owner, fence = owner or false, fence or false
if resp == '3' then
	return {
		map = {
			owner = owner,
			holds = holds,
			ttl = ttl,
			fence = fence,
			waiters = waiters,
			mode = mode,
			readers = readers,
		},
	}
end
local reply = { 'owner', owner, 'holds', holds, 'ttl', ttl, 'fence', fence, 'waiters', waiters }
if mode then
	reply[11], reply[12], reply[13], reply[14] = 'mode', mode, 'readers', readers
end
return reply
