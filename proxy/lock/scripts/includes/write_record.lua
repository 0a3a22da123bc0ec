-- Writes the record of a verbs' lock: the token, the fencing token and the ticket that it was
-- acquired by.
local function write_record(record, token, fence, ticket, lease)
	redis.call('SET', record, token .. ' ' .. string.format('%.0f', fence) .. ' ' .. ticket,
		'PX', lease)
end
