-- persist: PERSIST on a rule's key. A string keeps its expiry, even if its owner sends the command;
-- the rule does not concern other types.
--
-- KEYS[1]  lock
-- KEYS[2]  sidecar (owner = value: the lock itself)
-- KEYS[3]  record
--
-- ARGV[1]  lease ms
--
-- returns  0 for a string; as Redis for other types
-- layout   hasp's
-- include add_lease
-- include client_error
local lock, side, record = unpack(KEYS)
local lease = ARGV[1]
-- break persist_locks: if true then
if redis.call('TYPE', lock).ok ~= 'string' then
	local reply = redis.pcall('PERSIST', lock)
	return type(reply) == 'table' and client_error(reply, 'PERSIST') or reply
end
add_lease(lock, side, record, lease)
return 0
