-- Enters the queue of a lock, at `place` if hasp knows it from an earlier try, else at the end.
-- `rest` is the entry from its kind on (see hand_off.lua). `held_ms`: for how many ms the lock is
-- held; -1: for ever, or not asked; -2: not known, so this function asks.
--
-- hasp does not forward the reply to the client. The reply is QUEUED, the place, Redis' time in ms,
-- and for how many ms the lock is held.
-- include format_ms
-- include sign
local function enqueue(lock, held_ms, queue, ticket, wait_ms, place, rest)
	local now = redis.call('TIME')
	local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
	if place == '' then
		-- break newcomers_first: place = string.format('%.0f', 4000000000000000 - now[1] * 1000000 - now[2])
		place = now[1] .. string.format('%06d', now[2])
		-- Redis' clock was set back, or is too coarse.
		-- break newcomers_first: if false then
		if redis.call('ZCOUNT', queue, place, '+inf') > 0 then
			local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
			place = string.format('%.0f', last + 1)
		end
	end
	local terms = format_ms(now_ms + wait_ms) .. ' ' .. rest
	local proof = sign('entry', lock, ticket .. ' ' .. terms)
	local entry = ticket .. ' ' .. proof .. ' 0 ' .. terms
	local reply = redis.pcall('ZADD', queue, place, entry)
	if type(reply) == 'table' then
		return reply
	end
	-- The queue outlives its waiters by a second or two, so that few calls set its expiry.
	if redis.call('PTTL', queue) < wait_ms + 1000 then
		redis.call('PEXPIRE', queue, wait_ms + 2000)
	end
	if held_ms == -2 then
		held_ms = redis.call('PTTL', lock)
	end
	return redis.status_reply('QUEUED ' .. place .. ' ' .. format_ms(now_ms) .. ' ' .. held_ms)
end

-- Returns true if the client's own connection has the lock. ARGV names the connection's tokens from
-- `first` on; has(token) returns true if that owner has the lock now. The client must not wait for
-- such a lock: the command that would release the lock comes after the one that waits.
local function any_own(first, has)
	for i = first, #ARGV do
		if has(ARGV[i]) then
			return true
		end
	end
	return false
end

-- Returns the entry of `ticket` at `place` in the queue; nil: not found. Place '': hasp does not
-- know the place, but the try entered the queue at most `ms` ms before hasp sent this call. Then
-- the script searches the first 256 entries since that time.
local function find_entry(queue, ticket, place, ms)
	local first, last, most = place, place, '64'
	if place == '' then
		-- (The call may have taken a second to arrive.)
		local now = redis.call('TIME')
		first = string.format('%.0f', math.max(0, (now[1] - 1) * 1000000 + now[2] - ms * 1000))
		last, most = '+inf', '256'
	end
	local entries = redis.call('ZRANGEBYSCORE', queue, first, last, 'LIMIT', '0', most)
	for _, entry in ipairs(entries) do
		if entry:sub(1, #ticket + 1) == ticket .. ' ' then
			return entry
		end
	end
end

-- Returns the fields of a queue's entry (see hand_off.lua); nil: `entry` has another form. If the
-- entry names a date in `until`, the lease ends at that date at the latest.
local function parse_waiter(entry, now_ms)
	local ticket, proof, woken_ms, terms = entry:match('^(%S+) (%x+) (%d+) (.*)$')
	if not ticket then
		return nil
	end
	local deadline_ms, kind, lease, until_ms, token, value =
		terms:match('^(%d+) (%a) (%d+) (%d+) (%S+) (.*)$')
	local worker = ticket:match('^[^-]+')
	if not deadline_ms or not worker then
		return nil
	end
	if until_ms ~= '0' then
		lease = string.format('%.0f', math.min(lease, until_ms - now_ms))
	end
	return {
		ticket = ticket,
		worker = worker,
		proof = proof,
		woken_ms = tonumber(woken_ms),
		terms = terms,
		deadline_ms = tonumber(deadline_ms),
		kind = kind,
		lease = lease,
		token = token,
		value = value,
	}
end

-- Writes `now_ms` to the field `woken` of a queue's entry (see hand_off.lua). The entry keeps its
-- place.
local function mark_woken(queue, entry, waiter, now_ms)
	redis.call('ZADD', queue, redis.call('ZSCORE', queue, entry), waiter.ticket .. ' '
		.. waiter.proof .. ' ' .. string.format('%.0f', now_ms) .. ' ' .. waiter.terms)
	redis.call('ZREM', queue, entry)
end

-- Returns the proof that a script of this hasp process wrote `text` about the lock. `what` is the
-- kind of text: an `entry` of the queue, or a `grant`. Other clients of Redis may read queues, and
-- publish. So the proof is a hash of the text and of ARGV[1], a secret that this process has for
-- this database, and that no key contains. To another process a proof looks like a forgery.
local function sign(what, lock, text)
	local secret = ARGV[1]
	return redis.sha1hex(secret .. what .. ' ' .. #lock .. ' ' .. lock .. text .. secret)
end
