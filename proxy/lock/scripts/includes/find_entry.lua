-- The entry of `ticket` at `place` in the queue; with place '' anywhere in it. nil when there is
-- none.
local function find_entry(queue, ticket, place)
	local entries
	if place == '' then
		entries = redis.call('ZRANGE', queue, 0, -1)
	else
		entries = redis.call('ZRANGEBYSCORE', queue, place, place)
	end
	for _, entry in ipairs(entries) do
		if entry:sub(1, #ticket + 1) == ticket .. ' ' then
			return entry
		end
	end
end
