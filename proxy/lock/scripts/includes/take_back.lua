-- If others have counted on, takes back what the owner of the counter added. The rest has no owner
-- then. Returns false if no others have counted: then the lock can be deleted.
-- include get_string
-- include parse_side
local function take_back(lock, record, side)
	local value = get_string(lock)
	local _, own = parse_side(get_string(side), value)
	if not own then
		return false
	end
	redis.call('SET', lock, string.format('%.0f', value - own), 'KEEPTTL')
	redis.call('DEL', record, side)
	return true
end
