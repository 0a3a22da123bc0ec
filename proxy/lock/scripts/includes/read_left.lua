-- For how many ms an owner has its `holds` holds of the read side yet, the longest of them; -2: it
-- has none any more (see rw_allows.lua). `enough`: to find so much is enough.
-- include read_timeouts
local function read_left(lock, token, holds, enough)
	local timeouts, longest = read_timeouts(lock, token), -2
	for n = 1, tonumber(holds) or 0 do
		longest = math.max(longest, redis.call('PTTL', timeouts .. n))
		if enough and longest >= enough then
			break
		end
	end
	return longest < 0 and -2 or longest
end
