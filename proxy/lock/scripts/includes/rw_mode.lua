-- What a read-write lock is in: 'read', 'write', or false when it is free. When the key holds
-- something else: nil and Redis' own error.
local function rw_mode(lock)
	local mode = redis.pcall('HGET', lock, 'mode')
	if type(mode) == 'table' then
		return nil, mode
	end
	if mode ~= 'read' and mode ~= 'write' and (mode or redis.call('EXISTS', lock) == 1) then
		return nil, redis.error_reply(
			'WRONGTYPE Operation against a key holding the wrong kind of value')
	end
	return mode
end
