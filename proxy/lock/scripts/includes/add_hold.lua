-- In the layout `count`: remembers that the try `ticket` got one more hold of a lock that its owner
-- has by the fencing token `fence` (a string).
--
-- The lock's sidecar, which the verbs' locks have no other use for, is a sorted set of
-- `<fencing token> <ticket>` by time. The record names only the first try. By both of them, hasp
-- releases the hold of a try whose reply was lost. The script forgets a busy owner's oldest
-- entries.
local function add_hold(side, fence, ticket, lease)
	local now = redis.call('TIME')
	local score, member = now[1] .. string.format('%06d', now[2]), fence .. ' ' .. ticket
	if type(redis.pcall('ZADD', side, score, member)) == 'table' then
		-- (The key is the sidecar of a rule's earlier lock.)
		redis.call('DEL', side)
		redis.call('ZADD', side, score, member)
	end
	if redis.call('ZCARD', side) > 10000 then
		redis.call('ZREM', side, unpack(redis.call('ZRANGE', side, '0', '99')))
	end
	-- A little longer than the lock: an entry with another fencing token does not count.
	redis.call('PEXPIRE', side, string.format('%.0f', lease + 60000))
end
