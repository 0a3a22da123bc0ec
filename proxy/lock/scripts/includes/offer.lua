-- Grants the lock to `waiter`, and notifies its worker. `owner`: the owner that has the lock
-- already, in the layout `count`; else nil. Returns the outcome:
--
--     granted   and the fencing token
--     deaf      its worker did not listen, so the script has undone the grant
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
