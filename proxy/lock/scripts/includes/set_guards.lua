-- Writes the guards of the guarded keys with these numbers, which the owner has, again: with the
-- ticket of a try that has not read under them yet, or (nil) without.
-- include guarded_key
local function set_guards(numbers, ticket)
	for _, i in ipairs(numbers) do
		local guard, _, _, token, lease = guarded_key(i)
		redis.call('SET', guard, ticket and token .. ' ' .. ticket or token, 'PX', lease)
	end
end
