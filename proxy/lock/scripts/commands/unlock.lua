-- unlock: UNLOCK, and hasp's own release of a verbs' lock.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
-- KEYS[5]  fence counter
--
-- A short call needs a counter only in a cluster. Its ARGV are the token and the layout (default:
-- 'hash'); it always has 'tell'. A full call has these ARGV:
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  layout: 'hash', 'string', or '' for either
-- ARGV[4]  '' or the ticket of the acquisition to release, which must be the latest
-- ARGV[5]  'tell' or nothing
--
-- returns  1: released (and handed off to the first waiter), or one hold of several released;
--          0: this owner does not have it; if another owner has it, with 'tell': REFUSED 0 1, and
--          that owner's token; to a short call, BUSY: it has done nothing, because clients wait for
--          the lock
-- layout   Redisson's RLock, with its message to its waiters, or go-zero's RedisLock; or a
--          semaphore (see count_places()), or a read-write lock (see rw.lua)
-- include client_error
-- include count_holds
-- include end_place
-- include hand_off
-- include hand_off_places
-- include notify_redisson
-- include release_rw
-- include sides
local lock, record, queue, side, counter = unpack(KEYS)
local is_short = #ARGV <= 2
local token, layout_type, ticket, tell = unpack(ARGV, is_short and 1 or 2)
if is_short then
	-- break release_past_queue: if false then
	if redis.call('EXISTS', queue) == 1 then
		return redis.status_reply('BUSY')
	end
	layout_type, ticket, tell = layout_type or 'hash', '', 'tell'
	-- The usual lock, at its last hold: found without checking for other layouts.
	local held
	if layout_type == 'hash' then
		held = redis.pcall('HMGET', lock, token, 'mode')
	else
		held = { redis.pcall('GET', lock) == token and '1' }
	end
	if held[1] == '1' and held[2] ~= 'read' and held[2] ~= 'write' then
		-- break hand_off_held: local reply = redis.pcall('DEL', record, side)
		local reply = redis.pcall('DEL', lock, record, side)
		if type(reply) == 'table' then
			return client_error(reply, 'UNLOCK')
		end
		if layout_type == 'hash' then
			notify_redisson(lock, counter)
		end
		return 1
	end
end
local holds, layout = count_holds(lock, record, token, layout_type)
if not holds then
	return layout
end
-- break release_by_anybody: if false then
if holds == 0 then
	local owner = tell and layout == 'string' and redis.call('GET', lock)
	if tell and layout == 'zset' then
		owner = redis.call('ZRANGE', lock, '0', '0')[1]
	end
	if tell and layout == 'hash' then
		-- (See info.lua.)
		local fields = redis.pcall('HSCAN', lock, 0, 'COUNT', 1)
		owner = not fields.err and fields[2][1]
	elseif tell and layout == 'm' then
		owner = select(3, sides().holder_of(lock))
	end
	return owner and redis.status_reply('REFUSED 0 1 ' .. (owner:gsub('%c', '?'))) or 0
end
if layout == 'm' or layout == 'x' then
	release_rw(lock, record, not is_short and queue or nil, side, counter, token, layout)
	return 1
end
if ticket ~= '' then
	local note
	if layout == 'zset' then
		note = '- ' .. (redis.call('HGET', record, token) or '')
	else
		note = redis.pcall('GET', record)
	end
	if type(note) ~= 'string' or note:match('^%S+ %S+ =?(.+)$') ~= ticket then
		return 0
	end
end
if layout == 'zset' then
	end_place(lock, record, token)
	if not is_short then
		hand_off_places(lock, record, queue, side, counter)
	end
	return 1
end
if holds > 1 then
	local left = redis.pcall('HINCRBY', lock, token, '-1')
	if type(left) == 'table' then
		return client_error(left, 'UNLOCK')
	end
	return 1
end
-- break hand_off_held: local reply = redis.pcall('DEL', record, side)
local reply = redis.pcall('DEL', lock, record, side)
if type(reply) == 'table' then
	return client_error(reply, 'UNLOCK')
end
if not hand_off(lock, record, queue, side, counter) or layout ~= 'hash' then
	return 1
end
notify_redisson(lock, counter)
return 1
