-- The layouts of the verbs' locks that have one owner: `count` is Redisson's RLock, a hash {token:
-- holds}; `token` (`refresh` and `no`) is go-zero's RedisLock, a string holding the token.

-- Returns true if the owner has a lock of the layout `count`.
local function has_count(lock, token)
	return redis.call('HMGET', lock, token)[1]
end

-- Returns true if the owner has a lock of the layout `token`.
local function has_token(lock, token)
	return redis.call('GET', lock) == token
end

-- Takes a lock of the layout `count` that is free. `digits`: the fencing token, made from `now`,
-- the reply to TIME. Returns the fencing token; nil: the caller must use take_count() instead.
local function take_free_count(lock, record, token, lease, ticket, _, digits, now)
	if type(redis.pcall('HINCRBY', lock, token, '1')) ~= 'table' then
		redis.call('PEXPIRE', lock, lease)
		redis.call('SET', record, token .. ' ' .. digits .. ' ' .. ticket, 'PX', lease)
		return now[1] * 1000000 + now[2]
	end
end

-- As take_free_count(), for the layout `token`.
local function take_free_token(lock, record, token, lease, ticket, _, digits, now)
	if not redis.pcall('SET', lock, token, 'PX', lease).err then
		redis.call('SET', record, token .. ' ' .. digits .. ' ' .. ticket, 'PX', lease)
		return now[1] * 1000000 + now[2]
	end
end

-- Returns three results. The first is true if `token` may have a lock of the layout `count`, and
-- 'free' if no owner has it; the second is 'mine' if `token` has it already. The third says for how
-- many ms another owner has it; -1: not asked, because hasp probes a lock with waiters by itself
-- when its lease ends. `existing`: how many of the two keys, lock and queue, exist.
--
-- If the key holds something else, returns nil and Redis' own error. A short call that lacks the
-- sidecar, which one more hold needs, gets nil and BUSY.
local function may_take_count(lock, _, side, token, _, existing)
	local fields = redis.pcall('HMGET', lock, token, 'mode')
	if fields.err then
		return nil, fields
	end
	if fields[2] == 'read' or fields[2] == 'write' then
		return nil, redis.error_reply(
			'WRONGTYPE Operation against a key holding the wrong kind of value')
	end
	if fields[1] then
		if not side then
			return nil, redis.status_reply('BUSY')
		end
		return true, 'mine'
	end
	local held_ms = existing == 2 and -1 or redis.call('PTTL', lock)
	return held_ms == -2 and 'free', nil, held_ms
end

-- As may_take_count(), for the layout `token`. `reentrant`: 'refresh' or 'no'.
local function may_take_token(lock, _, _, token, reentrant, existing)
	local owner = redis.pcall('GET', lock)
	if type(owner) == 'table' then
		return nil, owner
	end
	if not owner then
		return 'free'
	end
	local mine = owner == token and reentrant == 'refresh'
	return mine, mine and 'mine', existing == 2 and -1 or -2
end

-- Takes a hold of a lock of the layout `count` for the owner of the try `ticket`. `is_free`: no
-- owner has it. `digits`: the fencing token, if the caller knows it. Returns the fencing token; or
-- Redis' error: then nothing was written.
-- include add_hold
-- include longer_lease
-- include next_fence
-- include recorded_fence
-- include write_record
local function take_count(lock, record, side, counter, token, lease, ticket, _, is_free, digits)
	local fence, is_recorded = tonumber(digits), not is_free
	if not is_free and not digits then
		fence, digits = recorded_fence(record, token)
		is_recorded = fence
	end
	if not fence then
		fence, digits = next_fence(counter)
	end
	if type(fence) == 'table' then
		return fence
	end
	local holds = redis.pcall('HINCRBY', lock, token, '1')
	if type(holds) == 'table' then
		return holds
	end
	if not is_free then
		lease = longer_lease(lock, lease)
	end
	redis.call('PEXPIRE', lock, lease)
	if not is_recorded then
		write_record(record, token, digits, ticket, lease)
		return fence
	end
	redis.call('PEXPIRE', record, lease)
	add_hold(side, digits, ticket, lease)
	return fence
end

-- As take_count(), for the layout `token`. Marks the try if the owner had the lock before, because
-- undoing it would take the lock from that owner.
-- include next_fence
-- include recorded_fence
-- include write_record
local function take_token(lock, record, _, counter, token, lease, ticket, _, is_free)
	local fence, digits
	if not is_free then
		fence, digits = recorded_fence(record, token)
	end
	if not fence then
		fence, digits = next_fence(counter)
	end
	if type(fence) == 'table' then
		return fence
	end
	local reply = redis.pcall('SET', lock, token, 'PX', lease)
	if reply.err then
		return reply
	end
	write_record(record, token, digits, is_free and ticket or '=' .. ticket, lease)
	return fence
end

-- Returns how many holds `token` has of a verbs' lock, and the lock's layout: `layout` if that fits
-- ('hash' or 'string'), 'zset' for a semaphore, 'x' or 'm' for a read-write lock (see rw.lua).
-- `layout` '': any. For any other type: nil and Redis' own error.
-- include count_places
-- include has_limit
-- include holds_of_rw
local function count_holds(lock, record, token, layout)
	if layout == '' then
		layout = redis.call('TYPE', lock).ok
	end
	local content
	if layout == 'hash' then
		content = redis.pcall('HMGET', lock, token, 'mode')
		if not content.err then
			local mode = content[2]
			if mode == 'read' or mode == 'write' then
				return holds_of_rw(lock, token, mode)
			end
			content = content[1]
		end
	elseif layout == 'zset' then
		content = redis.error_reply('WRONGTYPE Operation against a key holding the wrong kind of value')
	else
		content = redis.pcall('GET', lock)
	end
	if type(content) == 'table' then
		if not count_places(lock, record) then
			local mode = redis.pcall('HGET', lock, 'mode')
			if mode == 'read' or mode == 'write' then
				return holds_of_rw(lock, token, mode)
			end
			return nil, content
		end
		return has_limit(lock, token) and 1 or 0, 'zset'
	end
	if layout == 'hash' then
		return content and (tonumber(content) or 1) or 0, layout
	end
	return content == token and 1 or 0, layout
end

-- In a layout that counts (`count`, and read-write locks): remembers that the try `ticket` got one
-- more hold of a lock that its owner has by the fencing token `fence` (a string).
--
-- The lock's sidecar, which the verbs' locks have no other use for, is a sorted set of
-- `<fencing token> <ticket>` by time. The record names only the first try. By the record and the
-- sidecar, hasp releases the hold of a try whose reply was lost. The script forgets a busy owner's
-- oldest entries.
local function add_hold(side, fence, ticket, lease)
	local now = redis.call('TIME')
	local score, member = now[1] .. string.format('%06d', now[2]), fence .. ' ' .. ticket
	if type(redis.pcall('ZADD', side, score, member)) == 'table' then
		-- (The key is the sidecar of a rule's earlier lock.)
		redis.call('DEL', side)
		redis.call('ZADD', side, score, member)
	end
	if redis.call('ZCARD', side) > 10000 then
		redis.call('ZREM', side, unpack(redis.call('ZRANGE', side, '0', '99')))
	end
	-- The sidecar may outlive the lock: an entry with another fencing token does not count.
	redis.call('PEXPIRE', side, string.format('%.0f', lease + 60000))
end

-- Begins the lease of a lock again. `layout`: as count_holds() returns it, or a kind of a lock with
-- one owner (see hand_off.lua). `longest`: does not shorten the lease. `side_ms`: for how many ms
-- longer the sidecar lasts; false: there is none. Returns Redis' error if Redis refuses.
-- include set_lease_rw
-- include set_place
local function begin_lease(lock, record, side, token, layout, lease, longest, side_ms)
	if layout == 'zset' then
		return set_place(lock, record, token, lease, longest)
	end
	if layout == 'm' or layout == 'x' then
		return set_lease_rw(lock, record, side, token, layout, lease, longest)
	end
	if longest and redis.call('PTTL', lock) >= tonumber(lease) then
		return nil
	end
	local reply = redis.pcall('PEXPIRE', lock, lease)
	if type(reply) == 'table' then
		return reply
	end
	redis.call('PEXPIRE', record, lease)
	if side_ms then
		redis.call('PEXPIRE', side, string.format('%.0f', lease + side_ms))
	end
end

-- Forgets the try `ticket`, whose owner gives one of several holds back. So hasp cannot give the
-- hold back twice: that could end a hold of another connection of the same owner. If no hold is
-- known to be of that try, forgets the owner's oldest try. `field`: the owner's field in the record
-- of a read-write lock; nil: the lock has the layout `count`.
local function forget_try(record, side, field, ticket)
	local note
	if field then
		note = redis.pcall('HGET', record, field)
	else
		note = redis.pcall('GET', record)
	end
	local before, first = (type(note) == 'string' and note or ''):match('^(.* )(%S+)$')
	local fence = before and before:match('(%d+ )$')
	if not fence or first ~= ticket and redis.pcall('ZREM', side, fence .. ticket) == 1 then
		return
	end
	if first == '-' then
		for _, member in ipairs(redis.pcall('ZRANGE', side, '0', '63')) do
			if member:sub(1, #fence) == fence then
				redis.call('ZREM', side, member)
				return
			end
		end
	elseif field then
		redis.call('HSET', record, field, before .. '-')
	else
		redis.call('SET', record, before .. '-', 'KEEPTTL')
	end
end

-- Notifies Redisson's waiters that the lock is free. As Redisson does, adds no braces to a name
-- that has an opening brace.
-- include announce
local function notify_redisson(lock, counter)
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	announce('redisson_lock__channel:' .. name, '0', counter)
end

-- Announces on a channel of Redisson's that a lock has been released. In a cluster, where `counter`
-- has a hash tag, Redisson listens by SSUBSCRIBE or, in older versions, by SUBSCRIBE. `counter` nil:
-- there is no cluster.
local function announce(channel, message, counter)
	redis.pcall('PUBLISH', channel, message)
	if counter and counter ~= 'hasp:fence' then
		-- (If the call contained the name, script_commands.c would require SPUBLISH of users and
		-- servers.)
		local sharded = 'SPUBLISH'
		redis.pcall(sharded, channel, message)
	end
end
