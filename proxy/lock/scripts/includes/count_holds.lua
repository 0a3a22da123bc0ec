-- How many holds `token` has of a verbs' lock, and the lock's layout. When the lock is of another
-- type than `layout` ('hash', 'string', or '' for either), and no semaphore ('zset'): nil and
-- Redis' own error.
-- include count_places
local function count_holds(lock, record, token, layout)
	if layout == '' then
		layout = redis.call('TYPE', lock).ok
	end
	local content
	if layout == 'hash' then
		content = redis.pcall('HGET', lock, token)
	else
		content = redis.pcall('GET', lock)
	end
	if type(content) == 'table' then
		if not count_places(lock, record) then
			return nil, content
		end
		return redis.call('ZSCORE', lock, token) and 1 or 0, 'zset'
	end
	if layout == 'hash' then
		return content and (tonumber(content) or 1) or 0, layout
	end
	return content == token and 1 or 0, layout
end
