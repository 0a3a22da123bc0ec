-- quorum_confirm: writes to one server the fencing token of a lock that a majority has granted. So
-- a later majority proposes a greater token. Replaces a counter that hasp does not believe.
--
-- KEYS[1]  lock
-- KEYS[2]  counter of fencing tokens
--
-- ARGV[1]  value
-- ARGV[2]  fencing token
-- ARGV[3]  the greatest counter that hasp believes
--
-- returns  1; 0: the lock has another value
-- layout   Redlock's
local lock, counter = unpack(KEYS)
local value, fence, limit = unpack(ARGV)
if redis.call('GET', lock) ~= value then
	return 0
end
local last = redis.pcall('GET', counter)
last = type(last) == 'string' and last:match('^%d+$') and tonumber(last)
if not last or last < tonumber(fence) or last > tonumber(limit) then
	redis.call('SET', counter, fence)
end
return 1
