-- Common to the acts on rules' locks, where an act says "include common.lua".
--
-- A lock is a string. Beside it stands its sidecar, `<token> <value>`, which
-- counts only while the lock has that very value. An act whose sidecar key is the
-- lock key itself has none: with owner = value the lock's value is the owner.

-- include as_sent.lua

-- The string at `key`; nil when there is none. For another type: nil and Redis'
-- own error. Whatever else went wrong (ACL, say) must not look like a free lock.
local function get(key)
	local v = redis.pcall('GET', key)
	if type(v) == 'table' then
		if v.err:sub(1, 9) ~= 'WRONGTYPE' then
			error(v.err, 0)
		end
		return nil, v
	end
	return v or nil
end

-- The string at `lock`, then: true when `token` owns it, false when another does,
-- nil when nobody does. For another type: nil, nil, Redis' own error.
local function whose(lock, side, token)
	local value, wrong = get(lock)
	if not value then
		return nil, nil, wrong
	end
	if side == lock then
		if token == '' then
			return value
		end
		return value, value == token
	end
	local note = get(side)
	local at = note and note:find(' ', 1, true)
	if not at or note:sub(at + 1) ~= value then
		return value
	end
	return value, note:sub(1, at - 1) == token
end

-- Gives the string at `lock` an expiry of `lease` ms when it has none, and cuts
-- what is longer than `max` ms. `note`, unless nil, goes to the sidecar.
local function settle(lock, side, note, lease, max)
	local ttl = redis.call('PTTL', lock)
	local want = ttl
	if ttl == -1 then
		want = lease
	end
	if want > max then
		want = max
	end
	if want ~= ttl then
		redis.call('PEXPIRE', lock, want)
	end
	if not note or side == lock then
		return
	end
	if want > 0 then
		redis.call('SET', side, note, 'PX', want)
	else
		redis.call('DEL', side)
	end
end

-- The answer to a write that another owner's lock forbids.
local function locked(key)
	local name = key:sub(1, 128):gsub('%c', '?')
	return redis.error_reply("LOCKED '" .. name .. "' is held by another owner")
end
