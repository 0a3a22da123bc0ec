-- The entry of `ticket` at `place` in the queue. With place '' its place is not known, only that it
-- entered the queue at most `ms` ms before this call was sent: it is searched for among 256 entries
-- from then on. nil when it is not found.
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
