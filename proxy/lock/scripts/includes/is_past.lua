-- Does EXPIRE, PEXPIRE, EXPIREAT or PEXPIREAT with this number delete the key at once?
local function is_past(command, number)
	local now = { 0, 0 }
	number = tonumber(number) or 1
	if command:sub(-2):upper() == 'AT' then
		now = redis.call('TIME')
	end
	if command:sub(1, 1):upper() == 'P' then
		return number <= now[1] * 1000 + now[2] / 1000
	end
	return number <= tonumber(now[1])
end
