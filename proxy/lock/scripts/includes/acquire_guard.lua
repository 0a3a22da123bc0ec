-- Acquires the guard of a key for a read (see guarded_key.lua). Returns the outcome:
--
--     taken    the guard was free, or became free
--     unread   the owner had it, and has not read under it yet
--     kept     the owner had it, and has read under it
--     busy     another owner has it
--     lost     the owner must still have it, but does not
--     failed   Redis refused the write; and its error
-- include client_error
-- include hand_off_guard
-- include is_guard_owner
local function acquire_guard(guard, queue, token, lease, state)
	if state ~= '-' and redis.pcall('GET', guard) ~= token then
		return 'lost'
	end
	if redis.call('EXISTS', queue) == 0 then
		local reply = redis.pcall('SET', guard, token, 'NX', 'PX', lease)
		if reply and reply.err then
			return 'failed', client_error(reply, 'SET')
		end
		if reply then
			return 'taken'
		end
	end
	local owner = redis.pcall('GET', guard)
	if owner == token then
		if redis.call('PTTL', guard) < tonumber(lease) then
			redis.call('PEXPIRE', guard, lease)
		end
		return 'kept'
	end
	if is_guard_owner(owner, token) then
		return 'unread'
	end
	if not owner and hand_off_guard(guard, queue) then
		redis.call('SET', guard, token, 'PX', lease)
		return 'taken'
	end
	return 'busy'
end
