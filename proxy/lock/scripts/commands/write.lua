-- write: any other write command of which at least one key has a rule.
--
-- KEYS     lock, sidecar for each of the n keys with a rule; then the other keys
--
-- ARGV[1]  n
-- ARGV[2]  RESP version to run the command in
-- ARGV[3]  token, lease ms, longest lease ms, 'foreign' (see check_owner.lua) or '' for each of the
--          n; then the command
--
-- returns  the command's own reply; LOCKED when one of the locks is another's
-- layout   hasp's
-- include check_owner
-- include client_error
-- include enforce_lease
-- include hasp_error
-- include get_string
-- include int_overflow
-- include mset_long
local n, resp = tonumber(ARGV[1]), ARGV[2]
local first = 3 + 4 * n
local command = ARGV[first]

-- What key `i` of those with a rule is about: lock, sidecar; token, lease ms, longest lease ms,
-- foreign.
local function ruled_key(i)
	local keys, args, at = KEYS, ARGV, 4 * i
	return keys[2 * i - 1], keys[2 * i], args[at - 1], args[at], args[at + 1], args[at + 2]
end

-- Of each lock: does this owner have it?
local mine = {}
-- The value of the last one.
local before
for i = 1, n do
	local lock, side, token, _, _, foreign = ruled_key(i)
	before, mine[i] = check_owner(lock, side, token, foreign)
	-- break write_by_anybody: if false then
	if mine[i] == false then
		return hasp_error('held', lock)
	end
end

local reply
if #ARGV - first > 7000 then
	reply = mset_long(first)
else
	if resp == '3' then
		redis.setresp(3)
	end
	reply = redis.pcall(unpack(ARGV, first))
end
if type(reply) == 'table' and reply.err then
	return client_error(reply, command)
end

-- They have one key, a string.
local counting = { INCRBY = true, DECR = true, DECRBY = true, BITFIELD = true }
if counting[command:upper()] and int_overflow(reply) then
	if before then
		redis.call('SET', KEYS[1], before, 'KEEPTTL')
	else
		redis.call('DEL', KEYS[1])
	end
	return hasp_error('overflow')
end

for i = 1, n do
	local lock, side, token, lease, max_lease = ruled_key(i)
	local held = get_string(lock)
	-- break forget_owner: mine[i] = nil if held then
	if held then
		enforce_lease(lock, side, mine[i] and token .. ' ' .. held, tonumber(lease),
			tonumber(max_lease))
	elseif mine[i] and side ~= lock then
		redis.call('DEL', side)
	end
end
return reply
