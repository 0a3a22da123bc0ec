-- expire: EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT on a rule's lock.
--
-- KEYS[1]  lock
-- KEYS[2]  sidecar (owner = value: the lock itself)
-- KEYS[3]  record
--
-- ARGV[1]  token
-- ARGV[2]  lease ms
-- ARGV[3]  longest lease ms
-- ARGV[4]  'cut' if the expiry may be longer than ARGV[3], or ''
-- ARGV[5]  'foreign' (see check_owner()) or ''
-- ARGV[6]  command
-- ARGV[7]  the command's number; then its options
--
-- returns  1/0; 0 for another owner's lock
-- layout   hasp's
-- include check_owner
-- include client_error
-- include enforce_lease
-- include is_deleted
local lock, side, record = unpack(KEYS)
local token, lease, max_lease, cut, foreign, command, number = unpack(ARGV, 1, 7)
local held, mine, _, own = check_owner(lock, side, token, foreign)
-- break expire_by_anybody: if false then
if mine == false then
	return 0
end
local reply = redis.pcall(command, lock, unpack(ARGV, 7))
if type(reply) == 'table' then
	return client_error(reply, command)
end
if not held then
	return reply
end
if reply == 0 then
	local note = mine and token .. (own and ' ~' .. own .. ' ' or ' ') .. held
	enforce_lease(lock, side, note, tonumber(lease), tonumber(max_lease), record)
	return reply
end
if cut == 'cut' then
	-- (An expiry in the past has deleted the lock.)
	local left = redis.pcall('PTTL', lock)
	if not is_deleted(left) and left > tonumber(max_lease) then
		redis.call('PEXPIRE', lock, max_lease)
		command, number = 'PEXPIRE', max_lease
	end
end
if mine then
	redis.call(command, record, number)
	if side ~= lock then
		redis.call(command, side, number)
	end
end
return reply
