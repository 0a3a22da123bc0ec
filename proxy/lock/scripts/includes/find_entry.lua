-- Returns the entry of `ticket` at `place` in the queue; nil: not found. Place '': the place is not
-- known, but the try entered the queue at most `ms` ms before this call was sent; searches 256
-- entries from then on.
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
