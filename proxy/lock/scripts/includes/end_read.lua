-- A read comes to its end at key `i`, of which it did not get the guard: `outcome` and `err` are
-- those of acquire_guard(). When it waits, the guards of the keys before stay its own, marked as
-- not read under yet. Else shared owners are listed as readers of what they were refused. Returns
-- the reply.
-- include add_readers
-- include enqueue_for_guard
-- include guard_lost
-- include guarded_try
-- include release_guards
-- include set_guards
local function end_read(i, n, outcome, err, taken, unread)
	local may_wait, ticket = guarded_try()
	if outcome == 'busy' and may_wait then
		-- break keep_as_read: set_guards(taken)
		set_guards(taken, ticket)
		-- break keep_as_read: set_guards(unread)
		set_guards(unread, ticket)
	else
		release_guards(taken)
		-- break forget_refused: add_readers(0)
		add_readers(n)
	end
	if outcome == 'busy' then
		return enqueue_for_guard(i)
	end
	if outcome == 'lost' then
		return guard_lost(i)
	end
	return err
end
