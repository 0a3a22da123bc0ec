-- guard_release: hasp's own giving up of a guard, when its owner is done with the key; or what
-- it notes when its owner is not.
--
-- KEYS     guard, queue, readers (none: the guard again)
-- ARGV     token, 'written' when its owner has written what it had read, or ''; 'unread': only
--          what nobody has read under; 'read' when its owner has read, and keeps the guard
-- returns  1; 0 when the guard is another's
-- layout   hasp's
-- include guards.lua
local guard = KEYS[1]
if ARGV[2] == 'read' then
	note_reader(KEYS[3], ARGV[1])
	return 1
end
if KEYS[3] ~= guard and ARGV[2] == 'written' then
	redis.call('HDEL', KEYS[3], ARGV[1])
end
local owner = redis.pcall('GET', guard)
if not is_owner(owner, ARGV[1]) or ARGV[2] == 'unread' and owner == ARGV[1] then
	return 0
end
redis.call('DEL', guard)
pass_on(guard, KEYS[2])
return 1
