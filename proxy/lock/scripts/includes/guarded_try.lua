-- The rest of what guarded_key.lua tells of: may the client wait, by which ticket, for how many ms
-- and at which place?
local function guarded_try()
	local ticket, wait_ms, place = unpack(ARGV, 3, 5)
	return ticket ~= '' and wait_ms ~= '0', ticket, tonumber(wait_ms), place
end
