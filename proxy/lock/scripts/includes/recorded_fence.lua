-- Returns the fencing token, and its digits, that `record`, `<token> <fencing token> <ticket>`, has
-- for `token`; nil: none.
local function recorded_fence(record, token)
	local value = redis.pcall('GET', record)
	local space = type(value) == 'string' and value:find(' ', 1, true)
	if space and value:sub(1, space - 1) == token then
		local digits = value:match('^%d+', space + 1)
		return tonumber(digits), digits
	end
end
