-- How many holds `token` has of a read-write lock, and the side that it would give back first: 'x',
-- the write side, else 'm'. `mode` is what the lock is in.
-- include read_left
local function count_sides(lock, token, mode)
	local holds = mode == 'write' and redis.call('HGET', lock, token .. ':write')
	if holds then
		return tonumber(holds) or 1, 'x'
	end
	holds = redis.call('HGET', lock, token)
	if holds and read_left(lock, token, holds, 0) >= 0 then
		return tonumber(holds) or 1, 'm'
	end
	return 0, 'm'
end
