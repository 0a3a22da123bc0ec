-- Takes one hold of a side of a read-write lock for the owner of the try `ticket`, which may have
-- it (see sides.lua). An owner that has that side already keeps its fencing token. Returns the
-- fencing token; or Redis' error: then nothing was written.
-- include add_hold
-- include next_fence
-- include timeouts_of
local function take_rw(lock, record, side, counter, token, lease, ticket, kind)
	local field = kind == 'x' and token .. ':write' or token
	local before = redis.call('HMGET', lock, 'mode', field)
	local mode, holds = before[1], (tonumber(before[2]) or 0) + 1
	local note = holds > 1 and redis.pcall('HGET', record, field)
	local known = type(note) == 'string' and tonumber(note:match('^%d+'))
	-- break writer_beside_readers: mode = mode and kind == 'x' and 'write' or mode local fence = known or next_fence(counter)
	local fence = known or next_fence(counter)
	if type(fence) == 'table' then
		return fence
	end
	local timeout = kind == 'm' and timeouts_of(lock, token) .. holds
	if timeout then
		local reply = redis.pcall('SET', timeout, '1', 'PX', lease)
		if reply.err then
			return reply
		end
	end
	local reply = redis.pcall('HSET', lock, 'mode', mode or (kind == 'x' and 'write' or 'read'),
		field, holds)
	if type(reply) == 'table' then
		if timeout then
			redis.call('DEL', timeout)
		end
		return reply
	end
	if mode then
		-- No hold ends before it was to.
		local left = redis.call('PTTL', lock)
		if left > tonumber(lease) then
			lease = string.format('%.0f', left)
		end
	end
	if not mode then
		redis.call('DEL', record, side)
	end
	redis.call('PEXPIRE', lock, lease)
	if known then
		add_hold(side, string.format('%.0f', fence), ticket, lease)
	else
		note = string.format('%.0f', fence) .. ' ' .. ticket
		if type(redis.pcall('HSET', record, field, note)) == 'table' then
			-- That of another lock, which is over.
			redis.call('DEL', record, side)
			redis.call('HSET', record, field, note)
		end
	end
	redis.call('PEXPIRE', record, lease)
	return fence
end
