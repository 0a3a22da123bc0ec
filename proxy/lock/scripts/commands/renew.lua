-- renew: hasp's own renewal of rules' locks. Never shortens a lease: the application may have asked
-- for a longer one.
--
-- KEYS     lock, record, sidecar (owner = value: the lock itself) for each of the n locks
--
-- ARGV     lease ms, token (owner = value: the value) for each of the n
--
-- returns  for each of the n: 1; 0: it is free; -2: this owner no longer has it; -1: Redis refused
-- layout   hasp's
-- include check_owner
-- include is_retaken
local function renew(i)
	local lock, record, side = unpack(KEYS, 3 * i - 2, 3 * i)
	local lease, token = ARGV[2 * i - 1], ARGV[2 * i]
	local held, mine = check_owner(lock, side, token)
	if not mine or is_retaken(lock, side) then
		return held and -2 or 0
	end
	local ttl = redis.call('PTTL', lock)
	if ttl < tonumber(lease) then
		redis.call('PEXPIRE', lock, lease)
		redis.call('PEXPIRE', record, lease)
		if side ~= lock then
			redis.call('PEXPIRE', side, lease)
		end
	end
	return 1
end

local replies = {}
for i = 1, #KEYS / 3 do
	local ok, reply = pcall(renew, i)
	replies[i] = ok and reply or -1
end
return replies
