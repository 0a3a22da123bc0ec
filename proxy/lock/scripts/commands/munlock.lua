-- munlock: MUNLOCK.
--
-- KEYS     lock, record, queue, sidecar for each of the n locks; then the fence counter
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  layout: 'hash', 'string'
--
-- returns  how many of them this owner had: each was released (and handed off to the first
--          waiter), or one of its holds was
-- layout   Redisson's RLock, with its message to its waiters, or go-zero's RedisLock; or a
--          semaphore (see count_places()), or a read-write lock (see rw.lua)
-- include count_holds
-- include drop_rw
-- include end_place
-- include hand_off
-- include hand_off_places
-- include left_rw
-- include notify_redisson
local counter = KEYS[#KEYS]
local token, layout_type = unpack(ARGV, 2)
local holds, layout = {}, {}
for i = 1, #KEYS - 1, 4 do
	holds[i], layout[i] = count_holds(KEYS[i], KEYS[i + 1], token, layout_type)
	if not holds[i] then
		return layout[i]
	end
end
local released = 0
for i = 1, #KEYS - 1, 4 do
	local lock, record, queue, side = unpack(KEYS, i, i + 3)
	if holds[i] > 0 then
		released = released + 1
	end
	local is_rw = layout[i] == 'm' or layout[i] == 'x'
	if holds[i] > 0 and is_rw then
		if drop_rw(lock, record, side, token, layout[i]) then
			left_rw(lock, record, queue, side, counter, layout[i])
		end
	elseif holds[i] > 1 then
		redis.call('HINCRBY', lock, token, '-1')
	elseif holds[i] == 1 and layout[i] == 'zset' then
		end_place(lock, record, token)
		hand_off_places(lock, record, queue, side, counter)
	elseif holds[i] == 1 then
		redis.call('DEL', lock, record, side)
		if hand_off(lock, record, queue, side, counter) and layout[i] == 'hash' then
			notify_redisson(lock, counter)
		end
	end
end
return released
