-- Common to the acts on guarded keys, where an act says "include guards.lua".
--
-- A guard is a string holding its owner's token, and behind that, until the owner has read under
-- it, a space and the ticket of the try that got it: whoever had read before that, and lost the
-- guard, has it again, and what he read is as old as ever. So what was read is good only
-- while the guard is the bare token.
--
-- Owners that several connections share have the key's readers beside it, a hash of those who
-- have read and not written since: {token: 1}. Which connection will write, nobody knows. An act
-- whose readers key is the guard itself has none: then hasp knows, and says so.

-- include as_sent.lua

-- include lost.lua

-- include is_owner.lua

-- The owner has read. A day is longer than anybody thinks between a read and a write.
local function note_reader(readers, token)
	redis.call('HSET', readers, token, 1)
	redis.call('PEXPIRE', readers, 86400000)
end

-- Hands the guard, which is free, to the first who waits for it. True: nobody does.
local function pass_on(guard, queue)
	if redis.call('EXISTS', queue) == 0 then
		return true
	end
	-- include queue.lua
	return hand_over(guard, guard, queue, guard)
end

-- Key number `i` is another's: stands in line for its guard, or says that it may not. Those before
-- it are taken by then, so that whoever waits for several waits for all in the same order.
local function wait_for(i, key, guard, queue, ticket, wait, place, lease, token)
	if ticket == '' or wait == '0' then
		return redis.error_reply('LOCKED ' .. shown(key) .. ' is guarded by another owner')
	end
	-- include ms_text.lua
	-- include stand.lua
	local reply = stand(guard, -2, queue, ticket, tonumber(wait), place,
		'g ' .. lease .. ' 0 - ' .. token)
	if reply.ok then
		reply.ok = reply.ok .. ' ' .. i
	end
	return reply
end
