-- Writes the record of a rule's lock: by which try its owner has it, for `lease` ms (nil: for as
-- long as the lock lasts). Undoing a try that `refreshed` the lock would take it from an owner that
-- has it already: so such a try is marked.
local function record_try(lock, record, side, token, ticket, refreshed, lease)
	lease = lease or redis.call('PTTL', lock)
	if tonumber(lease) > 0 then
		-- (With owner = value there is no token, for the value names the owner.)
		redis.call('SET', record, (side == lock and '-' or token) .. (refreshed and ' - =' or ' - ')
			.. ticket, 'PX', lease)
	end
end
