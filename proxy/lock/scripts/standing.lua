-- Common to hasp's own looks at a waiter, where an act says "include standing.lua".

-- include is_owner.lua

-- The entry of `ticket` at `place` in the queue; with place '' anywhere in it. nil: none.
local function entry_of(queue, ticket, place)
	local entries
	if place == '' then
		entries = redis.call('ZRANGE', queue, 0, -1)
	else
		entries = redis.call('ZRANGEBYSCORE', queue, place, place)
	end
	for _, entry in ipairs(entries) do
		if entry:sub(1, #ticket + 1) == ticket .. ' ' then
			return entry
		end
	end
end

-- What `ticket` was let in with, if it still has the lock: its fencing token (0: none). nil:
-- nothing.
local function granted(lock, record, side, kind, ticket, token, value)
	if kind == 'g' then
		-- (Of an owner that is one connection, `token` is its own; else '-'.)
		local owner = redis.pcall('GET', lock)
		return (owner == value .. ' ' .. ticket or is_owner(owner, token)) and 0 or nil
	end
	local v = redis.pcall('GET', record)
	local fence, first
	if type(v) == 'string' then
		fence, first = v:match('^%S+ (%S+) (.+)$')
	end
	-- (See join.lua.)
	if not fence or first ~= ticket and not (kind == 'h'
		and type(redis.pcall('ZSCORE', side, fence .. ' ' .. ticket)) == 'string') then
		return nil
	end
	local held
	if kind == 'h' then
		held = redis.pcall('HEXISTS', lock, token) == 1
	else
		held = redis.pcall('GET', lock) == (kind == 's' and token or value)
	end
	return held and (tonumber(fence) or 0) or nil
end
