-- Returns the rest of the arguments that guarded_key.lua describes: whether the client may wait,
-- its ticket, how many ms, and its place.
local function guarded_try()
	local ticket, wait_ms, place = unpack(ARGV, 3, 5)
	return ticket ~= '' and wait_ms ~= '0', ticket, tonumber(wait_ms), place
end
