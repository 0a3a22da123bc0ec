# SPDX-License-Identifier: BSD-3-Clause
"""Lock clients of several kinds, each with what it sends and nothing else.

    lock()    tries until it has the lock, at most `timeout` seconds; whether it has
    unlock()  whether it had it

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

LEASE_MS = 20000


def retry(take, timeout, pause):
    deadline = time.monotonic() + timeout
    while not take():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause())
    return True


class NoLock:
    """Excludes nobody."""

    def __init__(self, r, name):
        self.r, self.name = r, name

    def lock(self, timeout=10):
        return True

    def unlock(self):
        return True


class Verbs:
    """LOCK and UNLOCK: Redis itself does not know them. Without `owner` its connection is. `side` is
    that of a read-write lock."""

    def __init__(self, r, name, owner=None, side=None):
        self.r, self.name, self.side = r, name, [side] if side else []
        self.who = ["AS", owner] if owner else []

    def lock(self, timeout=10):
        wait = ["WAIT", int(timeout * 1000)] if timeout else []
        return self.r.execute_command("LOCK", self.name, "PX", LEASE_MS, *wait, *self.side, *self.who)

    def unlock(self):
        return self.r.execute_command("UNLOCK", self.name, *self.who)


class GoZero:
    """go-zero's RedisLock, whose caller tries again."""

    def __init__(self, r, name, owner=None):
        self.r, self.name, self.id = r, name, owner or uuid.uuid4().hex[:16]

    def try_lock(self):
        return self.r.eval(gozero.LOCK, 1, self.name, self.id, LEASE_MS) == "OK"

    def lock(self, timeout=10):
        return retry(self.try_lock, timeout, lambda: 0.005)

    def unlock(self):
        return self.r.eval(gozero.UNLOCK, 1, self.name, self.id)


class RedisPy:
    """redis-py's own."""

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
    """As redsync and many others have it: SET with NX and PX and a random value. Compare
    and delete is sent by EVALSHA, and as the script only when Redis does not know it."""

    DELETE = """if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
else
    return 0
end"""

    def __init__(self, r, name):
        self.r, self.name, self.value = r, name, None

    def try_lock(self):
        self.value = base64.b64encode(os.urandom(16)).decode()
        return self.r.set(self.name, self.value, nx=True, px=LEASE_MS)

    def lock(self, timeout=10):
        return retry(self.try_lock, timeout, lambda: random.uniform(0.002, 0.02))

    def unlock(self):
        try:
            sha = hashlib.sha1(self.DELETE.encode()).hexdigest()
            return self.r.evalsha(sha, 1, self.name, self.value)
        except redis.exceptions.NoScriptError:
            return self.r.eval(self.DELETE, 1, self.name, self.value)


class Watched(Redsync):
    """As the same, but released as was usual before there were scripts, and as
    StackExchange.Redis does it: WATCH, GET, MULTI, DEL, EXEC."""

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
    """python-redis-lock: a string, and a list. A waiter blocks on the list until the holder
    releases the lock and pushes something."""

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
         "shared": functools.partial(Verbs, side="SHARED"),
         "exclusive": functools.partial(Verbs, side="EXCLUSIVE"),
         "read-side": redisson_rw.ReadSide, "write-side": redisson_rw.WriteSide}
READERS = ("shared", "read-side")
