-- Returns the prefix of the names of an owner's time-out keys of a read-write lock. As Redisson
-- does, adds no braces to a name that has one.
local function timeouts_of(lock, token)
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	return name .. ':' .. token .. ':rwlock_timeout:'
end
