-- Returns the string at `key`; nil if there is none. For another type: nil and Redis' own error.
-- Any other error (ACL, say) ends the script: it must not look like a free lock.
local function get_string(key)
	local value = redis.pcall('GET', key)
	if type(value) == 'table' then
		if value.err:sub(1, 9) ~= 'WRONGTYPE' then
			error(value.err, 0)
		end
		return nil, value
	end
	return value or nil
end

-- A time in ms as digits: faster than %.0f, and as good where Redis has 32 bits.
local function format_ms(ms)
	return string.format('%d%03d', math.floor(ms / 1000), ms % 1000)
end
