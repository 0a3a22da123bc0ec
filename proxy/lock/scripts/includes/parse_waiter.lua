-- An entry of a queue (see hand_off.lua) by its fields, its lease cut to the date that it names.
-- nil when it is none.
local function parse_waiter(entry, now_ms)
	local ticket, deadline_ms, kind, lease, until_ms, token, value =
		entry:match('^(%S+) (%d+) (%a) (%d+) (%d+) (%S+) (.*)$')
	local worker = ticket and ticket:match('^[^-]+')
	if not worker then
		return nil
	end
	if until_ms ~= '0' then
		lease = string.format('%.0f', math.min(lease, until_ms - now_ms))
	end
	return {
		ticket = ticket,
		worker = worker,
		deadline_ms = tonumber(deadline_ms),
		kind = kind,
		lease = lease,
		token = token,
		value = value,
	}
end
