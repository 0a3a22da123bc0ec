-- Returns the value of a rule's lock, then: true if `token` owns it, false if another owner does,
-- nil if it has no owner. For another type: nil, nil, Redis' own error. If the lock is a counter
-- that others have raised, the fourth result is the part that its owner added, as text; else nil.
--
-- The lock is a string. Beside it is its sidecar (parse_side()), which counts only while the lock
-- has the value that the sidecar names. With owner = value there is no sidecar, and `side` is the
-- lock's own key: the lock's value is the owner. If the client knows no value of such a lock
-- (`token` is ''), `foreign` decides: if it is 'foreign', another owner has the lock; else the lock
-- has no owner.
-- include get_string
-- include parse_side
local function check_owner(lock, side, token, foreign)
	local value, wrong_type = get_string(lock)
	if not value then
		return nil, nil, wrong_type
	end
	if side == lock then
		-- break foreign_as_nobody: if false then
		if foreign == 'foreign' then
			return value, false
		end
		if token == '' then
			return value
		end
		return value, value == token
	end
	local owner, own = parse_side(get_string(side), value)
	if not owner then
		return value
	end
	return value, owner == token, nil, own
end

-- Parses `note`, the sidecar of a rule's lock that has this value. Returns the token of the owner;
-- if the lock is a counter that others have raised, also the part of the value that the owner
-- added, as text. Returns nil if the sidecar is of another value, and so of an earlier lock.
--
--     <token> <value>          the value is the owner's
--     <token> ~<own> <value>   a counter: others have added the rest
local function parse_side(note, value)
	local space = note and note:find(' ', 1, true)
	if not space then
		return nil
	end
	local token, rest = note:sub(1, space - 1), note:sub(space + 1)
	if rest == value then
		return token
	end
	local own, count = rest:match('^~(-?%d+) (.*)$')
	if count == value then
		return token, own
	end
end

-- Returns the new sidecar (see parse_side()) of a counter that `token` has counted from `before` to
-- `after`. Returns nil if the counter no longer has an owner. `terms` is 'shared' if several
-- connections have this token. Then only what the first of them added is the owner's part: when
-- that connection ends, hasp takes back that part.
-- include get_string
-- include parse_side
local function recount(side, token, terms, before, after)
	local owner, own = parse_side(get_string(side), string.format('%.0f', before))
	if not owner then
		return nil
	end
	own = tonumber(own or before)
	-- break count_for_owner: local left = after
	local left = math.min(own, after)
	if owner == token and terms ~= 'shared' then
		left = own + after - before
	end
	if own > 0 and left <= 0 then
		return nil
	end
	local count = string.format('%.0f', after)
	if left ~= after then
		count = '~' .. string.format('%.0f', left) .. ' ' .. count
	end
	return owner .. ' ' .. count
end

-- If other clients have raised a counter, takes back what its owner has added; the rest has no
-- owner. Returns false if no other client has raised it: the caller can then delete the lock.
-- include get_string
-- include parse_side
local function take_back(lock, record, side)
	local value = get_string(lock)
	local _, own = parse_side(get_string(side), value)
	if not own then
		return false
	end
	-- (DEL comes first: a Redis whose memory is full refuses SET until the script has written.)
	redis.call('DEL', record, side)
	redis.call('SET', lock, string.format('%.0f', value - own), 'KEEPTTL')
	return true
end

-- Returns true if a client has taken a rule's lock again without hasp, and stored the old value.
-- hasp gives the lock and its sidecar the same expiry, so the expiry of a lock that was retaken
-- differs from the sidecar's. The difference must exceed 1000 ms: before Redis 7.2 the clock goes
-- on while a script runs, and a busy machine can stop Redis between the two commands that set the
-- expiries.
local function is_retaken(lock, side)
	if side == lock then
		return false
	end
	local ttl = redis.call('PTTL', lock)
	return ttl == -1 or math.abs(ttl - redis.call('PTTL', side)) > 1000
end

-- Gives a rule's lock, its sidecar and its record an expiry of `lease` ms if the lock has none.
local function add_lease(lock, side, record, lease)
	if redis.call('PTTL', lock) == -1 then
		redis.call('PEXPIRE', lock, lease)
		redis.call('PEXPIRE', side, lease)
		redis.call('PEXPIRE', record, lease)
	end
end

-- Gives a rule's lock an expiry of `lease` ms if it has none, and cuts an expiry longer than `max`
-- ms. With a `note`, writes it to the sidecar (see check_owner()), and gives the key `record`, if
-- there is one, the lock's expiry.
local function enforce_lease(lock, side, note, lease, max, record)
	local ttl = redis.call('PTTL', lock)
	local want = ttl
	-- break forget_lease: if false then
	if ttl == -1 then
		want = lease
	end
	if want > max then
		want = max
	end
	if want ~= ttl then
		redis.call('PEXPIRE', lock, want)
	end
	if note and record then
		redis.call('PEXPIRE', record, want)
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

-- Runs an MSET or MSETNX that begins at ARGV[first] and is too long for unpack(): piece by piece,
-- but still in one step for other clients. Returns the command's reply.
local function mset_long(first)
	local nx = ARGV[first]:upper() == 'MSETNX'
	for i = first + 1, nx and #ARGV or 0, 2 do
		if redis.call('EXISTS', ARGV[i]) == 1 then
			return 0
		end
	end
	local reply
	for i = first + 1, #ARGV, 4000 do
		reply = redis.pcall('MSET', unpack(ARGV, i, math.min(i + 3999, #ARGV)))
		if reply.err then
			return reply
		end
	end
	return nx and 1 or reply
end
