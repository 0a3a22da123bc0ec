-- Returns a command's error as Redis words it outside of scripts. Before version 7 Redis puts the
-- script's name and line before an error that it finds before the command runs (READONLY, OOM,
-- ...). In scripts, Redis words a missing permission in another way, up to version 7.0 without its
-- name.
local function client_error(reply, command)
	local text = reply.err:match('^@user_script: ?%d+: %-?(.*)$') or reply.err
	if text:find('Wrong number of args calling', 1, true) then
		text = "ERR wrong number of arguments for '" .. command:lower() .. "' command"
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
