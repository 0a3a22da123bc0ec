-- guard_read: a command that reads guarded keys: acquires their guards, or keeps those that it
-- has, and reads.
--
-- KEYS     see guarded_key.lua
-- ARGV     see guarded_key.lua; without a command hasp sends it when the guards are acquired
--
-- returns  the command's reply; without a command GRANTED, and 'anew' when one of them had not been
--          read under; LOCKED with the first key that is another's; LOCKLOST with the first key
--          that was lost; QUEUED (see enqueue.lua), and its number
-- layout   hasp's
-- include acquire_guard
-- include client_error
-- include end_read
-- include guarded_call
-- include guarded_key
-- include release_guards
-- include set_guards
local n, command = guarded_call()
-- Numbers of the guards that were not their owner's; and of those that were, with nothing read
-- under them yet.
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
	reply = redis.pcall(unpack(ARGV, command))
	if type(reply) == 'table' and reply.err then
		-- Nothing was read, and an owner that only took part in that needs no guard.
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
