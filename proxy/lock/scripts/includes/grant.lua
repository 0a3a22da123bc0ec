-- Writes the lock, and the keys beside it, for `waiter`. `shared_fence` is the fencing token of its
-- owner if that has the lock already; else nil. Returns the fencing token, or '-'; nil when Redis
-- refuses the write: then nothing was written.
-- include add_hold
-- include next_fence
-- include take_place
-- include take_rw
local function grant(keys, waiter, shared_fence)
	local kind, lease = waiter.kind, waiter.lease
	if kind == 'l' then
		local fence = take_place(keys.lock, keys.record, keys.counter, waiter.token, lease,
			waiter.ticket)
		return type(fence) == 'number' and string.format('%.0f', fence) or nil
	end
	if kind == 'm' or kind == 'x' then
		local fence = take_rw(keys.lock, keys.record, keys.side, keys.counter, waiter.token, lease,
			waiter.ticket, kind)
		return type(fence) == 'number' and string.format('%.0f', fence) or nil
	end
	local fence = shared_fence or '-'
	if not shared_fence and (kind == 'h' or kind == 's') then
		local fresh, digits = next_fence(keys.counter)
		if type(fresh) == 'table' then
			return nil
		end
		fence = digits
	end

	local reply
	if kind == 'h' then
		reply = redis.pcall('HINCRBY', keys.lock, waiter.token, '1')
	else
		local content = waiter.value
		if kind == 's' then
			content = waiter.token
		elseif kind == 'g' then
			content = waiter.value .. ' ' .. waiter.ticket
		end
		reply = redis.pcall('SET', keys.lock, content, 'PX', lease)
	end
	if type(reply) == 'table' and reply.err then
		return nil
	end

	if kind == 'h' then
		if shared_fence then
			-- The lease of the other holds must not get shorter.
			local left = redis.call('PTTL', keys.lock)
			if left >= tonumber(lease) then
				lease = string.format('%.0f', left)
			end
		end
		redis.call('PEXPIRE', keys.lock, lease)
	elseif kind == 'r' and keys.side ~= keys.lock then
		-- (After a reload, the rule may have owner = value, which has no sidecar.)
		redis.call('SET', keys.side, waiter.token .. ' ' .. waiter.value, 'PX', lease)
	end
	if shared_fence then
		redis.call('PEXPIRE', keys.record, lease)
		add_hold(keys.side, fence, waiter.ticket, lease)
	elseif kind ~= 'g' then
		redis.call('SET', keys.record, waiter.token .. ' ' .. fence .. ' ' .. waiter.ticket,
			'PX', lease)
	end
	return fence
end
