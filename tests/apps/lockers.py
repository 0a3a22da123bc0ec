# SPDX-License-Identifier: BSD-3-Clause
"""Lock clients of several kinds: each sends the same commands as the real library.

    lock()    tries for at most `timeout` seconds; returns whether it got the lock
    unlock()  returns whether it still had the lock

`r` is a redis-py client of its own whose replies are str.
"""

import base64
import functools
import hashlib
import os
import random
import time
import uuid

import redis
from redis.lock import Lock

import gozero
import redisson
import redisson_rw

LEASE_MS = int(os.environ.get("LEASE_MS", 20000))


def retry(take, timeout, pause):
    deadline = time.monotonic() + timeout
    while not take():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause())
    return True


def evaluate(r, script, key, *args):
    """Calls EVALSHA, and EVAL only if Redis does not know the script."""
    try:
        return r.evalsha(hashlib.sha1(script.encode()).hexdigest(), 1, key, *args)
    except redis.exceptions.NoScriptError:
        return r.eval(script, 1, key, *args)


class NoLock:
    """Excludes no other client."""

    def __init__(self, r, name):
        self.r, self.name = r, name

    def lock(self, timeout=10):
        return True

    def unlock(self):
        return True


class Verbs:
    """hasp's LOCK and UNLOCK, which Redis itself does not know. Without `owner`, the connection is
    the owner. `side` is the side of a read-write lock."""

    def __init__(self, r, name, owner=None, side=None):
        self.r, self.name, self.side = r, name, [side] if side else []
        self.who = ["AS", owner] if owner else []

    def lock(self, timeout=10):
        wait = ["WAIT", int(timeout * 1000)] if timeout else []
        return self.r.execute_command("LOCK", self.name, "PX", LEASE_MS, *wait, *self.side, *self.who)

    def unlock(self):
        return self.r.execute_command("UNLOCK", self.name, *self.who)


class Polled:
    """A lock() that polls: it tries again every 5 ms."""

    def lock(self, timeout=10):
        return retry(self.try_lock, timeout, lambda: 0.005)


class GoZero(Polled):
    """go-zero's RedisLock, which leaves trying again to the caller."""

    def __init__(self, r, name, owner=None, lease_ms=LEASE_MS):
        self.r, self.name, self.id, self.lease_ms = r, name, owner or uuid.uuid4().hex[:16], lease_ms

    def try_lock(self):
        return self.r.eval(gozero.LOCK, 1, self.name, self.id, self.lease_ms) == "OK"

    def unlock(self):
        return self.r.eval(gozero.UNLOCK, 1, self.name, self.id)


class RedisPy:
    """redis-py's own lock."""

    def __init__(self, r, name):
        self.impl = Lock(r, name, timeout=LEASE_MS / 1000, sleep=0.005, thread_local=False)

    def lock(self, timeout=10):
        return self.impl.acquire(blocking=timeout > 0, blocking_timeout=timeout)

    def unlock(self):
        try:
            self.impl.release()
        except redis.exceptions.LockError:
            return False
        return True


class Redsync:
    """The lock of redsync and many other libraries: SET with NX, PX and a random value. EVALSHA
    compares and deletes, and EVAL if Redis does not know the script."""

    DELETE = """if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
else
    return 0
end"""

    # For redsync's Extend() with WithSetNXOnExtend().
    TOUCH = """if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then
    return 1
else
    return 0
end"""

    def __init__(self, r, name, lease_ms=LEASE_MS):
        self.r, self.name, self.lease_ms, self.value = r, name, lease_ms, None

    def try_lock(self):
        self.value = base64.b64encode(os.urandom(16)).decode()
        return self.r.set(self.name, self.value, nx=True, px=self.lease_ms)

    def lock(self, timeout=10):
        return retry(self.try_lock, timeout, lambda: random.uniform(0.002, 0.02))

    def extend(self):
        return evaluate(self.r, self.TOUCH, self.name, self.value, self.lease_ms)

    def unlock(self):
        return evaluate(self.r, self.DELETE, self.name, self.value)


class Redlock(Redsync):
    """Node's redlock with one resource."""

    TAKE = """
  for i, key in ipairs(KEYS) do
    if redis.call("exists", key) == 1 then
      return 0
    end
  end
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end
  return #KEYS
"""
    TOUCH = """
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) ~= ARGV[1] then
      return 0
    end
  end
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end
  return #KEYS
"""
    DELETE = """
  local count = 0
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) == ARGV[1] then
      redis.pcall("del", key)
      count = count + 1
    end
  end
  return count
"""

    def try_lock(self):
        self.value = os.urandom(16).hex()
        return evaluate(self.r, self.TAKE, self.name, self.value, self.lease_ms) == 1


class Discourse(Polled):
    """Discourse's DistributedMutex. The value is the Unix time in s at which the lock ends, which
    the script computes and returns; so a longer expiry would not prolong the lock."""

    LOCK = """local now = redis.call("time")[1]
local expire_time = now + ARGV[1]
local current_expire_time = redis.call("get", KEYS[1])

if current_expire_time and tonumber(now) <= tonumber(current_expire_time) then
  return nil
else
  local result = redis.call("setex", KEYS[1], ARGV[1] + 1, tostring(expire_time))
  return expire_time
end"""
    UNLOCK = """local current_expire_time = redis.call("get", KEYS[1])

if current_expire_time == ARGV[1] then
  local result = redis.call("del", KEYS[1])
  return result ~= nil
else
  return false
end"""

    def __init__(self, r, name, lease_ms=LEASE_MS):
        self.r, self.name, self.validity, self.until = r, name, lease_ms // 1000, None

    def try_lock(self):
        self.until = evaluate(self.r, self.LOCK, self.name, self.validity)
        return self.until is not None

    def unlock(self):
        return evaluate(self.r, self.UNLOCK, self.name, self.until) is not None


class Nextcloud(Polled):
    """The exclusive lock of Nextcloud's MemcacheLockingProvider. Its script replaces 0, the value
    of a free lock, by a value that is the same for all owners."""

    CAS = 'if redis.call("get", KEYS[1]) == ARGV[1] then redis.call("set", KEYS[1], ARGV[2]) return 1 else return 0 end'
    CAD = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'
    VALUE = '"exclusive"'

    def __init__(self, r, name, lease_ms=LEASE_MS):
        self.r, self.name, self.ttl = r, name, lease_ms // 1000

    def try_lock(self):
        self.r.set(self.name, 0, nx=True, ex=self.ttl)
        return (evaluate(self.r, self.CAS, self.name, 0, self.VALUE) == 1
                and self.r.expire(self.name, self.ttl))

    def unlock(self):
        return evaluate(self.r, self.CAD, self.name, self.VALUE)


class Watched(Redsync):
    """Like Redsync, but releases by WATCH, GET, MULTI, DEL, EXEC instead of a script, as
    StackExchange.Redis does."""

    def unlock(self):
        with self.r.pipeline() as transaction:
            transaction.watch(self.name)
            if transaction.get(self.name) != self.value:
                return False
            transaction.multi()
            transaction.delete(self.name)
            try:
                return transaction.execute() == [1]
            except redis.exceptions.WatchError:
                return False


class Signal:
    """python-redis-lock: a string and a list. A waiter blocks on the list until the holder has
    released the lock and pushed an element."""

    UNLOCK = """if redis.call('GET', KEYS[1]) ~= ARGV[1] then
    return 1
end
redis.call('DEL', KEYS[2])
redis.call('LPUSH', KEYS[2], 1)
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('DEL', KEYS[1])
return 0"""
    SIGNAL_MS = 1000

    def __init__(self, r, name):
        self.r, self.id = r, base64.b64encode(os.urandom(18)).decode()
        self.name, self.signal = f"lock:{name}", f"lock-signal:{name}"
        self.woken = 0

    def try_lock(self):
        return self.r.set(self.name, self.id, nx=True, ex=LEASE_MS // 1000)

    def lock(self, timeout=10):
        deadline = time.monotonic() + timeout
        while not self.try_lock():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.woken += self.r.blpop(self.signal, max(1, round(left))) is not None
        return True

    def unlock(self):
        return self.r.eval(self.UNLOCK, 2, self.name, self.signal, self.id, self.SIGNAL_MS) == 0


KINDS = {"none": NoLock, "verbs": Verbs, "redisson": redisson.RLock, "gozero": GoZero,
         "redispy": RedisPy, "redsync": Redsync, "watched": Watched, "signal": Signal,
         "discourse": Discourse, "nextcloud": Nextcloud, "redlock": Redlock,
         "shared": functools.partial(Verbs, side="SHARED"),
         "exclusive": functools.partial(Verbs, side="EXCLUSIVE"),
         "read-side": redisson_rw.ReadSide, "write-side": redisson_rw.WriteSide}
READERS = ("shared", "read-side")
