-- guard_read: a command that reads guarded keys: acquires the guards that the owner does not have,
-- and reads.
--
-- KEYS     see guarded_key()
-- ARGV     see guarded_key(); if they contain no command, hasp sends it after the script
--
-- returns  the command's reply; without a command, GRANTED, and 'anew' if the owner had not yet
--          read under one of the guards; LOCKED with the first key that another owner has; LOCKLOST
--          with the first key that was lost; QUEUED (see enqueue()), and the key's number
-- layout   hasp's
-- include acquire_guard
-- include client_error
-- include end_read
-- include guarded_call
-- include guarded_key
-- include release_guards
-- include set_guards
local n, command = guarded_call()
-- The numbers of the guards that the owner did not have before, and of the guards that the owner
-- had without a read under them yet.
local taken, unread = {}, {}
for i = 1, n do
	local guard, queue, _, token, lease, state = guarded_key(i)
	local outcome, err = acquire_guard(guard, queue, token, lease, state)
	if outcome == 'taken' then
		taken[#taken + 1] = i
	elseif outcome == 'unread' then
		unread[#unread + 1] = i
	elseif outcome ~= 'kept' then
		return end_read(i, outcome, err, taken, unread)
	end
end

local reply
if ARGV[command] then
	if ARGV[5] == '3' then
		redis.setresp(3)
	end
	reply = redis.pcall(unpack(ARGV, command))
	if type(reply) == 'table' and reply.err then
		-- The read has failed, so the owner does not need the new guards.
		-- break failed_as_read: set_guards(unread)
		release_guards(taken)
		-- break failed_as_read: release_guards({})
		release_guards(unread)
		return client_error(reply, ARGV[command])
	end
else
	reply = redis.status_reply(#taken + #unread > 0 and 'GRANTED anew' or 'GRANTED')
end
set_guards(unread)
return reply
