-- Hands a free lock to the first waiter that is present, which means that its deadline has not
-- passed and its worker listens. Notifies that waiter in the same step. Removes the waiters before
-- it; if one of them is present after all, it enters the queue again. In the layout `count`, the
-- next waiters get the lock, too, if they have the same owner. Returns true if the lock is still
-- free: no waiter has got it, and no woken waiter may take it.
--
-- With `owner`, the lock is not free. In the layout `count`, `owner` has the present owner's token,
-- fencing token and rest of the lease; only waiters of the same owner at the head of the queue get
-- the lock. With `owner.places`, a semaphore admits the first waiters while it has places. With
-- `owner.sides`, a read-write lock admits the first waiters that may have it together.
--
-- One call removes or serves at most 64 waiters. If there are more, the script asks the worker of
-- the next waiter to poll the lock at once, and no newcomer takes it until then. The second result
-- is true if that worker does not listen, or is gone: then poll.lua makes hasp poll again.
--
-- The queue of a lock is a sorted set. The score of an entry is its place: microseconds of Redis'
-- clock, no two alike. An entry is
--
--     <ticket> <proof> <woken ms> <deadline ms> <kind> <lease ms> <until ms> <token> <value>
--
-- The proof covers the ticket and all fields after `woken`, see wake(). A script does not grant the
-- lock to an entry without a proof by the script's own hasp process. The ticket names one try of
-- one client, and begins with its worker's number, up to the dash; see await_worker() for the
-- meaning of a first letter `n`. The kind decides what the script writes when it hands the lock
-- off:
--
--     h   the verbs' layout `count`: a hash {token: holds}
--     s   the verbs' layouts `refresh` and `no`: a string holding the token
--     l   a semaphore, see count_places(): the value is how many owners there may be
--     m   the read side of a read-write lock, shared by many: see rw.lua
--     x   its write side, exclusive
--     r   a rule's lock: the value, and the owner in the sidecar
--     v   a rule's lock with owner = value: the value alone
--     g   a guard: the value, which is the owner's token, and the ticket; it has no record
--
-- `until` is the end of a lease that the application named as a date, else 0.
-- The lock's record, `<token> <fencing token or -> <ticket>`, remembers the acquisition.
-- include ask_worker
-- include await_worker
-- include is_present
-- include mark_woken
-- include may_join
-- include offer
-- include parse_waiter
-- include sign
-- include wake
local function hand_off(lock, record, queue, side, counter, owner)
	-- (A queue of another type counts as empty.)
	-- break last_first: local entries = redis.pcall('ZREVRANGE', queue, '0', '1')
	local entries = redis.pcall('ZRANGE', queue, '0', '1')
	if not entries[1] then
		return true
	end
	local keys = { lock = lock, record = record, side = side, counter = counter }
	local now = redis.call('TIME')
	local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
	local deaf = {}
	local i, n = 1, 0
	while entries[i] do
		local entry = entries[i]
		-- break two_owners: if false then
		if owner and owner.token and not entry:find(' ' .. owner.token .. ' ', 1, true) then
			return false
		end
		local waiter = parse_waiter(entry, now_ms)
		-- break two_owners: if owner and (not waiter or waiter.kind ~= 'h' or deaf[1]) then return false elseif owner then deaf[1], owner.fence = true, nil end if false then
		if owner then
			local joins, more = may_join(keys, waiter, owner, now_ms)
			if not joins then
				return false, more
			end
		end
		if n == 64 then
			if waiter and deaf[waiter.worker] == 'gone' then
				mark_woken(queue, entry, waiter, now_ms - 4000)
				return false, true
			end
			local listeners = waiter and ask_worker(waiter)
			return false, type(listeners) ~= 'number' or listeners == 0
		end
		n = n + 1
		local outcome, fence = 'absent', nil
		local is_joined = owner ~= nil and owner.token ~= nil
		if waiter and is_present(waiter, now_ms, deaf) then
			if waiter.proof == sign('entry', lock, waiter.ticket .. ' ' .. waiter.terms) then
				outcome, fence = offer(keys, waiter, owner, now_ms)
			else
				outcome = wake(queue, entry, waiter, now_ms, deaf, is_joined)
			end
		elseif waiter and deaf[waiter.worker] == true and waiter.deadline_ms > now_ms then
			outcome = await_worker(queue, entry, waiter, now_ms, deaf, is_joined)
		end
		if outcome == 'refused' or outcome == 'woken' then
			return false
		end
		redis.call('ZREM', queue, entry)
		if outcome == 'deaf' then
			deaf[waiter.worker] = true
		elseif outcome == 'granted' then
			if waiter.kind == 'l' then
				owner = { places = true }
			elseif waiter.kind == 'm' or waiter.kind == 'x' then
				owner = { sides = true }
			elseif waiter.kind ~= 'h' then
				return false
			else
				local lease = owner and string.format('%.0f', redis.call('PTTL', lock)) or waiter.lease
				owner = { token = waiter.token, fence = fence, lease = lease }
			end
		end
		i = i + 1
		if i == 3 then
			-- Both entries have left the queue.
			-- break last_first: entries, i = redis.call('ZREVRANGE', queue, '0', '1'), 1
			entries, i = redis.call('ZRANGE', queue, '0', '1'), 1
		end
	end
	return owner == nil
end

-- Returns true if the first waiter may have the lock although it is not free. If a semaphore or a
-- read-write lock has an entry that is no waiter, or past its deadline, returns true, too:
-- hand_off() then removes the entry. `owner` is hand_off()'s. Each waiter for a semaphore names how
-- many owners there may be. The second result is true if the time of some readers is over, and one
-- call cannot remove all of these readers.
-- include may_take_rw
local function may_join(keys, waiter, owner, now_ms)
	local lock = keys.lock
	if owner.token then
		return waiter and waiter.kind == 'h' and waiter.token == owner.token
	end
	if not waiter or waiter.deadline_ms <= now_ms then
		return true
	end
	if owner.sides then
		local kind = waiter.kind
		if kind ~= 'm' and kind ~= 'x' then
			return false
		end
		local allowed, _, _, more = may_take_rw(lock, keys.record, keys.side, waiter.token, kind)
		return allowed, more
	end
	local n = redis.call('ZCARD', lock)
	return waiter.kind == 'l' and (n < (tonumber(waiter.value) or 0)
		or type(redis.call('ZSCORE', lock, waiter.token)) == 'string')
end

-- Grants the lock to `waiter`, and notifies its worker. `owner`: the owner that has the lock
-- already, in the layout `count`; else nil. Returns the outcome:
--
--     granted   and the fencing token
--     deaf      the waiter's worker did not listen, so the script has undone the grant
--     refused   Redis refuses to write (no memory left, say), or to publish (this user may not):
--               the lock stays free for hasp's own poll, which may succeed
-- include format_ms
-- include grant
-- include revoke
-- include sign
local function offer(keys, waiter, owner, now_ms)
	local fence = grant(keys, waiter, owner and owner.fence)
	if not fence then
		return 'refused'
	end
	local message = waiter.ticket .. ' ' .. fence .. ' ' .. format_ms(now_ms)
	local listeners = redis.pcall('PUBLISH', 'hasp:worker:' .. waiter.worker,
		message .. ' ' .. sign('grant', keys.lock, message))
	if type(listeners) == 'number' and listeners > 0 then
		return 'granted', fence
	end
	revoke(keys, waiter, fence, owner)
	return type(listeners) == 'number' and 'deaf' or 'refused'
end

-- Writes the lock, and the keys beside it, for `waiter`. `shared_fence`: the fencing token of the
-- waiter's owner if that owner has the lock already; else nil. Returns the fencing token, or '-';
-- nil if Redis refuses the write: then nothing was written.
-- include take_count
-- include take_limit
-- include take_rw
-- include take_token
local function grant(keys, waiter, shared_fence)
	local lock, record, side, counter = keys.lock, keys.record, keys.side, keys.counter
	local kind, lease, token, ticket = waiter.kind, waiter.lease, waiter.token, waiter.ticket
	local fence
	if kind == 'h' then
		fence = take_count(lock, record, side, counter, token, lease, ticket, nil, not shared_fence,
			shared_fence)
	elseif kind == 's' then
		fence = take_token(lock, record, side, counter, token, lease, ticket, nil, true)
	elseif kind == 'l' then
		fence = take_limit(lock, record, side, counter, token, lease, ticket)
	elseif kind == 'm' or kind == 'x' then
		fence = take_rw(lock, record, side, counter, token, lease, ticket, kind)
	end
	if fence then
		return type(fence) == 'number' and string.format('%.0f', fence) or nil
	end
	local value = kind == 'g' and waiter.value .. ' ' .. ticket or waiter.value
	if redis.pcall('SET', lock, value, 'PX', lease).err then
		return nil
	end
	-- (After a reload, the rule may have owner = value, which has no sidecar.)
	if kind == 'r' and side ~= lock then
		redis.call('SET', side, token .. ' ' .. waiter.value, 'PX', lease)
	end
	if kind ~= 'g' then
		redis.call('SET', record, token .. ' - ' .. ticket, 'PX', lease)
	end
	return '-'
end

-- Undoes the writes of grant() for `waiter`. `owner`, if given, keeps the lock.
-- include end_place
-- include undo_rw
local function revoke(keys, waiter, fence, owner)
	if waiter.kind == 'l' then
		-- (An owner that had its place before keeps it: see take_limit().)
		if redis.call('HGET', keys.record, waiter.token) == fence .. ' ' .. waiter.ticket then
			end_place(keys.lock, keys.record, waiter.token)
		end
		return
	end
	if waiter.kind == 'm' or waiter.kind == 'x' then
		undo_rw(keys.lock, keys.record, keys.side, waiter.token, waiter.kind, waiter.ticket)
		return
	end
	if owner then
		redis.call('HINCRBY', keys.lock, waiter.token, -1)
		redis.call('PEXPIRE', keys.lock, owner.lease)
		redis.call('PEXPIRE', keys.record, owner.lease)
		redis.call('ZREM', keys.side, fence .. ' ' .. waiter.ticket)
	else
		redis.call('DEL', keys.lock, keys.record)
	end
	if waiter.kind == 'r' then
		redis.call('DEL', keys.side)
	end
end

-- Hands off a lock of any kind, as much of it as is free. Returns the results of hand_off().
-- include hand_off
-- include hand_off_places
-- include hand_off_rw
local function hand_off_kind(lock, record, queue, side, counter, kind)
	if kind == 'l' then
		return hand_off_places(lock, record, queue, side, counter)
	end
	if kind == 'm' or kind == 'x' then
		return hand_off_rw(lock, record, queue, side, counter)
	end
	return hand_off(lock, record, queue, side, counter)
end
