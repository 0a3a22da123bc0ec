-- renew_verb: hasp's own prolonging of the verbs' locks. Never shortens, and leaves alone what
-- the same owner has taken again since.
--
-- KEYS     lock, record, sidecar for each of the n locks
-- ARGV     lease ms, token, fencing token, layout ('hash' or 'string') for each of the n
-- returns  for each of the n 1; 0 when it is no longer this owner's; -1 when Redis refused
-- layout   Redisson's RLock or go-zero's RedisLock
-- include fence.lua
-- include verbs.lua
local function renew(lock, record, side, lease, token, fence, layout)
	local n = holds(lock, token, layout)
	local known = remembered(record, token)
	if not n then
		return -1
	end
	if n == 0 or known and known ~= tonumber(fence) then
		return 0
	end
	if redis.call('PTTL', lock) < tonumber(lease) then
		redis.call('PEXPIRE', lock, lease)
		redis.call('PEXPIRE', record, lease)
		if n > 1 then
			-- (See join.lua.)
			redis.call('PEXPIRE', side, lease + 60000)
		end
	end
	return 1
end
local done = {}
for i = 1, #KEYS / 3 do
	local ok, result = pcall(renew, KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i], unpack(ARGV, 4 * i - 3, 4 * i))
	done[i] = ok and result or -1
end
return done
