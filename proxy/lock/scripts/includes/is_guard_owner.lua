-- Returns true if `owner`, the value of a guard, has this token, with a ticket after it or without.
-- (See guarded_key.lua.)
local function is_guard_owner(owner, token)
	return owner == token
		or type(owner) == 'string' and owner:sub(1, #token + 1) == token .. ' '
end
