-- renew: hasp's own prolonging of a rule's lock. Never shortens: the application
-- may have asked for more meanwhile.
--
-- KEYS     lock, sidecar
-- ARGV     token (owner = value: the value), lease ms
-- returns  1; 0 when the lock is no longer this owner's
-- layout   hasp's
-- include common.lua
local lock, side, lease = KEYS[1], KEYS[2], tonumber(ARGV[2])
local _, mine = whose(lock, side, ARGV[1])
if not mine then
	return 0
end
local ttl = redis.call('PTTL', lock)
if ttl == -1 or ttl < lease then
	redis.call('PEXPIRE', lock, lease)
	if side ~= lock then
		redis.call('PEXPIRE', side, lease)
	end
end
return 1
