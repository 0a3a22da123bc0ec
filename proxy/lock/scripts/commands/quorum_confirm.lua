-- quorum_confirm: a majority granted the lock; its fencing token, the greatest that one of them has
-- proposed, is written back, so that a later majority proposes a greater one.
--
-- KEYS[1]  lock
-- KEYS[2]  counter of fencing tokens
--
-- ARGV[1]  value
-- ARGV[2]  fencing token
--
-- returns  1; 0 the lock has another value
-- layout   Redlock's
local lock, counter = unpack(KEYS)
local value, fence = unpack(ARGV)
if redis.call('GET', lock) ~= value then
	return 0
end
if (tonumber(redis.call('GET', counter)) or 0) < tonumber(fence) then
	redis.call('SET', counter, fence)
end
return 1
