-- Makes the next fencing token: the last token plus one, or Redis' time in us if that is greater.
-- So tokens rise even if the counter is lost or falls back (by a failover, a restart without data,
-- or FLUSHALL), and even if the clock is set back. They stay below 2^53, up to which Lua's numbers
-- are exact, until the year 2255. Returns the token, and its digits. Returns an error if there is
-- no next token, or if Redis refuses the write; then the counter is as it was. After an error the
-- second value is true if the counter holds no number that can be raised.
local function next_fence(counter)
	-- break counted_fences: local now = { 0, 0 }
	local now = redis.call('TIME')
	local digits = now[1] .. ('00000' .. now[2]):sub(-6)
	-- The clock is greater than most counters. So one command stores the clock and returns the
	-- old counter.
	local last = redis.pcall('SET', counter, digits, 'GET')
	if type(last) == 'table' then
		return last, last.err:find('^WRONGTYPE') ~= nil
	end
	-- Digits of one length compare as numbers do. Other text of that length may be replaced, too.
	-- break counted_fences: if false then
	-- break falling_fences: if false then
	if not last or #last == #digits and last < digits then
		return now[1] * 1000000 + now[2], digits
	end
	local number = not last and 0 or last:match('^%d+$') and tonumber(last) or 2 ^ 53
	if number >= 2 ^ 53 - 1 then
		redis.call('SET', counter, last)
		return redis.error_reply("ERR '" .. counter .. "' is not an integer below 2^53 - 1"), true
	end
	-- break falling_fences: local fence = number == 0 and 2 ^ 52 or number - 1
	local fence = math.max(number + 1, tonumber(digits))
	digits = string.format('%.0f', fence)
	redis.call('SET', counter, digits)
	return fence, digits
end

-- Returns the fencing token, and its digits, that `record`, `<token> <fencing token> <ticket>`, has
-- for `token`; nil: none.
local function recorded_fence(record, token)
	local value = redis.pcall('GET', record)
	local space = type(value) == 'string' and value:find(' ', 1, true)
	if space and value:sub(1, space - 1) == token then
		local digits = value:match('^%d+', space + 1)
		return tonumber(digits), digits
	end
end

-- Returns 0, which answers an UNLOCK of a verbs' lock, if the hold that it gives back has ended
-- before. The owner has then acquired the lock again after that hold's lease, or hasp has undone the
-- try (see undo_try()). `given_back` is "TICKET LAST_FENCE". LAST_FENCE is the greatest fencing token
-- that an acquisition before the end of that lease can have. Without LAST_FENCE, returns nothing.
-- `layout`: 'hash', 'string', 'zset', or a side of a read-write lock. (UNLOCK's common path defines
-- no function, so the field is named here, as by rw_field().)
local function answer_ended(record, side, token, layout, given_back)
	local try, last_fence = given_back:match('^(%S+) (%d+)$')
	-- break release_late: if false then
	if last_fence then
		local note
		if layout == 'hash' or layout == 'string' then
			note = redis.pcall('GET', record)
			note = type(note) == 'string' and note:sub(1, #token + 1) == token .. ' '
				and note:sub(#token + 2)
		else
			note = redis.pcall('HGET', record, layout == 'x' and token .. ':write' or token)
		end
		local recorded, first
		if type(note) == 'string' then
			recorded, first = note:match('^(%d+) (.+)$')
		end
		if recorded and tonumber(recorded) > tonumber(last_fence)
			or first ~= try and type(redis.pcall('ZSCORE', side, '- ' .. try)) == 'string' then
			return 0
		end
	end
end

-- Writes the record of a verbs' lock: token, fencing token (its digits), ticket of the acquisition.
local function write_record(record, token, digits, ticket, lease)
	redis.call('SET', record, token .. ' ' .. digits .. ' ' .. ticket, 'PX', lease)
end

-- Writes the record of a rule's lock, which names the try by which the owner has the lock. The
-- record lasts for `lease` ms (nil: as long as the lock). `refreshed`: the owner had the lock
-- before the try. The script then marks the try, because undoing it would take the lock from that
-- owner.
local function record_try(lock, record, side, token, ticket, refreshed, lease)
	lease = lease or redis.call('PTTL', lock)
	if tonumber(lease) > 0 then
		-- (With owner = value there is no token, because the value names the owner.)
		redis.call('SET', record, (side == lock and '-' or token) .. (refreshed and ' - =' or ' - ')
			.. ticket, 'PX', lease)
	end
end

-- Makes Redis accept the script's next writes although its memory is full; they must need no more
-- memory. (Redis refuses commands such as ZADD and HINCRBY only until the script has called a write
-- command. ZREM is one, even if it removes nothing. Source: scriptCall() in Redis' script.c)
local function write_when_full(key)
	redis.pcall('ZREM', key, '')
end
