-- Another owner has the guard of key `i`: enters its queue, or refuses the call that may not wait.
-- The client has the guards of the keys before it by then, so that all clients wait for the keys in
-- the same order. The reply is QUEUED (see enqueue.lua), followed by the key's number.
-- include enqueue
-- include hasp_error
-- include guarded_key
-- include guarded_try
local function enqueue_for_guard(i)
	local guard, queue, key, token, lease = guarded_key(i)
	local may_wait, ticket, wait_ms, place = guarded_try()
	if not may_wait then
		return hasp_error('guarded', key)
	end
	local reply = enqueue(guard, -2, queue, ticket, wait_ms, place,
		'g ' .. lease .. ' 0 - ' .. token)
	if reply.ok then
		reply.ok = reply.ok .. ' ' .. i
	end
	return reply
end
