-- Returns true if a number in `reply` may have been rounded, because Lua's numbers are exact up to
-- 2^53 only. The caller then undoes the command: an error is better than a wrong number.
local function int_overflow(reply)
	if type(reply) == 'number' then
		return reply >= 2 ^ 53 or reply <= -2 ^ 53
	end
	for _, element in ipairs(type(reply) == 'table' and reply or {}) do
		if int_overflow(element) then
			return true
		end
	end
	return false
end
