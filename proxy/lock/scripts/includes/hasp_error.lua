-- hasp's own errors, as the application gets them: 'held' and 'guarded' by another owner, 'lost' or
-- 'changed' since it was read, or 'overflow' (which names no key).
local function hasp_error(reason, key)
	if reason == 'overflow' then
		return redis.error_reply('ERR a key with a lock rule cannot count beyond 2^53')
	end
	local name = "'" .. key:sub(1, 128):gsub('%c', '?') .. "'"
	if reason == 'held' then
		return redis.error_reply('LOCKED ' .. name .. ' is held by another owner')
	end
	if reason == 'guarded' then
		return redis.error_reply('LOCKED ' .. name .. ' is guarded by another owner')
	end
	if reason == 'changed' then
		return redis.error_reply('LOCKLOST ' .. name
			.. ' has changed since it was read, or the read failed: nothing was written')
	end
	return redis.error_reply('LOCKLOST ' .. name
		.. ' was read under a guard that is over: nothing was written')
end
