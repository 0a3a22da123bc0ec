-- Gives back the hold of a verbs' lock (kind `h` or `s` of hand_off.lua) that the try `ticket` got by
-- the fencing token `fence`, and hands the lock off if that was the last one. Other tries of the
-- same owner keep their holds.
-- include hand_off
-- include notify_redisson
local function undo_try(lock, record, queue, side, counter, kind, ticket, token, fence)
	if kind == 'h' and redis.call('HINCRBY', lock, token, -1) > 0 then
		local note = redis.call('GET', record)
		if note:sub(-#ticket - 1) == ' ' .. ticket then
			redis.call('SET', record, note:sub(1, -#ticket - 1) .. '-', 'KEEPTTL')
		else
			redis.call('ZREM', side, string.format('%.0f', fence) .. ' ' .. ticket)
		end
		return
	end
	redis.call('DEL', lock, record, side)
	if hand_off(lock, record, queue, side, counter) and kind == 'h' then
		notify_redisson(lock)
	end
end
