-- Returns the value of a rule's lock, then: true if `token` owns it, false if another owner does,
-- nil if it has no owner. For another type: nil, nil, Redis' own error. If others have counted on a
-- counter, the fourth result is the part that its owner added, as text; else nil.
--
-- The lock is a string. Beside it is its sidecar (parse_side.lua), which counts only while
-- the lock has that very value. A lock whose sidecar key is the lock key itself has none: with
-- owner = value the lock's value is the owner. If the client knows no value of such a lock (`token`
-- is ''), `foreign` decides: 'foreign': another owner has it; anything else: it has no owner.
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
