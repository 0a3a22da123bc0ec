-- acquire_LAYOUT: LOCK in this layout: `count`, `token` (reentrant = refresh, no), `limit` or `rw`.
--
-- KEYS[1]  lock
-- KEYS[2]  record
-- KEYS[3]  queue
-- KEYS[4]  fence counter
-- KEYS[5]  sidecar; a short call may leave it out
--
-- ARGV of a short call: token, lease ms, ticket, option. A full call has these ARGV:
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  token
-- ARGV[3]  lease ms
-- ARGV[4]  ticket
-- ARGV[5]  option. `count`: none (full call: ''); `token`: 'refresh' or 'no'; `limit`: how many
--          owners there may be; `rw`: 'm', the side that is shared, or 'x', the exclusive one
-- ARGV[6]  how many ms to wait
-- ARGV[7]  place in the queue or ''
-- ARGV[8]  and more: tokens by which the client's own connection has the lock, see any_own()
--
-- returns  the fencing token; nil: another owner has the lock, all places are taken, or a reader
--          asks for the write side; QUEUED (see enqueue()); to a short call, BUSY: the script has
--          done nothing, because it needs a full call
-- layout   see verbs.lua, limit.lua and rw.lua
-- include any_own
-- include client_error
-- include enqueue
-- include hand_off_kind
-- include has_LAYOUT
-- include may_take_LAYOUT
-- include places_left
-- include take_LAYOUT
local lock, record, queue, counter, side = unpack(KEYS)
local is_short = #ARGV <= 4
local token, lease, ticket, option, wait_ms, place = unpack(ARGV, is_short and 1 or 2)
-- break overtake_queue: local existing = redis.call('EXISTS', lock)
local existing = redis.call('EXISTS', lock, queue)
-- break counted_fences: if false then
-- break falling_fences: if false then
if existing == 0 then
	-- Does what next_fence() and take_LAYOUT() do: a function costs more than a Redis call.
	local now = redis.call('TIME')
	local digits = now[1] .. ('00000' .. now[2]):sub(-6)
	local last = redis.pcall('SET', counter, digits, 'GET')
	if not last or #last == #digits and last < digits then
		-- paste take_free_LAYOUT
	elseif type(last) == 'string' then
		redis.call('SET', counter, last)
	end
end
if existing > 0 then
	local kind = ({ count = 'h', token = 's', limit = 'l', rw = option }).LAYOUT
	local allowed, mine, held_ms = may_take_LAYOUT(lock, record, side, token, option, existing)
	if allowed == nil then
		return mine
	end
	-- (A reader that waits for the write side would wait for itself.)
	if mine and not allowed then
		return false
	end
	-- break readers_pass: if not mine and kind ~= 'm' and (existing == 2 or allowed == 'free') then
	if not mine and (existing == 2 or allowed == 'free') then
		-- Clients wait for the lock.
		if is_short then
			return allowed and redis.status_reply('BUSY')
		end
		if (allowed or not held_ms)
			and not (hand_off_kind(lock, record, queue, side, counter, kind) and allowed == 'free') then
			allowed = false
			if redis.call('EXISTS', queue) == 0 then
				allowed, mine = may_take_LAYOUT(lock, record, side, token, option, 1)
			end
			if allowed == nil then
				return mine
			end
		end
	end
	if not allowed then
		local function has(own)
			return has_LAYOUT(lock, own)
		end
		if is_short or wait_ms == '0' or any_own(8, has) then
			return false
		end
		return enqueue(lock, held_ms or kind == 'l' and places_left(lock) or -2, queue, ticket,
			tonumber(wait_ms), place, kind .. ' ' .. lease .. ' 0 ' .. token .. ' '
			.. (kind == 'l' and option or ''))
	end
	existing = allowed == 'free' and 0 or 1
end
local fence = take_LAYOUT(lock, record, side, counter, token, lease, ticket, option, existing == 0)
if type(fence) == 'table' then
	return client_error(fence, 'LOCK')
end
return fence
