-- unlock: UNLOCK, and hasp's own release of a verbs' lock.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  fence counter
-- KEYS[5]  sidecar
--
-- A short call needs a counter only in a cluster, and a sidecar only if the lock may have one. Its
-- ARGV are the token; the layout of the lock that the client's own connection has, as far as hasp
-- knows: 'hash' (the default), 'string', 'zset' (a semaphore), or a side of a read-write lock, 'm'
-- or 'x'; and ARGV[6] of a full call. ARGV[5] is then always 'tell'. A full call has these ARGV:
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  layout: 'hash', 'string', 'zset', or '' for any
-- ARGV[4]  '' or the ticket of the acquisition to release, which must be the latest; '*': releases
--          all holds of this owner, which only one connection can be
-- ARGV[5]  'tell', or '' or nothing
-- ARGV[6]  if several connections may be this owner: the ticket of the acquisition whose hold is
--          given back, and its last fence (see answer_ended()); '': not known (see forget_try())
--
-- returns  1: released (and handed off to the first waiter), or one hold of several released;
--          0: this owner does not have the lock, or the hold that is given back had ended before (see
--          answer_ended()); if another owner has it, with 'tell': REFUSED 0 1, and
--          that owner's token; to a short call, BUSY: the script has done nothing, because clients
--          wait for the lock
-- layout   Redisson's RLock, with its message to its waiters, or go-zero's RedisLock; or a
--          semaphore (see count_places()), or a read-write lock (see rw.lua)
-- include count_holds
-- include drop_rw
-- include end_place
-- include forget_try
-- include hand_off
-- include hand_off_places
-- include left_rw
-- include notify_redisson
-- include owners_of
-- include raised_error
-- include rw_field
-- include write_when_full
local lock, record, queue, counter, side = unpack(KEYS)
local is_short = #ARGV <= 3
local token, layout, ticket, tell, given_back = unpack(ARGV, is_short and 1 or 2)
if is_short then
	layout, ticket, tell, given_back = layout or 'hash', '', 'tell', ticket
	if given_back then
		-- paste answer_ended
	end
	-- (As Redisson does, adds no braces to a name that has an opening brace.)
	local open, close = '{', '}'
	if lock:find('{', 1, true) then
		open, close = '', ''
	end
	local timeout = layout == 'm' and open .. lock .. close .. ':' .. token .. ':rwlock_timeout:1'
	-- break release_past_queue: local present = timeout and 2 or 0
	local present = timeout and redis.pcall('EXISTS', timeout, timeout, queue)
		or redis.call('EXISTS', queue)
	if present ~= 0 and not (timeout and present == 2) then
		return redis.status_reply('BUSY')
	end
	-- The usual case: this is the only hold of the only owner. Do not check for other layouts.
	local held, is_last
	if layout == 'hash' then
		held = redis.pcall('HMGET', lock, token, 'mode')
		is_last = held[1] == '1' and held[2] ~= 'read' and held[2] ~= 'write'
	elseif layout == 'string' then
		is_last = redis.pcall('GET', lock) == token
	elseif layout == 'zset' then
		held = redis.pcall('ZRANGE', lock, '0', '1')
		is_last = held[1] == token and not held[2] and redis.pcall('HEXISTS', record, token) == 1
	elseif layout == 'x' then
		held = redis.pcall('HMGET', lock, 'mode', token .. ':write', token)
		is_last = held[1] == 'write' and held[2] == '1' and not held[3]
	elseif present == 2 then
		held = redis.pcall('HMGET', lock, 'mode', token)
		is_last = held[1] == 'read' and held[2] == '1' and redis.call('HLEN', lock) == 2
	end
	if is_last then
		local reply
		-- break hand_off_held: if true then reply = redis.pcall('DEL', record) elseif side or timeout then
		if side or timeout then
			reply = redis.pcall('DEL', lock, record, side or timeout, timeout or side)
		else
			reply = redis.pcall('DEL', lock, record)
		end
		if type(reply) == 'table' then
			return redis.status_reply('BUSY')
		end
		if layout ~= 'string' and layout ~= 'zset' then
			local prefix = layout == 'hash' and 'redisson_lock__channel:' or 'redisson_rwlock:'
			local channel, message = prefix .. open .. lock .. close, layout == 'x' and '1' or '0'
			-- paste announce
		end
		return 1
	end
	if layout ~= 'hash' and layout ~= 'string' then
		layout = ''
	end
	side = side or record
end
local holds
holds, layout = count_holds(lock, record, token, layout)
if not holds then
	return layout
end
if holds > 0 and given_back then
	-- paste answer_ended
end
-- break release_by_anybody: if false then
if holds == 0 then
	tell = tell == 'tell'
	local owner = tell and layout == 'string' and redis.call('GET', lock)
	if tell and layout == 'zset' then
		owner = redis.call('ZRANGE', lock, '0', '0')[1]
	end
	if tell and layout == 'hash' then
		-- A lock of the layout `count` has one field.
		local fields = redis.pcall('HSCAN', lock, 0, 'COUNT', 1)
		owner = not fields.err and fields[2][1]
	elseif tell and layout == 'm' then
		owner = select(4, owners_of(lock))
	end
	return owner and redis.status_reply('REFUSED 0 1 ' .. (owner:gsub('%c', '?'))) or 0
end
local is_ok, result = pcall(function()
	if holds > 1 then
		write_when_full(queue)
	end
	-- break release_twice: if false then
	if holds > 1 and given_back and (layout == 'hash' or layout == 'm' or layout == 'x') then
		forget_try(record, side, layout ~= 'hash' and rw_field(token, layout) or nil,
			given_back:match('^%S*'))
	end
	if layout == 'm' or layout == 'x' then
		local left, dropped = nil, 0
		repeat
			left = drop_rw(lock, record, side, token, layout) and (left or layout) or left
			dropped = dropped + 1
			if ticket == '*' then
				holds, layout = count_holds(lock, record, token, '')
			end
		until ticket ~= '*' or (holds or 0) == 0 or dropped == 10000
		if left then
			left_rw(lock, record, not is_short and queue or nil, side, counter, left)
		end
		return 1
	end
	if ticket ~= '' and ticket ~= '*' then
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
	if holds > 1 and ticket ~= '*' then
		redis.call('HINCRBY', lock, token, '-1')
		return 1
	end
	-- break hand_off_held: redis.call('DEL', record, side)
	redis.call('DEL', lock, record, side)
	if hand_off(lock, record, queue, side, counter) and layout == 'hash' then
		notify_redisson(lock, counter)
	end
	return 1
end)
if is_ok then
	return result
end
return raised_error(result, 'UNLOCK')
