-- guard_release: hasp's own release of a guard, when its owner is done with the key. When a shared
-- owner has only read the key, adds it to the readers instead.
--
-- KEYS[1]  guard
-- KEYS[2]  queue
-- KEYS[3]  readers (none: the guard again)
--
-- ARGV[1]  secret (see sign.lua)
-- ARGV[2]  token
-- ARGV[3]  'written' when its owner has written what it had read, or ''; 'unread': only a
--          guard that was not read under; 'read' when its owner has read, and keeps the guard, or
--          was refused to read
--
-- returns  1; 0 when the guard is another's
-- layout   hasp's
-- include add_reader
-- include hand_off_guard
-- include is_guard_owner
local guard, queue, readers = unpack(KEYS)
local token, done = unpack(ARGV, 2)
if done == 'read' then
	-- break forget_refused: redis.call('HLEN', readers)
	return add_reader(readers, token) or 1
end
if readers ~= guard and done == 'written' then
	redis.call('HDEL', readers, token)
end
local owner = redis.pcall('GET', guard)
if not is_guard_owner(owner, token) or done == 'unread' and owner == token then
	return 0
end
redis.call('DEL', guard)
hand_off_guard(guard, queue)
return 1
