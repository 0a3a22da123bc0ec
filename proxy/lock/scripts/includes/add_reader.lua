-- Notes that a shared owner has read the key (see guarded_key.lua). A day is longer than anybody
-- thinks between a read and a write.
local function add_reader(readers, token)
	redis.call('HSET', readers, token, 1)
	redis.call('PEXPIRE', readers, 86400000)
end
