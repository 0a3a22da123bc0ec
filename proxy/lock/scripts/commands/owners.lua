-- owners: reads the owners of a lock that hasp found by the name of a key, for SHOW LOCKS ALL.
-- Changes nothing.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
--
-- ARGV[1]  how many owners to return, at most; of a read-write lock the script reads twice as many
-- ARGV[2]  how it was found: 'record', 'sidecar', or 'value': the lock itself, of a rule with owner
--          = value. A lock that has a record is returned for its record only
--
-- returns  how many tries are in the queue, and for each owner (each side of a read-write lock) its
--          token ('': the value names it), ms left, fencing token ('': none), ticket ('': not
--          known); nil: not a lock of a hasp
-- layout   any; see hand_off.lua
-- include get_string
-- include parse_side
-- include read_left
local lock, record, queue, side = unpack(KEYS)
local most, found_by = tonumber(ARGV[1]), ARGV[2]
local layout = redis.call('TYPE', lock).ok
if layout == 'none' or found_by ~= 'record' and redis.call('EXISTS', record) == 1 then
	return false
end
local waiters = redis.pcall('ZCARD', queue)
local found = { type(waiters) == 'number' and waiters or 0 }

-- Adds an owner. `note`: the record after the token, `<fencing token or -> <ticket>`.
local function add(token, left, note)
	local fence, ticket = (note or ''):match('^(%d*)%S* =?(%S*)')
	local n = #found
	found[n + 1], found[n + 2], found[n + 3], found[n + 4] = token, left, fence or '', ticket or ''
	return n + 4 < most * 4
end

local function noted(field)
	local note = redis.pcall('HGET', record, field)
	return type(note) == 'string' and note or nil
end

if layout == 'string' then
	local value = redis.call('GET', lock)
	local owner, last = parse_side(get_string(side), value), get_string(record)
	local token = last and last:match('^%S+')
	if owner then
		add(owner, redis.call('PTTL', lock), token == owner and last:sub(#token + 2))
	elseif token == value then
		add(token, redis.call('PTTL', lock), last:sub(#token + 2))
	elseif token == '-' or found_by == 'value' then
		add('', redis.call('PTTL', lock), last and last:sub(3))
	end
elseif layout == 'hash' then
	local mode = redis.call('HGET', lock, 'mode')
	local is_rw = mode == 'read' or mode == 'write'
	local cursor, looked = '0', 0
	repeat
		local page = redis.call('HSCAN', lock, cursor, 'COUNT', 64)
		local fields = page[2]
		cursor, looked = page[1], looked + #fields / 2
		for i = 1, #fields, 2 do
			local field, more = fields[i], true
			local writes = is_rw and mode == 'write' and field:sub(-6) == ':write'
			if writes then
				more = add(field:sub(1, -7), redis.call('PTTL', lock), noted(field))
			elseif is_rw and field ~= 'mode' then
				local left = read_left(lock, field, fields[i + 1])
				more = left < 0 or add(field, left, noted(field))
			elseif not is_rw then
				-- (Locks of Redisson's own clients, and other hashes, have no record.)
				local last = get_string(record)
				if last and last:match('^%S+') == field then
					add(field, redis.call('PTTL', lock), last:sub(#field + 2))
				end
				more = false
			end
			if not more then
				cursor = '0'
				break
			end
		end
	until cursor == '0' or looked >= 2 * most
elseif layout == 'zset' and redis.call('TYPE', record).ok == 'hash' then
	local now = redis.call('TIME')
	local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
	local places = redis.call('ZRANGEBYSCORE', lock, '(' .. string.format('%.0f', now_ms), '+inf',
		'WITHSCORES', 'LIMIT', '0', most)
	for i = 1, #places, 2 do
		add(places[i], places[i + 1] - now_ms, noted(places[i]))
	end
end
return found[2] and found or false
