-- expire: EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT on a rule's lock.
--
-- KEYS     lock, sidecar
-- ARGV     token, lease ms, longest lease ms, 'cut' when the expiry may be longer
--          than that or '', command, its number, its options...
-- returns  1/0; another's lock: 0
-- layout   hasp's
-- include common.lua
local lock, side, command, number = KEYS[1], KEYS[2], ARGV[5], ARGV[6]
local held, mine = whose(lock, side, ARGV[1])
if mine == false then
	return 0
end
local reply = redis.pcall(command, lock, unpack(ARGV, 6))
if type(reply) == 'table' then
	return as_sent(reply, command)
end
if not held then
	return reply
end
if reply == 0 then
	settle(lock, side, mine and ARGV[1] .. ' ' .. held, tonumber(ARGV[2]), tonumber(ARGV[3]))
	return reply
end
if ARGV[4] == 'cut' then
	local max = tonumber(ARGV[3])
	if redis.call('PTTL', lock) > max then
		redis.call('PEXPIRE', lock, max)
		command, number = 'PEXPIRE', max
	end
end
if mine and side ~= lock then
	redis.call(command, side, number)
end
return reply
