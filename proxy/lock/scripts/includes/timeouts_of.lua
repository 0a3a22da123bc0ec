-- What the names of an owner's time-out keys of a read-write lock begin with.
-- As Redisson names them: a name with a brace of its own gets no others.
local function timeouts_of(lock, token)
	local name = lock:find('{', 1, true) and lock or '{' .. lock .. '}'
	return name .. ':' .. token .. ':rwlock_timeout:'
end
