-- Parses `note`, the sidecar of a rule's lock that has this value. Returns the token of the owner;
-- if others have counted on, also the part of the value that the owner added, as text. Returns nil
-- if the sidecar is of another value, and so of an earlier lock.
--
--     <token> <value>          the value is the owner's
--     <token> ~<own> <value>   a counter: others have added the rest
local function parse_side(note, value)
	local space = note and note:find(' ', 1, true)
	if not space then
		return nil
	end
	local token, rest = note:sub(1, space - 1), note:sub(space + 1)
	if rest == value then
		return token
	end
	local own, count = rest:match('^~(-?%d+) (.*)$')
	if count == value then
		return token, own
	end
end
