-- Adds a shared owner to the readers of a key (see guarded_key.lua). A day is longer than any
-- application takes between a read and a write. Returns the error if Redis refuses it: no memory is
-- left, say.
local function add_reader(readers, token)
	local reply = redis.pcall('HSET', readers, token, 1)
	if type(reply) ~= 'number' then
		return reply
	end
	redis.call('PEXPIRE', readers, 86400000)
end
