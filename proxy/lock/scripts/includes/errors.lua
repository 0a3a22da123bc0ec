-- Returns a command's error as Redis words it outside of scripts. Before version 7, Redis puts the
-- script's name and line before an error that it finds before the command runs (READONLY, OOM,
-- ...). In scripts, Redis words a missing permission differently; up to version 7.0, without
-- NOPERM.
local function client_error(reply, command)
	local text = reply.err:match('^@user_script: ?%d+: %-?(.*)$') or reply.err
	if text:find('Wrong number of args calling', 1, true) then
		text = "ERR wrong number of arguments for '" .. command:lower() .. "' command"
	elseif text:find('^[ER ]*Unknown .*command called from ') then
		text = "ERR unknown command '" .. command:sub(1, 128) .. "'"
	elseif text:find("script can't run", 1, true) then
		text = "NOPERM this user has no permissions to run the '" .. command:lower() .. "' command"
			.. (redis.REDIS_VERSION and '' or ' or its subcommand')
	elseif text:find("script can't access", 1, true) then
		text = 'NOPERM this user has no permissions to access one of the keys used as arguments'
	else
		text = text:gsub('^ERR ACL failure in script: ', 'NOPERM ')
	end
	if text == reply.err then
		return reply
	end
	return redis.error_reply((text:gsub('%s+$', '')))
end

-- As client_error(), for an error that redis.call() has raised: before version 7, a text.
-- include client_error
local function raised_error(raised, command)
	return client_error(type(raised) == 'table' and raised or redis.error_reply(raised), command)
end

-- Returns one of hasp's own errors, as the application gets it. `reason`: 'held' or 'guarded' by
-- another owner; 'lost' or 'changed' after the key was read; or 'overflow', which names no key.
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
		.. ' was read under a guard that has ended: nothing was written')
end

-- Returns true if a number in `reply` may have been rounded, because Lua's numbers are exact up to
-- 2^53 only. The caller then undoes the command: an error is better than a wrong number.
local function int_overflow(reply)
	if type(reply) == 'number' then
		return reply >= 2 ^ 53 or reply <= -2 ^ 53
	end
	for _, element in ipairs(type(reply) == 'table' and reply or {}) do
		if int_overflow(element) then
			return true
		end
	end
	return false
end
