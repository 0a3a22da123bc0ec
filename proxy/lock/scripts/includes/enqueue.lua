-- Enters the queue of a lock, at `place` if hasp knows it from an earlier try, else at the end.
-- `rest` is the entry from its kind on (see hand_off.lua). `held_ms` is for how long the lock is
-- held, if the caller knows it: -1: for ever, or not asked; -2: not known.
--
-- The reply is for hasp, which keeps it from the client: QUEUED, the place, Redis' time in ms, and
-- for how many ms the lock is held.
-- include format_ms
-- include sign
local function enqueue(lock, held_ms, queue, ticket, wait_ms, place, rest)
	local now = redis.call('TIME')
	local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
	if place == '' then
		-- break newcomers_first: place = string.format('%.0f', 4000000000000000 - now[1] * 1000000 - now[2])
		place = now[1] .. string.format('%06d', now[2])
		-- Redis' clock was set back, or is too coarse.
		-- break newcomers_first: if false then
		if redis.call('ZCOUNT', queue, place, '+inf') > 0 then
			local last = redis.call('ZRANGE', queue, '-1', '-1', 'WITHSCORES')[2]
			place = string.format('%.0f', last + 1)
		end
	end
	local terms = format_ms(now_ms + wait_ms) .. ' ' .. rest
	local proof = sign('entry', lock, ticket .. ' ' .. terms)
	local entry = ticket .. ' ' .. proof .. ' 0 ' .. terms
	local reply = redis.pcall('ZADD', queue, place, entry)
	if type(reply) == 'table' then
		return reply
	end
	-- Longer than anybody in it waits; more than that, so as not to set it each time.
	if redis.call('PTTL', queue) < wait_ms + 1000 then
		redis.call('PEXPIRE', queue, wait_ms + 2000)
	end
	if held_ms == -2 then
		held_ms = redis.call('PTTL', lock)
	end
	return redis.status_reply('QUEUED ' .. place .. ' ' .. format_ms(now_ms) .. ' ' .. held_ms)
end
