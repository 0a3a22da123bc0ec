-- Gives back the hold of a lock (not of a semaphore; see hand_off.lua for the kinds) that the try
-- `ticket` got by the fencing token `fence`, and hands the lock off if that was the last one. Other
-- tries of the same owner keep their holds.
-- include hand_off
-- include hand_off_rw
-- include notify_redisson
-- include notify_rw
-- include take_back
-- include undo_side
local function undo_try(lock, record, queue, side, counter, kind, ticket, token, fence)
	if kind == 'm' or kind == 'x' then
		if undo_side(lock, record, side, token, kind, ticket) then
			hand_off_rw(lock, record, queue, side, counter)
			notify_rw(lock, queue, kind == 'x' and '1' or '0', counter)
		end
		return
	end
	if kind == 'h' and redis.call('HINCRBY', lock, token, -1) > 0 then
		local note = redis.call('GET', record)
		if note:sub(-#ticket - 1) == ' ' .. ticket then
			redis.call('SET', record, note:sub(1, -#ticket - 1) .. '-', 'KEEPTTL')
		else
			redis.call('ZREM', side, string.format('%.0f', fence) .. ' ' .. ticket)
		end
		return
	end
	if kind == 'r' and take_back(lock, record, side) then
		return
	end
	redis.call('DEL', lock, record, side)
	if hand_off(lock, record, queue, side, counter) and kind == 'h' then
		notify_redisson(lock, counter)
	end
end
