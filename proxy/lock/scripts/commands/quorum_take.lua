-- quorum_take: one server's vote for a lock that a majority of independent servers grants.
--
-- KEYS[1]  lock
-- KEYS[2]  counter of fencing tokens
--
-- ARGV[1]  value: owner and a random text of this try
-- ARGV[2]  lease ms
--
-- returns  the fencing token that this server proposes; 2^53 if the counter cannot be raised; 0 if
--          the lock is held
-- layout   Redlock's: a string with an expiry
-- include next_fence
local lock, counter = unpack(KEYS)
local value, lease = unpack(ARGV)
if not redis.call('SET', lock, value, 'NX', 'PX', lease) then
	return 0
end
local fence, is_spoiled = next_fence(counter)
return type(fence) == 'table' and is_spoiled and 2 ^ 53 or fence
