-- May `token` have a read-write lock as things are, for `kind` (see hand_off.lua)? Returns true or
-- false, then 'mine' when it has the lock, or its other side, already. So false, 'mine' is a reader
-- that asks for the write side, which Redisson refuses, too. When the key holds something else: nil
-- and Redis' own error.
--
-- The lock is a hash: `mode` is `read` or `write`; each reader's token has the count of its holds,
-- the writer's has it behind `<token>:write`. A writer may have holds of the read side, too, and
-- stays a reader when it gives the other side back. Each hold of the read side has a key of its
-- own, `{<lock>}:<token>:rwlock_timeout:<n>`, which ends with its lease; the lock lasts as long as
-- the longest. The record is a hash {field: `<fencing token> <ticket>`}; the sidecar has the tickets
-- of further holds (see add_hold.lua). The names of the keys of holds depend on how many there are:
-- so they are not among KEYS, but they have the slot of the lock.
-- include keep_readers
-- include read_left
-- include rw_mode
local function rw_allows(lock, record, side, token, kind)
	local mode, wrong_type = rw_mode(lock)
	if not mode then
		if mode == nil then
			return nil, wrong_type
		end
		return true
	end
	if mode == 'write' then
		local mine = redis.call('HEXISTS', lock, token .. ':write') == 1
		return mine, mine and 'mine'
	end
	local holds = redis.call('HGET', lock, token)
	if holds and read_left(lock, token, holds, 0) >= 0 then
		return kind == 'm', 'mine'
	end
	if holds then
		-- Its time is over: so it begins anew, if it may.
		redis.call('HDEL', lock, token)
		redis.pcall('HDEL', record, token)
		if kind == 'm' and redis.call('HLEN', lock) == 1 then
			redis.call('DEL', lock, record, side)
		end
	end
	-- break writer_beside_readers: if true then return true end
	return kind == 'm' or not keep_readers(lock, record, side, 0)
end
