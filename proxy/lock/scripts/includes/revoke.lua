-- Undoes what grant() wrote for `waiter`. `owner` has the lock still, if there is one.
local function revoke(keys, waiter, fence, owner)
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
