-- Takes a place of a semaphore for the owner of the try `ticket`. An owner has one place at most.
-- If it has one already, it keeps it, with its fencing token; the script marks the try, because
-- undoing it would take the place away. Returns the fencing token; or Redis' error: then nothing
-- was written.
-- include next_fence
-- include set_place
local function take_place(lock, record, counter, token, lease, ticket)
	local had = redis.call('ZSCORE', lock, token)
	local known = had and redis.call('HGET', record, token)
	local fence = known and tonumber(known:match('^%d+')) or next_fence(counter)
	if type(fence) == 'table' then
		return fence
	end
	local note = string.format('%.0f', fence) .. (known and ' =' or ' ') .. ticket
	return set_place(lock, record, token, lease, had, note) or fence
end
