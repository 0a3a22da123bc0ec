-- Undoes the writes of grant() for `waiter`. `owner`, if given, keeps the lock.
-- include end_place
-- include undo_side
local function revoke(keys, waiter, fence, owner)
	if waiter.kind == 'l' then
		-- (An owner that had its place before keeps it: see take_place.lua.)
		if redis.call('HGET', keys.record, waiter.token) == fence .. ' ' .. waiter.ticket then
			end_place(keys.lock, keys.record, waiter.token)
		end
		return
	end
	if waiter.kind == 'm' or waiter.kind == 'x' then
		undo_side(keys.lock, keys.record, keys.side, waiter.token, waiter.kind, waiter.ticket)
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
