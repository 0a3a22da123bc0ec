-- Common to the acts on guarded keys, where an act says "include lost.lua".

-- What people are told of a key by.
local function shown(key)
	return "'" .. key:sub(1, 128):gsub('%c', '?') .. "'"
end

-- The answer to a write of a key that was lost since it was read.
local function lost(key)
	return redis.error_reply('LOCKLOST ' .. shown(key)
		.. ' was read under a guard that is over: nothing was written')
end
