-- The value of a rule's lock, then: true when `token` owns it, false when another owner does, nil
-- when it has no owner. For another type: nil, nil, Redis' own error.
--
-- The lock is a string. Beside it is its sidecar, `<token> <value>`, which counts only while
-- the lock has that very value. A lock whose sidecar key is the lock key itself has none: with
-- owner = value the lock's value is the owner. `foreign` is 'foreign' when the client knows no
-- value of such a lock, so that it is another owner's; any other value means that it is no
-- owner's.
-- include get_string
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
	local note = get_string(side)
	local space = note and note:find(' ', 1, true)
	if not space or note:sub(space + 1) ~= value then
		return value
	end
	return value, note:sub(1, space - 1) == token
end
