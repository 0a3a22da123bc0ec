-- Remembers in `record` who acquired a verbs' lock, by which fencing token and which try.
local function write_record(record, token, fence, ticket, lease)
	redis.call('SET', record, token .. ' ' .. string.format('%.0f', fence) .. ' ' .. ticket,
		'PX', lease)
end
