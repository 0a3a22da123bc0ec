-- In the layout `count`: remembers that the try `ticket` got one more hold of a lock that its owner
-- has by the fencing token `fence` (a string).
--
-- The lock's sidecar, which the verbs' locks have no other use for, is a sorted set of
-- `<fencing token> <ticket>` by time. The record names only the first try. By both of them, a try
-- that never heard that it got a hold gives it back. A busy owner's oldest are forgotten.
local function add_hold(side, fence, ticket, lease)
	local now = redis.call('TIME')
	local score, member = now[1] .. string.format('%06d', now[2]), fence .. ' ' .. ticket
	if type(redis.pcall('ZADD', side, score, member)) == 'table' then
		-- A rule's sidecar, of a lock that is over.
		redis.call('DEL', side)
		redis.call('ZADD', side, score, member)
	end
	if redis.call('ZCARD', side) > 10000 then
		redis.call('ZREM', side, unpack(redis.call('ZRANGE', side, '0', '99')))
	end
	-- A little longer than the lock: an entry with another fencing token does not count.
	redis.call('PEXPIRE', side, string.format('%.0f', lease + 60000))
end
