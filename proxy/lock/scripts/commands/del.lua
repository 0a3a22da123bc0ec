-- del: DEL and UNLINK, if at least one of the keys has a rule.
--
-- KEYS     lock, sidecar, record for each of the n keys with a rule, and the queue if the rule has
--          `wait`; then the fence counter, if any rule has `wait`; then the other keys
--
-- ARGV of a short call, for one key with a rule and no other: command, token. A full call has:
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  command
-- ARGV[3]  n
-- ARGV[4]  token, 'wait' or '', 'foreign' (see check_owner()) or '' for each of the n; then
--          'tell' or nothing
--
-- returns  how many keys were deleted; other owners' locks stay. If a lock stays, with 'tell':
--          REFUSED, how many keys were deleted, the number of the first of the n keys that stays,
--          and the token of that key's owner ('-': not known). To a short call, BUSY: the script
--          has done nothing, because it needs a full call
-- layout   hasp's
-- include check_owner
-- include client_error
-- include get_string
-- include hand_off
-- include is_deleted
if #ARGV == 2 then
	local lock, side, record, queue = unpack(KEYS)
	local command, token = unpack(ARGV)
	local held = redis.pcall('GET', lock)
	local mine = not held or held == token
	if held and side ~= lock then
		mine = type(held) == 'string' and redis.pcall('GET', side) == token .. ' ' .. held
	end
	-- break release_by_anybody: if queue and redis.call('EXISTS', queue) == 1 then
	-- break release_past_queue: if not mine then
	if not mine or queue and redis.call('EXISTS', queue) == 1 then
		return redis.status_reply('BUSY')
	end
	-- (The full call returns the error.)
	if type(redis.pcall(command, lock, side, record)) == 'table' then
		return redis.status_reply('BUSY')
	end
	return held and 1 or 0
end

local command, n = ARGV[2], tonumber(ARGV[3])
local deleted, at = 0, 1
local tell = ARGV[3 * n + 4] == 'tell'
local waiting, freed = false, {}
local refused, owner
for i = 1, n do
	local token, wait, foreign = ARGV[3 * i + 1], ARGV[3 * i + 2], ARGV[3 * i + 3]
	local width = wait == 'wait' and 4 or 3
	local lock, side, record, queue = unpack(KEYS, at, at + width - 1)
	at, waiting = at + width, waiting or wait == 'wait'
	local held, mine, wrong_type = check_owner(lock, side, token, foreign)
	-- break release_by_anybody: if true then
	if mine ~= false then
		-- Deletes the sidecar and the record even if the lock is gone.
		local reply = redis.pcall(command, lock, side, record)
		if type(reply) == 'table' then
			return client_error(reply, command)
		end
		if held or wrong_type then
			deleted = deleted + 1
		end
		if queue then
			freed[#freed + 1] = { lock, record, queue, side }
		end
	elseif tell and not refused then
		refused, owner = i, side ~= lock and get_string(side):match('^%S+') or '-'
	end
end
local counter = waiting and KEYS[at]
if waiting then
	at = at + 1
end
for _, keys in ipairs(freed) do
	local lock, record, queue, side = unpack(keys)
	-- If the command names a key twice, a waiter may have got the lock in an earlier round.
	local exists = redis.pcall('EXISTS', lock)
	if exists == 0 or is_deleted(exists) then
		hand_off(lock, record, queue, side, counter)
	end
end
-- Deletes the other keys in several calls, because unpack() has a limit.
for i = at, #KEYS, 1000 do
	local reply = redis.pcall(command, unpack(KEYS, i, math.min(i + 999, #KEYS)))
	if type(reply) == 'table' then
		return client_error(reply, command)
	end
	deleted = deleted + reply
end
if refused then
	return redis.status_reply('REFUSED ' .. deleted .. ' ' .. refused .. ' ' .. owner)
end
return deleted
