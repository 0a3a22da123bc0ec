-- drop: DEL and UNLINK of which at least one key has a rule.
--
-- KEYS     lock, sidecar for each of the n keys with a rule, of a rule with `wait` also record
--          and queue; then the fence counter, if one has; then the other keys
-- ARGV     command, n, token and 'wait' or '' for each of the n
-- returns  how many keys went; others' locks stay
-- layout   hasp's
-- include common.lua
local command, n, gone = ARGV[1], tonumber(ARGV[2]), 0
local at, waiting, free = 1, false, {}
for i = 1, n do
	local lock, side = KEYS[at], KEYS[at + 1]
	local record, queue
	at = at + 2
	if ARGV[2 * i + 2] == 'wait' then
		record, queue, waiting = KEYS[at], KEYS[at + 1], true
		at = at + 2
	end
	local held, mine, wrong = whose(lock, side, ARGV[2 * i + 1])
	if mine ~= false then
		-- A stale sidecar goes with its lock, or without it.
		local reply = redis.pcall(command, lock, side, record or side)
		if type(reply) == 'table' then
			return as_sent(reply, command)
		end
		if held or wrong then
			gone = gone + 1
		end
		if record then
			free[#free + 1] = { lock, record, queue, side }
		end
	end
end
local counter = KEYS[at]
if waiting then
	at = at + 1
end
for _, f in ipairs(free) do
	-- A key may be named twice: then the lock is another's by now.
	if redis.call('EXISTS', f[1]) == 0 then
		-- include queue.lua
		hand_over(f[1], f[2], f[3], f[4], counter)
	end
end
-- Not all at once: unpack() has its limit.
for i = at, #KEYS, 1000 do
	local reply = redis.pcall(command, unpack(KEYS, i, math.min(i + 999, #KEYS)))
	if type(reply) == 'table' then
		return as_sent(reply, command)
	end
	gone = gone + reply
end
return gone
