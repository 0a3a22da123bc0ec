-- KEYS and ARGV of the scripts that run a command on guarded keys, by name.
--
-- KEYS     guard, queue, key for each of the n guarded keys, in the keys' order; then the command's
--          other keys
--
-- ARGV[1]  secret (see sign.lua)
-- ARGV[2]  n
-- ARGV[3]  ticket ('': the client cannot wait)
-- ARGV[4]  how many ms to wait
-- ARGV[5]  place in the queue or ''
-- ARGV[6]  token, lease ms, state for each of the n; then the command, or nothing
--
-- The state of the key, as hasp knows it:
--
--     -       nothing
--     m, mk   the connection has read it: its owner must still have the guard
--
-- and with `k` the owner keeps the guard after the write, or the command does not write this key
-- (but another one, or it reads this one in a transaction).
--
-- A guard is a string that holds its owner's token, and after that, until the owner has read under
-- it, a space and the ticket of the try that got it. So an owner that has read, lost the guard and
-- got it again does not write by its old read: a read counts only while the guard is the bare
-- token.
--
-- Returns the arguments of guarded key `i`: guard, queue, key; token, lease, state.
local function guarded_key(i)
	local keys, args, at = KEYS, ARGV, 3 * i
	return keys[at - 2], keys[at - 1], keys[at],
		args[at + 3], args[at + 4], args[at + 5]
end
