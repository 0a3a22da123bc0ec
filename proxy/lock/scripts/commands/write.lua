-- write: a write command without a script of its own, if at least one of its keys has a rule.
--
-- KEYS     lock, sidecar (owner = value: the lock itself), record for each of the n keys with a rule;
--          then the other keys
--
-- ARGV[1]  n
-- ARGV[2]  RESP version to run the command in
-- ARGV[3]  token, lease ms, longest lease ms, terms for each of the n; then the command. The terms:
--          'foreign' (see check_owner()), 'shared' (see recount()), or ''
--
-- returns  the command's own reply; LOCKED if another owner has one of the locks
-- layout   hasp's
-- include check_owner
-- include client_error
-- include enforce_lease
-- include hasp_error
-- include get_string
-- include int_overflow
-- include mset_long
-- include recount
local n, resp = tonumber(ARGV[1]), ARGV[2]
local first = 3 + 4 * n
local command = ARGV[first]

-- Returns the facts about key `i` of those with a rule: lock, sidecar, record; token, lease ms,
-- longest lease ms, terms.
local function ruled_key(i)
	local keys, args, k, at = KEYS, ARGV, 3 * i, 4 * i
	return keys[k - 2], keys[k - 1], keys[k], args[at - 1], args[at], args[at + 1], args[at + 2]
end

-- `less`: how much the command subtracts; false: it is neither DECR nor DECRBY.
local name = command:upper()
local less = name == 'DECR' and 1 or name == 'DECRBY' and tonumber(ARGV[first + 2])

-- Returns true if the command subtracts from a counter, but leaves the part that its owner added.
local function takes_back(count, own)
	-- break take_back_all: return less
	return own and less and less > 0 and count - less >= tonumber(own)
end

-- For each lock: true if this owner has it.
local mine = {}
-- The value of the last lock.
local before
for i = 1, n do
	local lock, side, _, token, _, _, terms = ruled_key(i)
	local own
	before, mine[i], _, own = check_owner(lock, side, token, terms)
	-- break write_by_anybody: if false then
	if mine[i] == false and not takes_back(before, own) then
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

-- Each of these commands has one key, a string.
local counting = { INCRBY = true, DECR = true, DECRBY = true, BITFIELD = true }
if counting[name] and int_overflow(reply) then
	if before then
		redis.call('SET', KEYS[1], before, 'KEEPTTL')
	else
		redis.call('DEL', KEYS[1])
	end
	return hasp_error('overflow')
end

for i = 1, n do
	local lock, side, record, token, lease, max_lease, terms = ruled_key(i)
	local held = get_string(lock)
	-- break forget_owner: mine[i] = nil local note
	local note = held and mine[i] and token .. ' ' .. held
	if side ~= lock and before and (less or name == 'INCRBY') then
		note = recount(side, token, terms, tonumber(before), reply)
	end
	if held then
		enforce_lease(lock, side, note, tonumber(lease), tonumber(max_lease), record)
	end
	if mine[i] and side ~= lock and not note then
		redis.call('DEL', side)
	end
end
return reply
