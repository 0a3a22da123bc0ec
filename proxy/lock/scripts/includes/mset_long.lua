-- MSET or MSETNX, which begins at ARGV[first] and is too long for unpack(): piece by piece, still
-- in one script. Returns the command's reply.
local function mset_long(first)
	local nx = ARGV[first]:upper() == 'MSETNX'
	for i = first + 1, nx and #ARGV or 0, 2 do
		if redis.call('EXISTS', ARGV[i]) == 1 then
			return 0
		end
	end
	local reply
	for i = first + 1, #ARGV, 4000 do
		reply = redis.pcall('MSET', unpack(ARGV, i, math.min(i + 3999, #ARGV)))
		if reply.err then
			return reply
		end
	end
	return nx and 1 or reply
end
