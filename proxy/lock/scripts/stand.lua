-- Common to the acts that may have to wait, where an act says "include stand.lua".

-- Stands in line for the lock, at `place` if that was given before, else at the end. Tells
-- hasp, which keeps it from the client: QUEUED, the place, Redis' time in ms, and for how
-- many ms the lock is held (-1: for ever, or not asked); `held` is what is known of that (-2:
-- nothing).
local function stand(lock, held, queue, ticket, wait, place, rest)
	local t = redis.call('TIME')
	local ms = t[1] * 1000 + math.floor(t[2] / 1000)
	if place == '' then
		place = t[1] .. string.format('%06d', t[2])
		-- Redis' clock was set back, or is too coarse.
		if redis.call('ZCOUNT', queue, place, '+inf') > 0 then
			local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
			place = string.format('%.0f', last + 1)
		end
	end
	local reply = redis.pcall('ZADD', queue, place,
		ticket .. ' ' .. ms_text(ms + wait) .. ' ' .. rest)
	if type(reply) == 'table' then
		return reply
	end
	-- Longer than anybody in it waits; more than that, so as not to set it each time.
	if redis.call('PTTL', queue) < wait + 1000 then
		redis.call('PEXPIRE', queue, wait + 2000)
	end
	if held == -2 then
		held = redis.call('PTTL', lock)
	end
	return redis.status_reply('QUEUED ' .. place .. ' ' .. ms_text(ms) .. ' ' .. held)
end
