-- Lua's numbers are exact up to 2^53 only. A reply that may have been rounded is refused, and what
-- the command did is undone: rather an error than a wrong number.
local function beyond(reply)
	if type(reply) == 'number' then
		return reply >= 2 ^ 53 or reply <= -2 ^ 53
	end
	for _, element in ipairs(type(reply) == 'table' and reply or {}) do
		if beyond(element) then
			return true
		end
	end
	return false
end
local BEYOND = 'ERR a key with a lock rule cannot count beyond 2^53'
