-- Returns how many holds `token` has of a verbs' lock, and the lock's layout: `layout` ('hash',
-- 'string', or '' for either), 'zset' for a semaphore, 'x' or 'm' for a read-write lock (see
-- sides.lua). For any other type: nil and Redis' own error.
-- include count_places
-- include sides
local function count_holds(lock, record, token, layout)
	if layout == '' then
		layout = redis.call('TYPE', lock).ok
	end
	local content
	if layout == 'hash' then
		content = redis.pcall('HMGET', lock, token, 'mode')
		if not content.err then
			local mode = content[2]
			if mode == 'read' or mode == 'write' then
				return sides().count_of(lock, token, mode)
			end
			content = content[1]
		end
	else
		content = redis.pcall('GET', lock)
	end
	if type(content) == 'table' then
		if not count_places(lock, record) then
			local mode = redis.pcall('HGET', lock, 'mode')
			if mode == 'read' or mode == 'write' then
				return sides().count_of(lock, token, mode)
			end
			return nil, content
		end
		return redis.call('ZSCORE', lock, token) and 1 or 0, 'zset'
	end
	if layout == 'hash' then
		return content and (tonumber(content) or 1) or 0, layout
	end
	return content == token and 1 or 0, layout
end
