-- count: INCR on a rule's lock. Who counts 1 has taken it; later counts change
-- the lock's value, so the sidecar follows and the lock stays its owner's.
--
-- KEYS     lock, sidecar
-- ARGV     token, lease ms
-- returns  the count
-- layout   hasp's
local lock, side, lease = KEYS[1], KEYS[2], ARGV[2]
local n = redis.pcall('INCR', lock)
if type(n) == 'table' then
	-- include as_sent.lua
	return as_sent(n, 'INCR')
end
-- include beyond.lua
if beyond(n) then
	redis.call('DECR', lock)
	return redis.error_reply(BEYOND)
end
if n == 1 then
	redis.call('PEXPIRE', lock, lease)
	if side ~= lock then
		redis.call('SET', side, ARGV[1] .. ' 1', 'PX', lease)
	end
	return n
end
if side ~= lock then
	local note = redis.pcall('GET', side)
	local at = type(note) == 'string' and note:find(' ', 1, true)
	if at and note:sub(at + 1) == string.format('%.0f', n - 1) then
		redis.call('SET', side, note:sub(1, at) .. string.format('%.0f', n), 'KEEPTTL')
	end
end
if redis.call('PTTL', lock) == -1 then
	redis.call('PEXPIRE', lock, lease)
	redis.call('PEXPIRE', side, lease)
end
return n
