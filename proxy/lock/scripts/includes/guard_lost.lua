-- The reply to a command on guarded key `i`, whose guard was lost since the key was read. A write
-- that is refused ends the read; a read that is refused does not.
-- include hasp_error
-- include guarded_key
local function guard_lost(i)
	local guard, _, readers, key, token, _, state = guarded_key(i)
	if readers ~= guard and state:sub(-1) ~= 'r' then
		redis.call('HDEL', readers, token)
	end
	return hasp_error('lost', key)
end
