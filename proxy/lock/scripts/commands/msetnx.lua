-- msetnx: MSETNX, or MSETEX with NX, if at least one of the keys has a rule. Takes all of these
-- locks, or none.
--
-- KEYS     lock, sidecar (owner = value: the lock itself), record for each of the n keys with a
--          rule; then the other keys
--
-- ARGV[1]  n
-- ARGV[2]  ticket
-- ARGV[3]  token, lease ms, longest lease ms for each of the n; then the command
--
-- returns  1; 0 if one of the keys exists
-- layout   hasp's
-- include client_error
-- include enforce_lease
-- include mset_long
-- include record_try
local n, ticket = tonumber(ARGV[1]), ARGV[2]
local first = 3 + 3 * n
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
	local token, lease, max_lease = unpack(ARGV, 3 * i, 3 * i + 2)
	-- (MSETEX with an expiry in the past stores nothing.)
	local value = redis.call('GET', lock)
	if value then
		enforce_lease(lock, side, token .. ' ' .. value, tonumber(lease), tonumber(max_lease))
		record_try(lock, record, side, token, ticket)
	end
end
return reply
