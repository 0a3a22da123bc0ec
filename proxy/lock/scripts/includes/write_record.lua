-- Writes the record of a verbs' lock: the token, the fencing token (its digits) and the ticket that
-- it was acquired by.
local function write_record(record, token, digits, ticket, lease)
	redis.call('SET', record, token .. ' ' .. digits .. ' ' .. ticket, 'PX', lease)
end
