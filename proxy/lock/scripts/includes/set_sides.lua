-- The lease of a hold of a read-write lock (see rw_allows.lua) begins again, for all holds that
-- `token` has of that side; `longest`: none gets shorter. Redis' error when it refuses.
-- include keep_readers
-- include read_timeouts
local function set_sides(lock, record, side, token, kind, lease, longest)
	local holds = kind == 'm' and tonumber(redis.call('HGET', lock, token)) or 0
	local timeouts = read_timeouts(lock, token)
	for n = 1, holds do
		if not longest or redis.call('PTTL', timeouts .. n) < tonumber(lease) then
			local reply = redis.pcall('SET', timeouts .. n, '1', 'PX', lease)
			if reply.err then
				return reply
			end
		end
	end
	if redis.call('PTTL', lock) < tonumber(lease) then
		local reply = redis.pcall('PEXPIRE', lock, lease)
		if type(reply) == 'table' then
			return reply
		end
		redis.call('PEXPIRE', record, lease)
		-- (See add_hold.lua.)
		redis.call('PEXPIRE', side, string.format('%.0f', lease + 60000))
	elseif not longest and kind == 'x' then
		redis.call('PEXPIRE', lock, lease)
		redis.call('PEXPIRE', record, lease)
	elseif not longest and redis.call('HGET', lock, 'mode') == 'read' then
		keep_readers(lock, record, side)
	end
end
