# SPDX-License-Identifier: BSD-3-Clause
"""Redisson's RReadWriteLock, as Redis sees it.

A lock is a hash at its name. `mode` is `read` or `write`. A reader has the field
`<uuid>:<thread>`, the writer has `<uuid>:<thread>:write`. These fields count holds. Each hold of a
reader has a key that expires with its lease, `{name}:<uuid>:<thread>:rwlock_timeout:<n>`. Each call
is a script that is sent by EVAL. A release publishes `0` if it was the last reader's, `1` if it was
the writer's.
"""

from redisson import LATCH_MS, WATCHDOG_MS, RLock, prefixed

TRY_READ = """local mode = redis.call('HGET', KEYS[1], 'mode')
local n = 0
if not mode then
    redis.call('HSET', KEYS[1], 'mode', 'read', ARGV[2], 1)
    n = 1
elseif mode == 'read' or redis.call('HEXISTS', KEYS[1], ARGV[3]) == 1 then
    n = redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
else
    return redis.call('PTTL', KEYS[1])
end
redis.call('SET', KEYS[2] .. ':' .. n, 1, 'PX', ARGV[1])
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), ARGV[1]))
return nil"""

TRY_WRITE = """local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
    redis.call('HSET', KEYS[1], 'mode', 'write', ARGV[2], 1)
    redis.call('PEXPIRE', KEYS[1], ARGV[1])
    return nil
end
if mode == 'write' and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
    redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
    redis.call('PEXPIRE', KEYS[1], redis.call('PTTL', KEYS[1]) + ARGV[1])
    return nil
end
return redis.call('PTTL', KEYS[1])"""

UNLOCK_READ = """local function answer(n)
    redis.call('SET', KEYS[5], n, 'PX', ARGV[3])
    return n
end
local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
    redis.call('PUBLISH', KEYS[2], ARGV[1])
    return answer(1)
end
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
    return nil
end
local left = redis.call('HINCRBY', KEYS[1], ARGV[2], -1)
if left == 0 then
    redis.call('HDEL', KEYS[1], ARGV[2])
end
redis.call('DEL', KEYS[3] .. ':' .. (left + 1))
if redis.call('HLEN', KEYS[1]) > 1 then
    local longest = -3
    for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
        for n = tonumber(redis.call('HGET', KEYS[1], field)) or 0, 1, -1 do
            longest = math.max(longest, redis.call('PTTL', KEYS[4] .. ':' .. field .. ':rwlock_timeout:' .. n))
        end
    end
    if longest > 0 then
        redis.call('PEXPIRE', KEYS[1], longest)
        return answer(0)
    end
    if mode == 'write' then
        return answer(0)
    end
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], ARGV[1])
return answer(1)"""

UNLOCK_WRITE = """local mode = redis.call('HGET', KEYS[1], 'mode')
if not mode then
    redis.call('PUBLISH', KEYS[2], ARGV[1])
    redis.call('SET', KEYS[3], 1, 'PX', ARGV[4])
    return 1
end
if mode ~= 'write' or redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
    return nil
end
if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    redis.call('SET', KEYS[3], 0, 'PX', ARGV[4])
    return 0
end
redis.call('HDEL', KEYS[1], ARGV[3])
if redis.call('HLEN', KEYS[1]) == 1 then
    redis.call('DEL', KEYS[1])
    redis.call('PUBLISH', KEYS[2], ARGV[1])
else
    redis.call('HSET', KEYS[1], 'mode', 'read')
end
redis.call('SET', KEYS[3], 1, 'PX', ARGV[4])
return 1"""

RENEW_READ = """if not redis.call('HGET', KEYS[1], ARGV[2]) then
    return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    for n = tonumber(redis.call('HGET', KEYS[1], field)) or 0, 1, -1 do
        redis.call('PEXPIRE', KEYS[2] .. ':' .. field .. ':rwlock_timeout:' .. n, ARGV[1])
    end
end
return 1"""

RENEW_WRITE = """if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
    return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])"""

FORCE_UNLOCK = """if redis.call('HGET', KEYS[1], 'mode') ~= ARGV[2] then
    return 0
end
redis.call('DEL', KEYS[1])
redis.call('PUBLISH', KEYS[2], ARGV[1])
return 1"""


class Side(RLock):
    """One thread's side of the lock. `r`: a redis-py client whose replies are str."""

    mode, message = "", ""

    def __init__(self, r, name, thread=1, client=None, lease_ms=WATCHDOG_MS):
        super().__init__(r, name, thread, client, lease_ms)
        self.channel = prefixed("redisson_rwlock", name)
        self.prefix = name if "{" in name else f"{{{name}}}"
        self.timeouts = f"{self.prefix}:{self.field}:rwlock_timeout"

    def force_unlock(self):
        return self.r.eval(FORCE_UNLOCK, 2, self.name, self.channel, self.message, self.mode) == 1


class ReadSide(Side):
    mode, message = "read", "0"

    def try_lock(self):
        """Returns None if this thread got the lock, else for how many ms another one has it."""
        return self.r.eval(TRY_READ, 2, self.name, self.timeouts, self.lease_ms, self.field,
                           f"{self.field}:write")

    def send_unlock(self, latch):
        return self.r.eval(UNLOCK_READ, 5, self.name, self.channel, self.timeouts, self.prefix, latch,
                           self.message, self.field, LATCH_MS)

    def renew(self):
        return self.r.eval(RENEW_READ, 2, self.name, self.prefix, self.lease_ms, self.field) == 1


class WriteSide(Side):
    mode, message = "write", "1"

    def try_lock(self):
        return self.r.eval(TRY_WRITE, 1, self.name, self.lease_ms, f"{self.field}:write")

    def send_unlock(self, latch):
        return self.r.eval(UNLOCK_WRITE, 3, self.name, self.channel, latch, self.message,
                           self.lease_ms, f"{self.field}:write", LATCH_MS)

    def renew(self):
        return self.r.eval(RENEW_WRITE, 1, self.name, self.lease_ms, f"{self.field}:write") == 1
