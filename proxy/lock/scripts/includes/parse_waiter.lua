-- Returns the fields of an entry of a queue (see hand_off.lua), with its lease cut to the date that
-- it names; nil: `entry` is no such entry.
local function parse_waiter(entry, now_ms)
	local ticket, proof, woken_ms, terms = entry:match('^(%S+) (%x+) (%d+) (.*)$')
	if not ticket then
		return nil
	end
	local deadline_ms, kind, lease, until_ms, token, value =
		terms:match('^(%d+) (%a) (%d+) (%d+) (%S+) (.*)$')
	local worker = ticket:match('^[^-]+')
	if not deadline_ms or not worker then
		return nil
	end
	if until_ms ~= '0' then
		lease = string.format('%.0f', math.min(lease, until_ms - now_ms))
	end
	return {
		ticket = ticket,
		worker = worker,
		proof = proof,
		woken_ms = tonumber(woken_ms),
		terms = terms,
		deadline_ms = tonumber(deadline_ms),
		kind = kind,
		lease = lease,
		token = token,
		value = value,
	}
end
