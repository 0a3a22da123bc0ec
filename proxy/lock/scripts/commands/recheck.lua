-- recheck: checks many locks that hasp's clients wait for, each second: is the lock held, and does
-- its first waiter still have its place in the queue? Changes nothing: hasp then calls poll.lua.
--
-- KEYS     the n locks, then their n queues
--
-- ARGV     the place of a waiter in each of the n queues
--
-- returns  for each lock that is held for less than a second more: its number, from 1, and the ms
--          left; -2: it is free, or the waiter is not in the queue
-- layout   any; see hand_off.lua
local call, keys, argv, over = redis.call, KEYS, ARGV, {}
local n = #argv
for i = 1, n do
	local place = argv[i]
	local queued = call('ZCOUNT', keys[n + i], place, place) > 0
	local left = queued and call('PTTL', keys[i]) or -2
	if left < 1000 and left ~= -1 then
		over[#over + 1] = i
		over[#over + 1] = left
	end
end
return over
