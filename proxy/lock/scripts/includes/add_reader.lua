-- Adds a shared owner to the readers of a key (see guarded_key.lua). A day is longer than any
-- application takes between a read and a write.
local function add_reader(readers, token)
	-- (Redis may refuse it: no memory is left, say.)
	if type(redis.pcall('HSET', readers, token, 1)) == 'number' then
		redis.call('PEXPIRE', readers, 86400000)
	end
end
