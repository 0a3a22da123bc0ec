-- Common to the acts that let waiters in, where an act says "include queue.lua".
--
-- Who waits for a lock stands in its queue, a sorted set by place (microseconds of Redis'
-- clock, no two alike) of entries
--
--     <ticket> <deadline ms> <kind> <lease ms> <until ms> <token> <value>
--
-- The ticket names one try of one client, and begins with its worker's number, up to the
-- dash. The kind says what to write when the lock is handed over:
--
--     h   the verbs' layout `count`: a hash {token: holds}
--     s   the verbs' layouts `refresh` and `no`: a string holding the token
--     r   a rule's lock: the value, and the owner in the sidecar
--     v   a rule's lock with owner = value: the value alone
--     g   a guard: the value, which is the owner's token, and the ticket; it has no record
--
-- `until` is the end of a lease that the application named as a date, else 0.
-- The lock's record, `<token> <fencing token or -> <ticket>`, remembers who was let in.

-- include ms_text.lua
-- include join.lua

-- What is written for who is let in; `fence`: of an owner who has the lock already. Returns the
-- fencing token, or '-'; nil when Redis refuses the write (no memory left, say): then nothing
-- was written.
local function let_in(lock, record, side, counter, kind, token, value, lease, ticket, fence)
	local owners = fence
	if not fence and (kind == 'h' or kind == 's') then
		fence = redis.pcall('INCR', counter)
		if type(fence) == 'table' then
			return nil
		end
		fence = string.format('%.0f', fence)
	end
	fence = fence or '-'
	local reply
	if kind == 'h' then
		reply = redis.pcall('HINCRBY', lock, token, '1')
	else
		local what = kind == 's' and token or kind == 'g' and value .. ' ' .. ticket or value
		reply = redis.pcall('SET', lock, what, 'PX', lease)
	end
	if type(reply) == 'table' and reply.err then
		return nil
	end
	if kind == 'h' and owners then
		-- Nobody's lease gets shorter.
		local left = redis.call('PTTL', lock)
		if left >= tonumber(lease) then
			lease = string.format('%.0f', left)
		end
	end
	if kind == 'h' then
		redis.call('PEXPIRE', lock, lease)
	elseif kind == 'r' and side ~= lock then
		-- (The rule may have got owner = value meanwhile, which knows no sidecar.)
		redis.call('SET', side, token .. ' ' .. value, 'PX', lease)
	end
	if owners then
		redis.call('PEXPIRE', record, lease)
		join(side, fence, ticket, lease)
	elseif kind ~= 'g' then
		redis.call('SET', record, token .. ' ' .. fence .. ' ' .. ticket, 'PX', lease)
	end
	return fence
end

-- Hands the lock, which is free, to the first waiter who is there: not past its deadline, and
-- its worker listens. That one is told in the same step; those before it are forgotten, and
-- stand in line again if they are there after all. In the layout `count`, waiters of the same
-- owner right behind it are let in, too. Returns true when nobody is left and the lock is still
-- free.
local function hand_over(lock, record, queue, side, counter)
	local deaf, owner, owners_fence, owners_lease, now = {}, nil, nil, nil, nil
	-- (A queue of another type has nobody in it.)
	local some, at = redis.pcall('ZRANGE', queue, '0', '1'), 0
	while true do
		at = at + 1
		if at == 3 then
			-- All of those are out of it.
			some, at = redis.call('ZRANGE', queue, '0', '1'), 1
		end
		local entry = some[at]
		if not entry then
			return owner == nil
		end
		if owner and not entry:find(' ' .. owner .. ' ', 1, true) then
			return false
		end
		if not now then
			local t = redis.call('TIME')
			now = t[1] * 1000 + math.floor(t[2] / 1000)
		end
		local ticket, deadline, kind, lease, till, token, value =
			entry:match('^(%S+) (%d+) (%a) (%d+) (%d+) (%S+) (.*)$')
		local worker = ticket and ticket:match('^[^-]+')
		if worker and deaf[worker] == nil then
			-- PUBLISH also counts who listens to a pattern.
			local n = redis.pcall('PUBSUB', 'NUMSUB', 'hasp:worker:' .. worker)
			deaf[worker] = n[2] == 0
		end
		if owner and (kind ~= 'h' or token ~= owner) then
			return false
		end
		if till and till ~= '0' then
			lease = string.format('%.0f', math.min(lease, till - now))
		end
		if worker and not deaf[worker] and tonumber(deadline) > now and tonumber(lease) > 0 then
			local fence = let_in(lock, record, side, counter, kind, token, value, lease,
				ticket, owners_fence)
			if not fence then
				return false
			end
			local told = redis.pcall('PUBLISH', 'hasp:worker:' .. worker,
				ticket .. ' ' .. fence .. ' ' .. ms_text(now))
			if type(told) == 'number' and told > 0 then
				redis.call('ZREM', queue, entry)
				if kind ~= 'h' then
					return false
				end
				if owner then
					lease = string.format('%.0f', redis.call('PTTL', lock))
				end
				owner, owners_fence, owners_lease = token, fence, lease
			else
				if owner then
					redis.call('HINCRBY', lock, token, -1)
					redis.call('PEXPIRE', lock, owners_lease)
					redis.call('PEXPIRE', record, owners_lease)
					redis.call('ZREM', side, fence .. ' ' .. ticket)
				else
					redis.call('DEL', lock, record)
				end
				if kind == 'r' then
					redis.call('DEL', side)
				end
				if type(told) ~= 'number' then
					-- This user may not publish: hasp's own look at the lock can.
					return false
				end
				deaf[worker] = true
				redis.call('ZREM', queue, entry)
			end
		else
			redis.call('ZREM', queue, entry)
		end
	end
end
