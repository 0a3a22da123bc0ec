-- guard_release: hasp's own release of a guard, when its owner is done with the key.
--
-- KEYS[1]  guard
-- KEYS[2]  queue
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
--
-- returns  1; 0: another owner has the guard, or the guard is free
-- layout   hasp's
-- include hand_off_guard
-- include is_guard_owner
local guard, queue = unpack(KEYS)
if not is_guard_owner(redis.pcall('GET', guard), ARGV[2]) then
	return 0
end
redis.call('DEL', guard)
hand_off_guard(guard, queue)
return 1
