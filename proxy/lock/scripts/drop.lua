-- drop: DEL and UNLINK of which at least one key has a rule.
--
-- KEYS     lock, sidecar for each of the n keys with a rule, then the other keys
-- ARGV     command, n, token for each of the n
-- returns  how many keys went; others' locks stay
-- layout   hasp's
-- include common.lua
local command, n, gone = ARGV[1], tonumber(ARGV[2]), 0
for i = 1, n do
	local lock, side = KEYS[2 * i - 1], KEYS[2 * i]
	local held, mine, wrong = whose(lock, side, ARGV[2 + i])
	if mine ~= false then
		-- A stale sidecar goes with its lock, or without it.
		local reply = redis.pcall(command, lock, side)
		if type(reply) == 'table' then
			return as_sent(reply, command)
		end
		if held or wrong then
			gone = gone + 1
		end
	end
end
-- Not all at once: unpack() has its limit.
for i = 2 * n + 1, #KEYS, 1000 do
	local reply = redis.pcall(command, unpack(KEYS, i, math.min(i + 999, #KEYS)))
	if type(reply) == 'table' then
		return as_sent(reply, command)
	end
	gone = gone + reply
end
return gone
