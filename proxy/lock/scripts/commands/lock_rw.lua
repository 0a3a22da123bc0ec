-- lock_rw: LOCK ... SHARED, and LOCK ... EXCLUSIVE.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  sidecar
-- KEYS[5]  fence counter
--
-- ARGV of a short call: token, lease ms, ticket, kind. A full call has:
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  lease ms
-- ARGV[4]  ticket
-- ARGV[5]  how many ms to wait
-- ARGV[6]  place in the queue or ''
-- ARGV[7]  kind: 'm' shared, 'x' exclusive
-- ARGV[8]  and more: tokens by which the client's own connection has a side, see any_own()
--
-- returns  the fencing token; nil: another owner has it, or a reader asks for the write side;
--          QUEUED (see enqueue()); to a short call, BUSY: it has done nothing, because only a
--          full one can
-- layout   Redisson's RReadWriteLock: see rw.lua
-- include any_own
-- include client_error
-- include enqueue
-- include hand_off_rw
-- include sides
-- include take_rw
local lock, record, queue, side, counter = unpack(KEYS)
local is_short = #ARGV == 4
local token, lease, ticket, wait_ms, place, kind = unpack(ARGV, is_short and 1 or 2)
if is_short then
	kind = wait_ms
end
if redis.call('EXISTS', lock, queue) > 0 then
	local allowed, mine = sides().allows(lock, record, side, token, kind)
	if allowed == nil then
		return mine
	end
	-- (A reader that waits for the write side would wait for itself.)
	if mine and not allowed then
		return false
	end
	-- break readers_pass: if not mine and kind ~= 'm' and redis.call('EXISTS', queue) == 1 then
	if not mine and redis.call('EXISTS', queue) == 1 then
		if is_short then
			return redis.status_reply('BUSY')
		end
		hand_off_rw(lock, record, queue, side, counter)
		allowed, mine = sides().allows(lock, record, side, token, kind)
		if allowed == nil then
			return mine
		end
		allowed = allowed and (mine or redis.call('EXISTS', queue) == 0)
	end
	if not allowed then
		local function has(own)
			return sides().count_of(lock, own, 'write') > 0
		end
		if is_short or wait_ms == '0' or any_own(8, has) then
			return false
		end
		return enqueue(lock, -2, queue, ticket, tonumber(wait_ms), place,
			kind .. ' ' .. lease .. ' 0 ' .. token .. ' ')
	end
end
local fence = take_rw(lock, record, side, counter, token, lease, ticket, kind)
if type(fence) == 'table' then
	return client_error(fence, 'LOCK')
end
return fence
