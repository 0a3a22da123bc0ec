-- Of a read-write lock in mode `read`: readers whose time is over go, and the lock lasts as long as
-- the longest of the others. Returns false when there is none, and the lock gone. `enough`: a
-- reader that has so many ms left is enough to know that it is held; nothing else is done then.
-- include read_left
local function keep_readers(lock, record, side, enough)
	local cursor, longest = '0', -2
	repeat
		local page = redis.call('HSCAN', lock, cursor, 'COUNT', 64)
		local fields = page[2]
		for i = 1, #fields, 2 do
			local token = fields[i]
			local left = token ~= 'mode' and read_left(lock, token, fields[i + 1], enough)
			if left and enough and left >= enough then
				return true
			end
			if left and left < 0 then
				redis.call('HDEL', lock, token)
				redis.pcall('HDEL', record, token)
			end
			longest = math.max(longest, left or -2)
		end
		cursor = page[1]
	until cursor == '0'
	if longest < 0 then
		redis.call('DEL', lock, record, side)
		return false
	end
	longest = string.format('%.0f', math.max(longest, 1))
	redis.call('PEXPIRE', lock, longest)
	redis.call('PEXPIRE', record, longest)
	return true
end
