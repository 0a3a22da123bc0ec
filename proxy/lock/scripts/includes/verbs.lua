-- Returns how many holds `token` has of a verbs' lock, and the lock's layout: `layout` ('hash',
-- 'string', or '' for either), 'zset' for a semaphore, 'x' or 'm' for a read-write lock (see
-- rw.lua). For any other type: nil and Redis' own error.
-- include count_places
-- include sides
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
				return sides().count_of(lock, token, mode)
			end
			content = content[1]
		end
	else
		content = redis.pcall('GET', lock)
	end
	if type(content) == 'table' then
		if not count_places(lock, record) then
			local mode = redis.pcall('HGET', lock, 'mode')
			if mode == 'read' or mode == 'write' then
				return sides().count_of(lock, token, mode)
			end
			return nil, content
		end
		return redis.call('ZSCORE', lock, token) and 1 or 0, 'zset'
	end
	if layout == 'hash' then
		return content and (tonumber(content) or 1) or 0, layout
	end
	return content == token and 1 or 0, layout
end

-- In the layout `count`: remembers that the try `ticket` got one more hold of a lock that its owner
-- has by the fencing token `fence` (a string).
--
-- The lock's sidecar, which the verbs' locks have no other use for, is a sorted set of
-- `<fencing token> <ticket>` by time. The record names only the first try. By both of them, hasp
-- releases the hold of a try whose reply was lost. The script forgets a busy owner's oldest
-- entries.
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
	-- A little longer than the lock: an entry with another fencing token does not count.
	redis.call('PEXPIRE', side, string.format('%.0f', lease + 60000))
end

-- Notifies Redisson's waiters that the lock is free. As Redisson does, adds no braces to a name
-- that has one.
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
		-- (Not in the call itself, because hasp does not require SPUBLISH of users and servers.)
		local sharded = 'SPUBLISH'
		redis.pcall(sharded, channel, message)
	end
end
