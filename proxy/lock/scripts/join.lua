-- Common to the acts that let in who has the lock already, in the layout `count`, where an act
-- says "include join.lua".

-- Notes that `ticket` was let in as an owner that has the lock by fencing token `fence`: the lock's
-- sidecar, which the verbs' locks have no other use for, is a sorted set of `<fencing token> <ticket>`
-- by time. The record names the first one; by both of them whoever never heard that it was let in
-- gives back what it got. A busy owner's oldest are forgotten.
local function join(side, fence, ticket, lease)
	local t = redis.call('TIME')
	local place, note = t[1] .. string.format('%06d', t[2]), fence .. ' ' .. ticket
	if type(redis.pcall('ZADD', side, place, note)) == 'table' then
		-- A rule's, of a lock that is over.
		redis.call('DEL', side)
		redis.call('ZADD', side, place, note)
	end
	if redis.call('ZCARD', side) > 10000 then
		redis.call('ZREM', side, unpack(redis.call('ZRANGE', side, '0', '99')))
	end
	-- A little longer than the lock: what is not of its fencing token does not count.
	redis.call('PEXPIRE', side, string.format('%.0f', lease + 60000))
end
