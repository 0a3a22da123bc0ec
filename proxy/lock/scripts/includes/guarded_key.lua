-- KEYS and ARGV of the scripts that run a command on guarded keys, by name.
--
-- KEYS     guard, queue, readers (none: the guard again), key for each of the n guarded keys, in
--          the keys' order; then the command's other keys
--
-- ARGV[1]  secret (see sign.lua)
-- ARGV[2]  n
-- ARGV[3]  ticket ('': the client cannot wait)
-- ARGV[4]  how many ms to wait
-- ARGV[5]  place in the queue or ''
-- ARGV[6]  token, lease ms, state for each of the n; then the command, or nothing
--
-- The state is what hasp knows of the key:
--
--     -       nothing
--     m, mk   the connection has read it: the guard must still be its owner's
--     s, sk   the same, if `readers` says that the owner has read it
--
-- and with `k` the owner keeps the guard when it has written; with `r` the key is not written (but
-- another one is, or it is read in a transaction); with `w` behind it (reads only) the key is
-- written later and not read.
--
-- A guard is a string that holds its owner's token, and behind that, until the owner has read under
-- it, a space and the ticket of the try that got it. So an owner that had read, lost the guard and
-- got it again does not write by its old read: what was read is good only while the guard is the
-- bare token.
--
-- An owner that is several connections has the key's readers beside the guard, a hash {token: 1}
-- of the owners that have read and not written since, for hasp cannot know which of the connections
-- will write. Any other owner has no readers: hasp knows, and says so by `m`.
--
-- Returns what guarded key `i` is about: guard, queue, readers, key; token, lease, state.
local function guarded_key(i)
	local keys, args, at, arg = KEYS, ARGV, 4 * i, 3 * i
	return keys[at - 3], keys[at - 2], keys[at - 1], keys[at],
		args[arg + 3], args[arg + 4], args[arg + 5]
end
