-- munlock: MUNLOCK.
--
-- KEYS     lock, record, queue, sidecar for each of the n locks; then the fence counter
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  layout: 'hash', 'string'
-- ARGV[4]  and more: for each of the n, as unlock's ARGV[6]
--
-- returns  how many of the locks this owner had. The script has given back one hold of each, and
--          handed off those whose last hold this was. A lock whose hold had ended does not count
-- layout   Redisson's RLock, with its message to its waiters, or go-zero's RedisLock; or a
--          semaphore (see count_places()), or a read-write lock (see rw.lua)
-- include answer_ended
-- include count_holds
-- include drop_rw
-- include end_place
-- include forget_try
-- include hand_off
-- include hand_off_places
-- include left_rw
-- include notify_redisson
-- include raised_error
-- include rw_field
-- include write_when_full
local counter = KEYS[#KEYS]
local token, layout_type = unpack(ARGV, 2)

-- Returns true if the hold of the lock KEYS[i] that the MUNLOCK gives back had ended before.
local function is_kept(i, layout)
	local given_back = ARGV[(i - 1) / 4 + 4]
	return given_back and answer_ended(KEYS[i + 1], KEYS[i + 3], token, layout, given_back) == 0
end

-- The usual case: no client waits, and these are the owner's only holds.
local queues, gone, are_last = {}, {}, true
for i = 1, #KEYS - 1, 4 do
	local g = #gone
	queues[#queues + 1] = KEYS[i + 2]
	gone[g + 1], gone[g + 2], gone[g + 3] = KEYS[i], KEYS[i + 1], KEYS[i + 3]
end
if redis.call('EXISTS', unpack(queues)) == 0 then
	for i = 1, #KEYS - 1, 4 do
		if layout_type == 'hash' then
			local held = redis.pcall('HMGET', KEYS[i], token, 'mode')
			are_last = are_last and held[1] == '1' and held[2] ~= 'read' and held[2] ~= 'write'
		else
			are_last = are_last and redis.pcall('GET', KEYS[i]) == token
		end
		are_last = are_last and not is_kept(i, layout_type)
	end
	if are_last and type(redis.pcall('DEL', unpack(gone))) ~= 'table' then
		for i = 1, layout_type == 'hash' and #KEYS - 1 or 0, 4 do
			-- (Notifies Redisson's waiters as notify_redisson() does.)
			local lock, channel, message = KEYS[i], 'redisson_lock__channel:', '0'
			channel = channel .. (lock:find('{', 1, true) and lock or '{' .. lock .. '}')
			-- paste announce
		end
		return #queues
	end
end

local holds, layout = {}, {}
for i = 1, #KEYS - 1, 4 do
	holds[i], layout[i] = count_holds(KEYS[i], KEYS[i + 1], token, layout_type)
	if not holds[i] then
		return layout[i]
	end
	if holds[i] > 0 and is_kept(i, layout[i]) then
		holds[i] = 0
	end
end
local is_ok, result = pcall(function()
	local released = 0
	for i = 1, #KEYS - 1, 4 do
		local lock, record, queue, side = unpack(KEYS, i, i + 3)
		local given_back = ARGV[(i - 1) / 4 + 4]
		if holds[i] > 0 then
			released = released + 1
		end
		local is_rw = layout[i] == 'm' or layout[i] == 'x'
		if holds[i] > 1 then
			write_when_full(queue)
		end
		if holds[i] > 1 and given_back and (is_rw or layout[i] == 'hash') then
			forget_try(record, side, is_rw and rw_field(token, layout[i]) or nil,
				given_back:match('^%S*'))
		end
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
end)
if is_ok then
	return result
end
return raised_error(result, 'MUNLOCK')
