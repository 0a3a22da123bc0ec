-- Has `owner`, what a guard holds, this token, with a ticket behind it or without? (See guards.lua.)
local function is_owner(owner, token)
	return owner == token
		or type(owner) == 'string' and owner:sub(1, #token + 1) == token .. ' '
end
