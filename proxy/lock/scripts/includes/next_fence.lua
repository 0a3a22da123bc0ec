-- The next fencing token: the greater of the last one plus one and Redis' clock in microseconds. So
-- tokens rise also where the counter is lost or falls back: by a failover, a restart without data,
-- FLUSHALL; and where the clock is set back. They stay below 2^53, up to which Lua's numbers are
-- exact, until the year 2255. Returns an error if there is none, or if Redis refuses the write; then
-- nothing was written. A second value, true, says that the counter holds no number that can be raised.
local function next_fence(counter)
	local last = redis.pcall('GET', counter)
	if type(last) == 'table' then
		return last, last.err:find('^WRONGTYPE') ~= nil
	end
	last = last and (last:match('^%d+$') and tonumber(last) or 2 ^ 53) or 0
	if last >= 2 ^ 53 - 1 then
		return redis.error_reply("ERR '" .. counter .. "' is not an integer below 2^53 - 1"), true
	end
	-- break counted_fences: local now = { 0, 0 }
	local now = redis.call('TIME')
	-- break falling_fences: local fence = last == 0 and 2 ^ 52 or last - 1
	local fence = math.max(last + 1, now[1] * 1000000 + now[2])
	local reply = redis.pcall('SET', counter, string.format('%.0f', fence))
	return reply.err and reply or fence
end
