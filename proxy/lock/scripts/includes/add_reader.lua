-- Adds a shared owner to the readers of a key (see guarded_key.lua). A day is longer than any
-- application takes between a read and a write.
local function add_reader(readers, token)
	redis.call('HSET', readers, token, 1)
	redis.call('PEXPIRE', readers, 86400000)
end
