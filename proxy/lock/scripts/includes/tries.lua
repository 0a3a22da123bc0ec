-- Returns the fencing token (0: none) of the grant to the try `ticket`, if that try still has the
-- lock; else nil. `refreshed`: a try that only refreshed its owner's lock counts, too. For the
-- kinds, see hand_off.lua.
-- include check_owner
-- include is_guard_owner
-- include is_retaken
-- include read_left
-- include rw_field
local function granted_fence(lock, record, side, kind, ticket, token, value, refreshed)
	if kind == 'g' then
		return is_guard_owner(redis.pcall('GET', lock), token) and 0 or nil
	end
	local note
	local field = rw_field(token, kind)
	if kind == 'l' or kind == 'm' or kind == 'x' then
		note = redis.pcall('HGET', record, field)
		note = type(note) == 'string' and token .. ' ' .. note
	else
		note = redis.pcall('GET', record)
	end
	local fence, first
	if type(note) == 'string' then
		fence, first = note:match('^%S+ (%S+) (.+)$')
	end
	if refreshed and first == '=' .. ticket then
		first = ticket
	end
	-- (add_hold() explains the entries of the sidecar.)
	if not fence or first ~= ticket and not ((kind == 'h' or kind == 'm' or kind == 'x')
		and type(redis.pcall('ZSCORE', side, fence .. ' ' .. ticket)) == 'string') then
		return nil
	end
	local held
	if kind == 'h' or kind == 'x' then
		held = redis.pcall('HEXISTS', lock, field) == 1
	elseif kind == 'm' then
		held = redis.pcall('HGET', lock, token)
		held = type(held) == 'string' and read_left(lock, token, held, 0) >= 0
	elseif kind == 'l' then
		held = type(redis.pcall('ZSCORE', lock, token)) == 'string'
	elseif kind == 'r' then
		held = select(2, check_owner(lock, side, token)) and not is_retaken(lock, side)
	else
		held = redis.pcall('GET', lock) == (kind == 's' and token or value)
	end
	return held and (tonumber(fence) or 0) or nil
end

-- Notes in the sidecar that the try was undone, while its owner has other holds. An UNLOCK of the
-- undone hold may come later, over a connection that broke. It must not end another hold of the
-- owner (see answer_ended()). An owner that is one connection needs no note: its UNLOCK names no
-- acquisition. (A note could also make the sidecar outlive the lock, because a short UNLOCK may not
-- name the sidecar.)
-- include add_hold
local function note_undone(lock, side, ticket, token)
	if token:sub(1, 11) ~= 'connection:' then
		add_hold(side, '-', ticket, redis.call('PTTL', lock))
	end
end

-- Gives back the hold that the try `ticket` got, and hands the lock off if that was the last hold.
-- Other tries of the same owner keep their holds. Not for semaphores; hand_off.lua describes the
-- kinds.
-- include forget_try
-- include hand_off
-- include left_rw
-- include note_undone
-- include notify_redisson
-- include take_back
-- include undo_rw
-- include write_when_full
local function undo_try(lock, record, queue, side, counter, kind, ticket, token)
	write_when_full(queue)
	if kind == 'm' or kind == 'x' then
		if undo_rw(lock, record, side, token, kind, ticket) then
			left_rw(lock, record, queue, side, counter, kind)
		end
		if redis.call('HEXISTS', lock, token) + redis.call('HEXISTS', lock, token .. ':write') > 0 then
			note_undone(lock, side, ticket, token)
		end
		return
	end
	if kind == 'h' and redis.call('HINCRBY', lock, token, -1) > 0 then
		forget_try(record, side, nil, ticket)
		note_undone(lock, side, ticket, token)
		return
	end
	if kind == 'r' and take_back(lock, record, side) then
		return
	end
	redis.call('DEL', lock, record, side)
	if hand_off(lock, record, queue, side, counter) and kind == 'h' then
		notify_redisson(lock, counter)
	end
end
