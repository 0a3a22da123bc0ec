-- release: hasp's own giving up of a rule's lock.
--
-- KEYS     lock, sidecar
-- ARGV     token (owner = value: the value)
-- returns  1; 0 when the lock is no longer this owner's
-- layout   hasp's
-- include common.lua
local _, mine = whose(KEYS[1], KEYS[2], ARGV[1])
if not mine then
	return 0
end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
