-- recheck: checks many locks that hasp's clients wait for, each second: is the lock held, and does
-- its first waiter still have its place in the queue? Changes nothing: hasp then calls poll.lua.
--
-- KEYS     the n locks, then their n queues
--
-- ARGV     the place of a waiter in each of the n queues, then, for semaphores, how many places each
--          of these waiters accepts
--
-- returns  for each lock that is held for less than a second more: its number, from 1, and the ms
--          left; -2: it is free, or the waiter is not in the queue
-- layout   any but a read-write lock's; see hand_off.lua
local call, keys, argv, over = redis.call, KEYS, ARGV, {}
local n = #keys / 2
local now_ms
if #argv > n then
	local now = call('TIME')
	now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
end
-- Returns the ms until a place of the semaphore becomes free; -2: there is one now.
local function taken_ms(lock, limit)
	local taken = redis.pcall('ZCARD', lock)
	if type(taken) ~= 'number' or taken < tonumber(limit) then
		return -2
	end
	local left = call('ZRANGE', lock, '0', '0', 'WITHSCORES')[2] - now_ms
	return left > 0 and left or -2
end
for i = 1, n do
	local place, limit, left = argv[i], argv[n + i], -2
	if call('ZCOUNT', keys[n + i], place, place) > 0 then
		left = limit and taken_ms(keys[i], limit) or call('PTTL', keys[i])
	end
	if left < 1000 and left ~= -1 then
		over[#over + 1] = i
		over[#over + 1] = left
	end
end
return over
