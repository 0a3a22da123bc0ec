-- Acquires the guard of a key for a read (see guarded_key()). Returns the outcome:
--
--     taken    the guard was free, or became free
--     unread   the owner had it, and has not read under it yet
--     kept     the owner had it, and has read under it
--     busy     another owner has it
--     lost     the owner must still have it, but does not
--     failed   Redis refused the write; the second result is Redis' error
-- include client_error
-- include hand_off_guard
-- include is_guard_owner
local function acquire_guard(guard, queue, token, lease, state)
	if state ~= '-' and redis.pcall('GET', guard) ~= token then
		return 'lost'
	end
	if redis.call('EXISTS', queue) == 0 then
		local reply = redis.pcall('SET', guard, token, 'NX', 'PX', lease)
		if reply and reply.err then
			return 'failed', client_error(reply, 'SET')
		end
		if reply then
			return 'taken'
		end
	end
	local owner = redis.pcall('GET', guard)
	if owner == token then
		if redis.call('PTTL', guard) < tonumber(lease) then
			redis.call('PEXPIRE', guard, lease)
		end
		return 'kept'
	end
	if is_guard_owner(owner, token) then
		return 'unread'
	end
	if not owner and hand_off_guard(guard, queue) then
		redis.call('SET', guard, token, 'PX', lease)
		return 'taken'
	end
	return 'busy'
end

-- Returns true if `owner`, the value of a guard, has this token, with a ticket after it or without.
-- (See guarded_key().)
local function is_guard_owner(owner, token)
	return owner == token
		or type(owner) == 'string' and owner:sub(1, #token + 1) == token .. ' '
end

-- KEYS and ARGV of the scripts that run a command on guarded keys, by name.
--
-- KEYS     guard, queue, key for each of the n guarded keys, in the keys' order; then the command's
--          other keys
--
-- ARGV[1]  secret (see sign())
-- ARGV[2]  n
-- ARGV[3]  ticket ('': the client cannot wait)
-- ARGV[4]  how many ms to wait
-- ARGV[5]  place in the queue or ''; '3': guard_read runs the command in RESP3, and the client
--          cannot wait
-- ARGV[6]  token, lease ms, state for each of the n; then the command, or nothing
--
-- The state of the key, as hasp knows it:
--
--     -       nothing
--     m, mk   the connection has read it: its owner must still have the guard
--
-- With `k`, the owner keeps the guard after the command: the command does not release the guard, or
-- it does not write this key. (It writes another key, or a transaction only reads this one.)
--
-- A guard is a string: its owner's token, and then a space and the ticket of the try that got the
-- guard. When the owner reads under the guard, the script removes the space and the ticket. A read
-- counts only while the guard is the bare token. So an owner that has read, lost the guard and got
-- it again does not write by its old read.
--
-- Returns the arguments of guarded key `i`: guard, queue, key; token, lease, state.
local function guarded_key(i)
	local keys, args, at = KEYS, ARGV, 3 * i
	return keys[at - 2], keys[at - 1], keys[at],
		args[at + 3], args[at + 4], args[at + 5]
end

-- Returns four of the arguments that guarded_key() describes: whether the client may wait, the
-- ticket, for how many ms, and the place.
local function guarded_try()
	local ticket, wait_ms, place = unpack(ARGV, 3, 5)
	return ticket ~= '' and wait_ms ~= '0', ticket, tonumber(wait_ms), place
end

-- Returns two facts about the arguments that guarded_key() describes: how many keys are guarded,
-- and the index in ARGV where the command begins.
local function guarded_call()
	local n = tonumber(ARGV[2])
	return n, 6 + 3 * n
end

-- Writes again the guards of the keys with these numbers, all of which the owner has. `ticket`: the
-- ticket of a try that has not read under the guards yet; nil: the owner has read.
-- include guarded_key
local function set_guards(numbers, ticket)
	for _, i in ipairs(numbers) do
		local guard, _, _, token, lease = guarded_key(i)
		redis.call('SET', guard, ticket and token .. ' ' .. ticket or token, 'PX', lease)
	end
end

-- Ends a read that did not get the guard of key `i`. `outcome` and `err` are the results of
-- acquire_guard(). A read that waits keeps the guards of the keys before `i`, marked as not read
-- under yet. Returns the reply.
-- include enqueue_for_guard
-- include guarded_key
-- include guarded_try
-- include hasp_error
-- include release_guards
-- include set_guards
local function end_read(i, outcome, err, taken, unread)
	local may_wait, ticket = guarded_try()
	if outcome == 'busy' and may_wait then
		-- break keep_as_read: set_guards(taken)
		set_guards(taken, ticket)
		-- break keep_as_read: set_guards(unread)
		set_guards(unread, ticket)
	else
		release_guards(taken)
	end
	if outcome == 'busy' then
		return enqueue_for_guard(i)
	end
	if outcome == 'lost' then
		local _, _, key = guarded_key(i)
		return hasp_error('lost', key)
	end
	return err
end

-- Releases the guards of the guarded keys with these numbers, each to its first waiter.
-- include guarded_key
-- include hand_off_guard
local function release_guards(numbers)
	for _, i in ipairs(numbers) do
		local guard, queue = guarded_key(i)
		redis.call('DEL', guard)
		hand_off_guard(guard, queue)
	end
end

-- Enters the queue of key `i`, whose guard another owner has, or refuses a call that may not wait.
-- The client has the guards of the keys before `i`, so all clients wait for keys in the same order.
-- The reply is QUEUED (see enqueue()), followed by the key's number.
-- include enqueue
-- include hasp_error
-- include guarded_key
-- include guarded_try
local function enqueue_for_guard(i)
	local guard, queue, key, token, lease = guarded_key(i)
	local may_wait, ticket, wait_ms, place = guarded_try()
	if not may_wait then
		return hasp_error('guarded', key)
	end
	local reply = enqueue(guard, -2, queue, ticket, wait_ms, place,
		'g ' .. lease .. ' 0 - ' .. token)
	if reply.ok then
		reply.ok = reply.ok .. ' ' .. i
	end
	return reply
end

-- Ends a write that did not get the guard of key `i`. A write that waits takes the guards of the
-- keys before `i`, and marks those under which the owner has not read yet. `owners` are the values
-- that the guards had. Returns the reply.
-- include enqueue_for_guard
-- include guarded_key
-- include guarded_try
local function enqueue_to_write(i, owners)
	local may_wait, ticket = guarded_try()
	for j = 1, may_wait and i - 1 or 0 do
		local guard, _, _, token, lease = guarded_key(j)
		local content = owners[j] == token and token or token .. ' ' .. ticket
		redis.call('SET', guard, content, 'PX', lease)
	end
	return enqueue_for_guard(i)
end

-- Hands a free guard to the first waiter. Returns true if no client waits: the guard stays free.
-- include hand_off
local function hand_off_guard(guard, queue)
	if redis.call('EXISTS', queue) == 0 then
		return true
	end
	return hand_off(guard, guard, queue, guard)
end
