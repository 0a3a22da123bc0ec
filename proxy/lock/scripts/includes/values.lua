-- While a slot moves to another node, Redis takes a missing key of the slot for one that has moved,
-- and answers with an error. Returns true if `reply` is this error: the script has deleted the key.
local function is_deleted(reply)
	return type(reply) == 'table' and reply.err:find('non local key', 1, true) ~= nil
end

-- Returns the string at `key`; nil if there is none. For another type: nil and Redis' own error.
-- Any other error (ACL, say) ends the script: it must not look like a free lock.
-- include is_deleted
local function get_string(key)
	local value = redis.pcall('GET', key)
	if is_deleted(value) then
		return nil
	end
	if type(value) == 'table' then
		if value.err:sub(1, 9) ~= 'WRONGTYPE' then
			error(value.err, 0)
		end
		return nil, value
	end
	return value or nil
end

-- Returns a time in ms as digits. This is faster than %.0f, and right also if Redis is a program
-- of 32 bits.
local function format_ms(ms)
	return string.format('%d%03d', math.floor(ms / 1000), ms % 1000)
end

-- Returns the lease of one more hold of a lock: `lease` ms, or what the lock has left if that is
-- longer, because a hold must not shorten the lease of another one.
local function longer_lease(lock, lease)
	local left = redis.call('PTTL', lock)
	return left > tonumber(lease) and string.format('%.0f', left) or lease
end
