-- Gives back the hold of a read-write lock that the try `ticket` got. Returns what release() does,
-- see sides.lua.
-- include sides
local function undo_side(lock, record, side, token, kind, ticket)
	local field = kind == 'x' and token .. ':write' or token
	local note = redis.call('HGET', record, field)
	if note:sub(-#ticket - 1) == ' ' .. ticket then
		redis.call('HSET', record, field, note:sub(1, -#ticket - 1) .. '-')
	else
		redis.call('ZREM', side, note:match('^%d+ ') .. ticket)
	end
	return sides().release(lock, record, side, token, kind)
end
