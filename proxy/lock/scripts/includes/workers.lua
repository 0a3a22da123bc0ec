-- Returns true if the waiter is present: its deadline and the end of its lease have not passed, and
-- its worker listens. `deaf` remembers which workers do not listen.
local function is_present(waiter, now_ms, deaf)
	local worker = waiter.worker
	if deaf[worker] == nil then
		-- PUBLISH would also count clients that listen to a pattern.
		local count = redis.pcall('PUBSUB', 'NUMSUB', 'hasp:worker:' .. worker)
		deaf[worker] = count[2] == 0
	end
	-- break nobody_present: return false
	return not deaf[worker] and waiter.deadline_ms > now_ms and tonumber(waiter.lease) > 0
end

-- Asks a waiter's worker to poll the lock. Returns how many clients of Redis get the message;
-- Redis' error if this user may not publish.
local function ask_worker(waiter)
	return redis.pcall('PUBLISH', 'hasp:worker:' .. waiter.worker, waiter.ticket .. ' look')
end

-- Handles the first entry of a queue if it has no proof by this hasp process. The entry may belong
-- to another process, or be forged: so the script grants it nothing, but asks its worker to take
-- the lock by the worker's own proof. The entry keeps its place for 3 s. After that its worker
-- counts as gone, as if its host were frozen, and the script removes this worker's other waiters,
-- too. `deaf` is is_present()'s. `is_held`: the owner of the entry has the lock already, and the
-- entry would get one more hold. Returns the outcome:
--
--     woken     its worker may take the lock
--     absent    its worker was woken before, but did not take the lock
--     deaf      its worker does not listen
--     refused   this user may not publish
-- include ask_worker
-- include keep_woken
-- include mark_woken
local function wake(queue, entry, waiter, now_ms, deaf, is_held)
	if waiter.woken_ms > 0 and not is_held then
		return keep_woken(queue, entry, waiter, now_ms, deaf)
	end
	local listeners = ask_worker(waiter)
	if type(listeners) ~= 'number' then
		return 'refused'
	end
	if listeners == 0 then
		return 'deaf'
	end
	if not is_held then
		mark_woken(queue, entry, waiter, now_ms)
	end
	return 'woken'
end

-- Decides about the first entry of a queue if its worker does not listen at this server. A worker
-- of several servers (its number begins with `n`) may be about to subscribe: after a failover,
-- workers learn of the new server one after the other. So its entries keep their places for 3 s;
-- then the script removes those among the first 64 entries. `deaf` is is_present()'s. `is_held`:
-- the lock has an owner, and the waiter would join it. Returns the state of the entry:
--
--     woken     its worker may still subscribe
--     absent    its worker is gone
-- include keep_woken
-- include mark_woken
local function await_worker(queue, entry, waiter, now_ms, deaf, is_held)
	if waiter.worker:sub(1, 1) ~= 'n' then
		return 'absent'
	end
	if is_held then
		return 'woken'
	end
	if waiter.woken_ms == 0 then
		mark_woken(queue, entry, waiter, now_ms)
		return 'woken'
	end
	return keep_woken(queue, entry, waiter, now_ms, deaf)
end

-- Returns the outcome for the first entry of a queue, which a script has marked as woken before:
-- `woken` for 3 s; after that `absent`, and the script removes the entries of its worker.
-- include drop_worker
local function keep_woken(queue, entry, waiter, now_ms, deaf)
	if math.abs(now_ms - waiter.woken_ms) <= 3000 then
		return 'woken'
	end
	drop_worker(queue, entry, waiter, now_ms, deaf)
	return 'absent'
end

-- Removes from a queue the entries of a worker that is gone: `entry`, the first of the queue, and
-- others among the first 64. `waiter` is the waiter of `entry`. `deaf` is is_present()'s.
-- include mark_woken
-- include parse_waiter
local function drop_worker(queue, entry, waiter, now_ms, deaf)
	local worker = waiter.worker
	deaf[worker] = 'gone'
	local last, more = entry, redis.call('ZCARD', queue) > 64
	for _, other in ipairs(redis.call('ZRANGE', queue, '0', '63')) do
		if other:sub(1, #worker + 1) == worker .. '-' then
			redis.call('ZREM', queue, last)
			last = other
		end
	end
	-- If the queue has more than 64 entries, the last one found stays, marked as woken long ago:
	-- when that entry becomes the first, a script searches the next 64 at once.
	local rest = more and last ~= entry and parse_waiter(last, now_ms)
	if rest then
		mark_woken(queue, last, rest, waiter.woken_ms)
	else
		redis.call('ZREM', queue, last)
	end
end
