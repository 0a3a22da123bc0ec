-- renew: hasp's own prolonging of rules' locks. Never shortens: the application may have asked
-- for more meanwhile.
--
-- KEYS     lock, sidecar (owner = value: the lock itself) for each of the n locks
-- ARGV     lease ms, token (owner = value: the value) for each of the n
-- returns  for each of the n 1; 0 when it is no longer this owner's; -1 when Redis refused
-- layout   hasp's
-- include common.lua
local function renew(lock, side, lease, token)
	local _, mine = whose(lock, side, token)
	if not mine then
		return 0
	end
	local ttl = redis.call('PTTL', lock)
	if ttl == -1 or ttl < tonumber(lease) then
		redis.call('PEXPIRE', lock, lease)
		if side ~= lock then
			redis.call('PEXPIRE', side, lease)
		end
	end
	return 1
end
local done = {}
for i = 1, #KEYS, 2 do
	local ok, result = pcall(renew, KEYS[i], KEYS[i + 1], ARGV[i], ARGV[i + 1])
	done[#done + 1] = ok and result or -1
end
return done
