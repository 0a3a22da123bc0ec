-- Returns the sidecar of a counter (see parse_side.lua) that `token` has counted from `before` to
-- `after`. Returns nil if the counter no longer has an owner. `terms` is 'shared' if several
-- connections have this token. Then only what the first of them added is the owner's part: when
-- that connection ends, hasp takes back that part.
-- include get_string
-- include parse_side
local function recount(side, token, terms, before, after)
	local owner, own = parse_side(get_string(side), string.format('%.0f', before))
	if not owner then
		return nil
	end
	own = tonumber(own or before)
	-- break count_for_owner: local left = after
	local left = math.min(own, after)
	if owner == token and terms ~= 'shared' then
		left = own + after - before
	end
	if own > 0 and left <= 0 then
		return nil
	end
	local count = string.format('%.0f', after)
	if left ~= after then
		count = '~' .. string.format('%.0f', left) .. ' ' .. count
	end
	return owner .. ' ' .. count
end
