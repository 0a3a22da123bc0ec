-- A command's error as Redis words it outside of scripts. Before version 7 Redis puts the script's
-- name and line in front of what it finds wrong before the command runs (READONLY, OOM, ...).
local function client_error(reply, command)
	local text = reply.err:match('^@user_script: ?%d+: %-?(.*)$') or reply.err
	if text:find('Wrong number of args calling', 1, true) then
		text = "ERR wrong number of arguments for '" .. command:lower() .. "' command"
	end
	if text == reply.err then
		return reply
	end
	return redis.error_reply((text:gsub('%s+$', '')))
end
