-- msetnx: MSETNX, if at least one of the keys has a rule. Takes all of these locks, or none.
--
-- KEYS     lock, sidecar (owner = value: the lock itself), record for each of the n keys with a
--          rule; then the other keys
--
-- ARGV[1]  n
-- ARGV[2]  ticket
-- ARGV[3]  token, lease ms for each of the n; then the command
--
-- returns  1; 0 if one of the keys exists
-- layout   hasp's
-- include client_error
-- include mset_long
-- include record_try
local n, ticket = tonumber(ARGV[1]), ARGV[2]
local first = 3 + 2 * n
local reply
if #ARGV - first > 7000 then
	reply = mset_long(first)
else
	reply = redis.pcall(unpack(ARGV, first))
end
if type(reply) == 'table' then
	return client_error(reply, ARGV[first])
end
for i = 1, reply * n do
	local lock, side, record = unpack(KEYS, 3 * i - 2, 3 * i)
	local token, lease = ARGV[2 * i + 1], ARGV[2 * i + 2]
	redis.call('PEXPIRE', lock, lease)
	if side ~= lock then
		redis.call('SET', side, token .. ' ' .. redis.call('GET', lock), 'PX', lease)
	end
	record_try(lock, record, side, token, ticket, false, lease)
end
return reply
