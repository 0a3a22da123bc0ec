-- release: hasp's own giving up of a rule's lock.
--
-- KEYS     lock, record, queue, sidecar (owner = value: the lock itself), fence counter
-- ARGV     token (owner = value: the value), what the lock must have left in ms, and what at most
--          (0: no limit): who has less took it before, who has more took another
-- returns  1; 0 when the lock is no longer this owner's
-- layout   hasp's
-- include common.lua
local lock, side = KEYS[1], KEYS[4]
local _, mine = whose(lock, side, ARGV[1])
if not mine then
	return 0
end
local left, most = redis.call('PTTL', lock), tonumber(ARGV[3])
if left >= 0 and (left < tonumber(ARGV[2]) or most > 0 and left > most) then
	return 0
end
redis.call('DEL', lock, side, KEYS[2])
if redis.call('EXISTS', KEYS[3]) == 1 then
	-- include queue.lua
	hand_over(lock, KEYS[2], KEYS[3], side, KEYS[5])
end
return 1
