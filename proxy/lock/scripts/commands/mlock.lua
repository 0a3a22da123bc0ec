-- mlock: MLOCK. Takes all n locks if each is free, or the owner has it in a reentrant layout. If
-- not, a try that may wait takes the locks before the first busy one, and enters the queue of the
-- busy one: so all waiters take the locks in the same order. When the try has got that lock, hasp
-- calls the script again, until the try has all locks. These calls have the same ticket, which
-- marks the locks of the try. If the try has lost a lock, the script releases all later ones before
-- the try waits again.
--
-- KEYS     lock, record, queue, sidecar for each of the n locks, in the order in which they are
--          taken; then the fence counter
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  lease ms; for a try that leaves: how many ms ago it was sent
-- ARGV[4]  ticket
-- ARGV[5]  how many ms to wait; -1: leave the queue, and give all locks back
-- ARGV[6]  place in a queue or ''
-- ARGV[7]  layout: 'count', 'refresh' or 'no'
-- ARGV[8]  the number of the lock whose queue the try is in, counted from 1; 0: none
-- ARGV[9]  lease ms of the try's locks while it waits
-- ARGV[10] and more: tokens by which the client's own connection has one of the locks, see
--          any_own()
--
-- returns  the fencing token of all locks; nil: not all are free, and the try has none; QUEUED (see
--          enqueue()), followed by the number of the lock
-- layout   Redisson's RLock: a hash {token: holds}; or go-zero's RedisLock: a string holding the
--          token
-- include add_hold
-- include any_own
-- include client_error
-- include enqueue
-- include find_entry
-- include undo_try
-- include granted_fence
-- include hand_off
-- include has_count
-- include has_token
-- include longer_lease
-- include may_take_count
-- include may_take_token
-- include next_fence
-- include recorded_fence
-- include write_record
local token, lease, ticket, wait_ms, place, layout, place_of, part_lease = unpack(ARGV, 2)
local n, counter = (#KEYS - 1) / 4, KEYS[#KEYS]

local names = {}
for i = 1, #KEYS - 1, 4 do
	names[#names + 1], names[#names + 2] = KEYS[i], KEYS[i + 2]
end
-- break counted_fences: if false then
-- break falling_fences: if false then
if wait_ms ~= '-1' and redis.call('EXISTS', unpack(names)) == 0 then
	-- All locks are free, and no client waits: takes them as acquire.lua does.
	local now = redis.call('TIME')
	local digits = now[1] .. ('00000' .. now[2]):sub(-6)
	local last = redis.pcall('SET', counter, digits, 'GET')
	if not last or #last == #digits and last < digits then
		local note = token .. ' ' .. digits .. ' ' .. ticket
		for i = 1, #KEYS - 1, 4 do
			local lock, record = KEYS[i], KEYS[i + 1]
			if layout == 'count' then
				redis.call('HINCRBY', lock, token, '1')
				redis.call('PEXPIRE', lock, lease)
			else
				redis.call('SET', lock, token, 'PX', lease)
			end
			redis.call('SET', record, note, 'PX', lease)
		end
		return now[1] * 1000000 + now[2]
	elseif type(last) == 'string' then
		redis.call('SET', counter, last)
	end
end
local kind = layout == 'count' and 'h' or 's'

local function keys_of(i)
	return unpack(KEYS, 4 * i - 3, 4 * i)
end

-- Returns the fencing token by which this try has the lock; nil: it does not have it.
local function had(i)
	local lock, record, _, side = keys_of(i)
	return granted_fence(lock, record, side, kind, ticket, token, '', false)
end

-- Returns the state of a lock: 'had' by this try; 'mine': the owner has it by another try, and can
-- take it again; 'free'; 'busy'; or Redis' error.
local function probe(i)
	local lock, record, queue, side = keys_of(i)
	if had(i) then
		return 'had'
	end
	local may_take = kind == 'h' and may_take_count or may_take_token
	local allowed, mine = may_take(lock, record, side, token, layout, 1)
	if allowed == nil or mine then
		return mine
	end
	-- break take_held: if false then
	if not allowed then
		return 'busy'
	end
	if redis.call('EXISTS', queue) == 0 or hand_off(lock, record, queue, side, counter) then
		return 'free'
	end
	return had(i) and 'had' or 'busy'
end

local function take(i, what, digits, ms)
	local lock, record, _, side = keys_of(i)
	if kind == 's' then
		local recorded = what == 'mine' and select(2, recorded_fence(record, token))
		redis.call('SET', lock, token, 'PX', ms)
		write_record(record, token, recorded or digits, (recorded and '=' or '') .. ticket, ms)
		return
	end
	local holds = redis.call('HINCRBY', lock, token, what == 'had' and '0' or '1')
	if holds ~= 1 then
		ms = longer_lease(lock, ms)
	end
	redis.call('PEXPIRE', lock, ms)
	local recorded = holds ~= 1 and select(2, recorded_fence(record, token))
	if not recorded then
		write_record(record, token, digits, ticket, ms)
		return
	end
	redis.call('PEXPIRE', record, ms)
	if what == 'mine' then
		add_hold(side, recorded, ticket, ms)
	end
end

local function undo_from(first)
	for i = first, n do
		-- break keep_parts: if false then
		if had(i) then
			local lock, record, queue, side = keys_of(i)
			undo_try(lock, record, queue, side, counter, kind, ticket, token)
			if first > 1 then
				-- The try goes on, and may take the lock again by its ticket. (See note_undone().)
				redis.pcall('ZREM', side, '- ' .. ticket)
			end
		end
	end
end

if wait_ms == '-1' then
	local lock, record, queue, side = keys_of(tonumber(place_of))
	local entry = find_entry(queue, ticket, place, lease)
	if entry then
		redis.call('ZREM', queue, entry)
		-- This try may have kept later waiters from a free lock: see wake().
		if redis.call('EXISTS', lock) == 0 then
			hand_off(lock, record, queue, side, counter)
		end
	end
	undo_from(1)
	return false
end

-- Returns true if the client's own connection has the busy lock `i`.
local function busy_by_own(i)
	local lock = keys_of(i)
	return any_own(10, function(own)
		return (kind == 's' and has_token or has_count)(lock, own)
	end)
end

local what, busy, by_own = {}, nil, false
for i = 1, n do
	what[i] = probe(i)
	if type(what[i]) == 'table' then
		undo_from(1)
		return what[i]
	end
	if what[i] == 'busy' then
		busy = busy or i
		by_own = by_own or busy_by_own(i)
	end
end
if busy and (wait_ms == '0' or by_own) then
	undo_from(1)
	return false
end

local fence, digits = next_fence(counter)
if type(fence) == 'table' then
	undo_from(1)
	return client_error(fence, 'MLOCK')
end
if not busy then
	for i = 1, n do
		take(i, what[i], digits, lease)
	end
	return fence
end

-- A try that waits for a lock must have none of the later locks in KEYS.
undo_from(busy + 1)
for i = 1, busy - 1 do
	if what[i] == 'free' then
		take(i, 'free', digits, part_lease)
	end
end
local lock, _, queue = keys_of(busy)
if tonumber(place_of) ~= busy then
	place = ''
end
local entry = place ~= '' and find_entry(queue, ticket, place)
if entry then
	redis.call('ZREM', queue, entry)
end
local reply = enqueue(lock, -2, queue, ticket, tonumber(wait_ms), place,
	kind .. ' ' .. part_lease .. ' 0 ' .. token .. ' ')
if reply.err then
	undo_from(1)
	return reply
end
return redis.status_reply(reply.ok .. ' ' .. busy)
