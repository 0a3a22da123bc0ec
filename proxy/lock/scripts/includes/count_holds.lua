-- How many holds `token` has of a verbs' lock, and the lock's layout. When the lock is of another
-- type than `layout` ('hash', 'string', or '' for either): nil and Redis' own error.
local function count_holds(lock, token, layout)
	if layout == '' then
		layout = redis.call('TYPE', lock).ok
	end
	if layout == 'hash' then
		local n = redis.pcall('HGET', lock, token)
		if type(n) == 'table' then
			return nil, n
		end
		return n and (tonumber(n) or 1) or 0, layout
	end
	local owner = redis.pcall('GET', lock)
	if type(owner) == 'table' then
		return nil, owner
	end
	return owner == token and 1 or 0, layout
end
