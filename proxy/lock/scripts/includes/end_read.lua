-- A read ends at key `i`, because it did not get the guard. `outcome` and `err` are the results of
-- acquire_guard(). If it waits, it keeps the guards of the keys before, marked as not read under
-- yet. Returns the reply.
-- include enqueue_for_guard
-- include guarded_key
-- include guarded_try
-- include hasp_error
-- include release_guards
-- include set_guards
local function end_read(i, outcome, err, taken, unread)
	local may_wait, ticket = guarded_try()
	if outcome == 'busy' and may_wait then
		-- break keep_as_read: set_guards(taken)
		set_guards(taken, ticket)
		-- break keep_as_read: set_guards(unread)
		set_guards(unread, ticket)
	else
		release_guards(taken)
	end
	if outcome == 'busy' then
		return enqueue_for_guard(i)
	end
	if outcome == 'lost' then
		local _, _, key = guarded_key(i)
		return hasp_error('lost', key)
	end
	return err
end
