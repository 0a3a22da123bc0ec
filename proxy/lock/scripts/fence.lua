-- Common to the verbs' acts, where an act says "include fence.lua".

-- The fencing token of the acquisition that `record`, `<token> <fencing token> <ticket>`,
-- remembers for `token`; nil: none.
local function remembered(record, token)
	local v = redis.pcall('GET', record)
	local at = type(v) == 'string' and v:find(' ', 1, true)
	if at and v:sub(1, at - 1) == token then
		return tonumber(v:match('^%d+', at + 1))
	end
end

-- A new one. May be Redis' error: then nothing was written yet.
local function new_fence(counter)
	return redis.pcall('INCR', counter)
end

local function remember(record, token, fence, ticket, lease)
	redis.call('SET', record, token .. ' ' .. string.format('%.0f', fence) .. ' ' .. ticket,
		'PX', lease)
end
