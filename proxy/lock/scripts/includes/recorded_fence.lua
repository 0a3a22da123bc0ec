-- The fencing token of the acquisition that `record`, `<token> <fencing token> <ticket>`,
-- remembers for `token`; nil when it remembers none.
local function recorded_fence(record, token)
	local value = redis.pcall('GET', record)
	local space = type(value) == 'string' and value:find(' ', 1, true)
	if space and value:sub(1, space - 1) == token then
		return tonumber(value:match('^%d+', space + 1))
	end
end
