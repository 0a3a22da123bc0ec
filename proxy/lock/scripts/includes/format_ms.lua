-- A time in ms as digits: faster than %.0f, and as good where Redis has 32 bits.
local function format_ms(ms)
	return string.format('%d%03d', math.floor(ms / 1000), ms % 1000)
end
