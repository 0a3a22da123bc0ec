-- write: any other write command of which at least one key has a rule.
--
-- KEYS     lock, sidecar for each of the n keys with a rule, then the other keys
-- ARGV     n, RESP version to run the command in,
--          token, lease ms, longest lease ms for each of the n, then the command itself
-- returns  the command's own reply; LOCKED when one of the locks is another's
-- layout   hasp's
-- include common.lua
local n, first = tonumber(ARGV[1]), 3 + 3 * tonumber(ARGV[1])
local mine, before = {}, nil
for i = 1, n do
	local lock = KEYS[2 * i - 1]
	local value, m = whose(lock, KEYS[2 * i], ARGV[3 * i])
	if m == false then
		return locked(lock)
	end
	mine[i], before = m, value
end

-- MSET and MSETNX too long for unpack(): piece by piece, still in one script.
local function run_long()
	local nx = ARGV[first]:upper() == 'MSETNX'
	local reply
	for i = first + 1, nx and #ARGV or 0, 2 do
		if redis.call('EXISTS', ARGV[i]) == 1 then
			return 0
		end
	end
	for i = first + 1, #ARGV, 4000 do
		reply = redis.pcall('MSET', unpack(ARGV, i, math.min(i + 3999, #ARGV)))
		if reply.err then
			return reply
		end
	end
	return nx and 1 or reply
end

-- include beyond.lua
-- They have one key, a string.
local strings = { INCRBY = true, DECR = true, DECRBY = true, BITFIELD = true }

local reply
if #ARGV - first > 7000 then
	reply = run_long()
else
	if ARGV[2] == '3' then
		redis.setresp(3)
	end
	reply = redis.pcall(unpack(ARGV, first))
end
if type(reply) == 'table' and reply.err then
	return as_sent(reply, ARGV[first])
end
if strings[ARGV[first]:upper()] and beyond(reply) then
	if before then
		redis.call('SET', KEYS[1], before, 'KEEPTTL')
	else
		redis.call('DEL', KEYS[1])
	end
	return redis.error_reply(BEYOND)
end

for i = 1, n do
	local lock, side = KEYS[2 * i - 1], KEYS[2 * i]
	local held = get(lock)
	if held then
		local note = mine[i] and ARGV[3 * i] .. ' ' .. held
		settle(lock, side, note, tonumber(ARGV[3 * i + 1]), tonumber(ARGV[3 * i + 2]))
	elseif mine[i] and side ~= lock then
		redis.call('DEL', side)
	end
end
return reply
