-- A write does not get the guard of key `i`. If it waits, it takes the guards of the keys before,
-- and marks each one as not read under yet, unless the owner has read under it. `owners` are the
-- values that the guards had. Returns the reply.
-- include enqueue_for_guard
-- include guarded_key
-- include guarded_try
local function enqueue_to_write(i, owners)
	local may_wait, ticket = guarded_try()
	for j = 1, may_wait and i - 1 or 0 do
		local guard, _, _, token, lease = guarded_key(j)
		local content = owners[j] == token and token or token .. ' ' .. ticket
		redis.call('SET', guard, content, 'PX', lease)
	end
	return enqueue_for_guard(i)
end
