-- The layout of a read-write lock, which is Redisson's RReadWriteLock.
--
-- The lock is a hash: `mode` is `read` or `write`; a reader's field is its token, a writer's field
-- is `<token>:write`, and each has the count of its holds. A writer may have holds of the read
-- side, too, and stays a reader when it gives the write side back. Each hold of the read side has a
-- key of its own, `{<lock>}:<token>:rwlock_timeout:<n>`, which expires with its lease; the lock
-- lasts as long as the longest. The record is a hash {field: `<fencing token> <ticket>`}; the
-- sidecar has the tickets of further holds (see add_hold()). hasp does not know how many holds
-- there are, so their keys are not among KEYS; but these keys have the slot of the lock.

-- Returns the field of an owner's side: `kind` is 'm', the read side, or 'x', the write side.
local function rw_field(token, kind)
	return kind == 'x' and token .. ':write' or token
end

-- Returns the prefix of the names of an owner's time-out keys of a read-write lock. As Redisson
-- does, adds no braces to a name that has an opening brace.
local function timeouts_of(lock, token)
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	return name .. ':' .. token .. ':rwlock_timeout:'
end

-- Returns true if a key that is missing here may be at another node, because its slot is
-- migrating: then Redis refuses a command that names that key and the lock. (Newer servers have
-- another error for that: `undeclared keys were accessed during rehashing of the slot`.)
local function is_away(lock, key)
	local reply = redis.pcall('EXISTS', lock, key)
	if type(reply) ~= 'table' then
		return false
	end
	local err = reply.err
	if not err:find('non local key', 1, true) and not err:find('during rehashing', 1, true) then
		error(err)
	end
	return true
end

-- Returns for how many ms an owner still has the longest of its `holds` holds of the read side;
-- -2: the owner has none any more. `enough`: stops at a hold with that many ms. More than 1,000
-- holds, or holds whose keys may be at another node, last as long as the lock.
-- include is_away
-- include timeouts_of
local function read_left(lock, token, holds, enough)
	local timeouts, longest = timeouts_of(lock, token), -2
	holds = tonumber(holds) or 0
	if holds > 1000 then
		return redis.call('PTTL', lock)
	end
	for n = 1, holds do
		local left = redis.pcall('PTTL', timeouts .. n)
		if (type(left) == 'table' or left < 0) and is_away(lock, timeouts .. n) then
			return redis.call('PTTL', lock)
		end
		longest = math.max(longest, left)
		if enough and longest >= enough then
			break
		end
	end
	return longest < 0 and -2 or longest
end

-- Removes readers whose time is over from a read-write lock in mode `read`, and lets the lock
-- expire with the longest remaining hold. Returns false if no hold remains; the lock is then gone.
-- `enough`: if a reader has that many ms left, the lock is held, and the function stops there. One
-- call reads some 64 readers; any others count as readers until the lock expires. The second result
-- is true if none of the 64 has the lock.
-- include read_left
local function keep_longest(lock, record, side, enough)
	local cursor, longest, looked = '0', -2, 0
	repeat
		local page = redis.call('HSCAN', lock, cursor, 'COUNT', 64)
		local fields = page[2]
		for i = 1, #fields, 2 do
			local token = fields[i]
			local left = token ~= 'mode' and read_left(lock, token, fields[i + 1], enough)
			if left and enough and left >= enough then
				return true
			end
			if left and left < 0 then
				redis.call('HDEL', lock, token)
				redis.pcall('HDEL', record, token)
			end
			longest = math.max(longest, left or -2)
		end
		looked = looked + #fields / 2
		cursor = page[1]
	until cursor == '0' or looked >= 64
	if cursor ~= '0' then
		return true, longest < 0
	end
	if longest < 0 then
		redis.call('DEL', lock, record, side)
		return false
	end
	longest = string.format('%.0f', math.max(longest, 1))
	redis.call('PEXPIRE', lock, longest)
	redis.call('PEXPIRE', record, longest)
	return true
end

-- Returns how many holds of the read side `token` has. `holds`: their number in the hash, or false.
-- The result is 0 if the time of all of them is over.
-- include read_left
local function live_reads(lock, token, holds)
	local live = holds and read_left(lock, token, holds, 0) >= 0
	return live and (tonumber(holds) or 1) or 0
end

-- Returns true if the owner has a side of the read-write lock.
-- include live_reads
local function has_rw(lock, token)
	local held = redis.call('HMGET', lock, token .. ':write', token)
	return held[1] and true or live_reads(lock, token, held[2]) > 0
end

-- Returns true if `token` may have a read-write lock now, for `kind` (see hand_off.lua), or 'free'
-- if no owner has the lock; the second result is 'mine' if `token` has a side of the lock already.
-- So a reader that asks for the write side gets false, 'mine': Redisson refuses that, too. For
-- another type: nil and Redis' error. The fourth result is keep_longest()'s second.
-- include keep_longest
-- include live_reads
local function may_take_rw(lock, record, side, token, kind)
	local held = redis.pcall('HMGET', lock, 'mode', token, token .. ':write')
	if held.err then
		return nil, held
	end
	local mode, holds = held[1], held[2]
	if mode ~= 'read' and mode ~= 'write' then
		if mode or redis.call('EXISTS', lock) == 1 then
			return nil, redis.error_reply(
				'WRONGTYPE Operation against a key holding the wrong kind of value')
		end
		return 'free'
	end
	if mode == 'write' and not (held[3] and kind == 'm') then
		return held[3] and true or false, held[3] and 'mine'
	end
	local reads = live_reads(lock, token, holds)
	if holds and reads == 0 then
		-- The leases of the owner's holds are over, so the owner's count begins again.
		redis.call('HDEL', lock, token)
		redis.pcall('HDEL', record, token)
	end
	if mode == 'write' then
		return true, 'mine'
	end
	if reads > 0 then
		return kind == 'm', 'mine'
	end
	if holds and kind == 'm' and redis.call('HLEN', lock) == 1 then
		redis.call('DEL', lock, record, side)
	end
	-- break writer_beside_readers: if true then
	if kind == 'm' then
		return true
	end
	local is_held, more = keep_longest(lock, record, side, 0)
	return not is_held, nil, nil, more
end

-- Takes one hold of a side of a read-write lock for the owner of the try `ticket`, which may take
-- it. `is_free`: no owner has the lock. An owner that has that side already keeps its fencing
-- token. Returns the fencing token; or Redis' error: then nothing was written.
-- include add_hold
-- include longer_lease
-- include next_fence
-- include rw_field
-- include timeouts_of
local function take_rw(lock, record, side, counter, token, lease, ticket, kind, is_free)
	local field, mode, holds, known = rw_field(token, kind), nil, 1, nil
	if not is_free then
		local before = redis.call('HMGET', lock, 'mode', field)
		mode, holds = before[1], (tonumber(before[2]) or 0) + 1
		local note = holds > 1 and redis.pcall('HGET', record, field)
		known = type(note) == 'string' and tonumber(note:match('^%d+'))
	end
	-- break writer_beside_readers: mode = mode and kind == 'x' and 'write' or mode local fence = known or next_fence(counter)
	local fence = known or next_fence(counter)
	if type(fence) == 'table' then
		return fence
	end
	local timeout = kind == 'm' and timeouts_of(lock, token) .. holds
	if timeout then
		local reply = redis.pcall('SET', timeout, '1', 'PX', lease)
		if reply.err then
			return reply
		end
	end
	local reply = redis.pcall('HSET', lock, 'mode', mode or (kind == 'x' and 'write' or 'read'),
		field, holds)
	if type(reply) == 'table' then
		if timeout then
			redis.call('DEL', timeout)
		end
		return reply
	end
	if mode then
		lease = longer_lease(lock, lease)
	end
	redis.call('PEXPIRE', lock, lease)
	local digits = string.format('%.0f', fence)
	if known then
		add_hold(side, digits, ticket, lease)
	else
		local note = digits .. ' ' .. ticket
		if type(redis.pcall('HSET', record, field, note)) == 'table' then
			-- These keys belong to an earlier lock, which is over.
			redis.call('DEL', record, side)
			redis.call('HSET', record, field, note)
		end
	end
	redis.call('PEXPIRE', record, lease)
	return fence
end

-- As take_free_count(), for a side of a read-write lock.
local function take_free_rw(lock, record, token, lease, ticket, option, digits, now)
	local field, mode, is_refused = token .. ':write', 'write', false
	if option == 'm' then
		-- (Names the key as timeouts_of() does.)
		local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
		is_refused = redis.pcall('SET', name .. ':' .. token .. ':rwlock_timeout:1', '1', 'PX', lease).err
		field, mode = token, 'read'
	end
	if not is_refused and type(redis.pcall('HSET', lock, 'mode', mode, field, '1')) ~= 'table' then
		redis.call('PEXPIRE', lock, lease)
		if type(redis.pcall('HSET', record, field, digits .. ' ' .. ticket)) ~= 'table' then
			redis.call('PEXPIRE', record, lease)
			return now[1] * 1000000 + now[2]
		end
	end
end

-- Gives back one hold of a side of a read-write lock, without shortening the time of another hold
-- of its owner. Returns true if another owner may have the lock now: the lock is gone, or its
-- writer is only a reader from now on.
-- include keep_longest
-- include rw_field
-- include timeouts_of
local function drop_rw(lock, record, side, token, kind)
	local field = rw_field(token, kind)
	local n = tonumber(redis.call('HGET', lock, field)) or 1
	local own = -2
	if kind == 'm' then
		local timeouts = timeouts_of(lock, token)
		own = redis.call('PTTL', timeouts .. n)
		redis.call('DEL', timeouts .. n)
		if n > 1 and own > redis.call('PTTL', timeouts .. n - 1) then
			redis.call('SET', timeouts .. n - 1, '1', 'PX', own)
		end
	end
	if n > 1 then
		redis.call('HINCRBY', lock, field, '-1')
		return false
	end
	redis.call('HDEL', lock, field)
	redis.pcall('HDEL', record, field)
	if redis.call('HLEN', lock) == 1 then
		redis.call('DEL', lock, record, side)
		return true
	end
	if kind == 'x' then
		redis.call('HSET', lock, 'mode', 'read')
		keep_longest(lock, record, side)
		return true
	end
	-- If the hold that was given back was the longest, the lock must expire with the next longest.
	-- (1000 ms: one script wrote both expiries, but on a busy machine time passes in between.)
	return redis.call('HGET', lock, 'mode') == 'read' and own + 1000 >= redis.call('PTTL', lock)
		and not keep_longest(lock, record, side, math.max(own, 0))
end

-- Gives back the hold of a read-write lock that the try `ticket` got. Returns what drop_rw() does.
-- include drop_rw
-- include forget_try
-- include rw_field
local function undo_rw(lock, record, side, token, kind, ticket)
	forget_try(record, side, rw_field(token, kind), ticket)
	return drop_rw(lock, record, side, token, kind)
end

-- Admits the first waiters for a read-write lock that may have it together. Returns the results of
-- hand_off().
-- include hand_off
local function hand_off_rw(lock, record, queue, side, counter)
	return hand_off(lock, record, queue, side, counter,
		redis.call('EXISTS', lock) == 1 and { sides = true } or nil)
end

-- Notifies Redisson's waiters that a read-write lock is free, or that readers have it; not if a
-- writer has it, or if hasp's own clients wait for it. Names the channel as Redisson does.
-- include announce
local function notify_rw(lock, queue, message, counter)
	if queue and redis.call('EXISTS', queue) == 1 or redis.call('HGET', lock, 'mode') == 'write' then
		return
	end
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	announce('redisson_rwlock:' .. name, message, counter)
end

-- Admits the first waiters for a read-write lock after an owner has given back a hold. If the
-- lock can still be taken then, publishes Redisson's message to its own waiters: `0`, a reader has
-- left, and one waiter may try; or `1`, a writer has left, and all may try. queue == nil: no client
-- waits through hasp.
-- include hand_off_rw
-- include notify_rw
local function left_rw(lock, record, queue, side, counter, kind)
	if queue then
		hand_off_rw(lock, record, queue, side, counter)
	end
	notify_rw(lock, queue, kind == 'x' and '1' or '0', counter)
end

-- Returns how many readers a read-write lock has; and the field, the number of holds and the token
-- of one of its owners: the writer if there is one, else any reader. One call looks at some 64
-- owners; the others count as readers, though the time of some may be over.
-- include read_left
local function owners_of(lock)
	local cursor, n, looked, field, holds = '0', 0, 0, nil, nil
	repeat
		local page = redis.call('HSCAN', lock, cursor, 'COUNT', 64)
		local fields = page[2]
		for i = 1, #fields, 2 do
			local writes = fields[i]:sub(-6) == ':write'
			local reads = fields[i] ~= 'mode' and not writes
			looked = looked + (reads and 1 or 0)
			reads = reads and read_left(lock, fields[i], fields[i + 1], 0) >= 0
			n = n + (reads and 1 or 0)
			if writes or reads and not field then
				field, holds = fields[i], tonumber(fields[i + 1]) or 0
			end
		end
		cursor = page[1]
	until cursor == '0' or looked >= 64
	if cursor ~= '0' then
		n = n + math.max(0, redis.call('HLEN', lock) - 1 - looked)
	end
	return n, field, holds, field and (field:gsub(':write$', ''))
end

-- Returns how many holds `token` has of a read-write lock, and the side that it would give back
-- first: 'x', the write side, else 'm'. `mode` is the lock's.
-- include live_reads
local function holds_of_rw(lock, token, mode)
	local holds = mode == 'write' and redis.call('HGET', lock, token .. ':write')
	if holds then
		return tonumber(holds) or 1, 'x'
	end
	return live_reads(lock, token, redis.call('HGET', lock, token)), 'm'
end

-- Begins the lease of a side of a read-write lock again, for all holds that `token` has of that
-- side; `longest`: shortens no hold. Returns Redis' error if Redis refuses.
-- include keep_longest
-- include timeouts_of
-- include write_when_full
local function set_lease_rw(lock, record, side, token, kind, lease, longest)
	local holds = kind == 'm' and tonumber(redis.call('HGET', lock, token)) or 0
	-- (Another client of Redis may have written a number so great that n + 1 is n: an endless loop.)
	holds = math.min(holds, 2 ^ 52)
	local timeouts = timeouts_of(lock, token)
	write_when_full(side)
	for n = math.max(1, holds - 999), holds do
		if not longest or redis.call('PTTL', timeouts .. n) < tonumber(lease) then
			local reply = redis.pcall('SET', timeouts .. n, '1', 'PX', lease)
			if reply.err then
				return reply
			end
		end
	end
	local is_longer = redis.call('PTTL', lock) < tonumber(lease)
	if is_longer or not longest and kind == 'x' then
		local reply = redis.pcall('PEXPIRE', lock, lease)
		if type(reply) == 'table' then
			return reply
		end
		redis.call('PEXPIRE', record, lease)
		if is_longer then
			-- (add_hold() explains the 60 s.)
			redis.call('PEXPIRE', side, string.format('%.0f', lease + 60000))
		end
	elseif not longest and redis.call('HGET', lock, 'mode') == 'read' then
		keep_longest(lock, record, side)
	end
end
