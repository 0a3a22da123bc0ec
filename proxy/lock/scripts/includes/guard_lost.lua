-- The reply to a command on guarded key `i`, whose guard was lost since the key was read.
-- include hasp_error
-- include guarded_key
local function guard_lost(i)
	local guard, _, readers, key, token = guarded_key(i)
	if readers ~= guard then
		redis.call('HDEL', readers, token)
	end
	return hasp_error('lost', key)
end
