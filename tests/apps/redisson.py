# SPDX-License-Identifier: BSD-3-Clause
"""Redisson's RLock, as Redis sees it.

A lock is a hash at its name; its field `<uuid of the client>:<thread>` counts the holds. Each call
is a script that is sent by EVAL:

    try     if the lock is free or the caller's: adds a hold, renews the lease, returns nil;
            otherwise returns what is left of the holder's lease, in ms
    unlock  removes a hold. If holds are left: renews the lease, returns 0. Otherwise
            deletes the lock, publishes `0`, returns 1. If the lock is not the caller's: returns nil.
            The latch, a key, keeps the reply for a while, for a call that is sent again
    renew   renews the lease of the caller's lock; the watchdog sends it every third of the lease

A waiter subscribes to the channel, tries again, and sleeps until a message or until the holder's
lease ends. The names of channel and latch have the lock's name in braces, unless that has a brace.
"""

import time
import uuid

WATCHDOG_MS = 30000
LATCH_MS = 10000

TRY = """local free = redis.call('EXISTS', KEYS[1]) == 0
if not free and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return redis.call('PTTL', KEYS[1])
end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return nil"""

UNLOCK = """local before = redis.call('GET', KEYS[2])
if before then
    return tonumber(before)
end
if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return nil
end
local last = redis.call('HINCRBY', KEYS[1], ARGV[1], -1) <= 0
if last then
    redis.call('DEL', KEYS[1])
    redis.call('PUBLISH', KEYS[3], '0')
else
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
redis.call('SET', KEYS[2], last and 1 or 0, 'PX', ARGV[3])
return last and 1 or 0"""

RENEW = """if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
    return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])"""

FORCE_UNLOCK = """local gone = redis.call('DEL', KEYS[1])
if gone == 1 then
    redis.call('PUBLISH', KEYS[2], '0')
end
return gone"""


def prefixed(prefix, name):
    return f"{prefix}:{name}" if "{" in name else f"{prefix}:{{{name}}}"


class RLock:
    """The lock as one thread has it. `r`: a redis-py client whose replies are str."""

    def __init__(self, r, name, thread=1, client=None, lease_ms=WATCHDOG_MS):
        self.r, self.name, self.lease_ms = r, name, lease_ms
        self.field = f"{client or uuid.uuid4()}:{thread}"
        self.channel = prefixed("redisson_lock__channel", name)
        self.heard = []  # messages published while lock() waited

    def try_lock(self):
        """Returns None if this thread got the lock, else for how many ms another one has it."""
        return self.r.eval(TRY, 1, self.name, self.field, self.lease_ms)

    def lock(self, timeout=10):
        deadline = time.monotonic() + timeout
        left_ms = self.try_lock()
        if left_ms is None:
            return True
        with self.r.pubsub() as messages:
            messages.subscribe(self.channel)
            assert messages.get_message(timeout=timeout)["type"] == "subscribe"
            while (left := deadline - time.monotonic()) > 0:
                left_ms = self.try_lock()
                if left_ms is None:
                    return True
                if left_ms >= 0:
                    left = min(left, left_ms / 1000)
                message = messages.get_message(timeout=left)
                if message:
                    self.heard.append(message["data"])
        return False

    def unlock(self):
        """Returns True if the lock is free, False if holds remain, None if this thread had no
        hold."""
        latch = f"{prefixed('redisson_unlock_latch', self.name)}:{uuid.uuid4().hex}"
        reply = self.send_unlock(latch)
        self.r.delete(latch)
        return None if reply is None else reply == 1

    def send_unlock(self, latch):
        return self.r.eval(UNLOCK, 3, self.name, latch, self.channel,
                           self.field, self.lease_ms, LATCH_MS)

    def renew(self):
        """Sends what Redisson's watchdog sends."""
        return self.r.eval(RENEW, 1, self.name, self.field, self.lease_ms) == 1

    def force_unlock(self):
        return self.r.eval(FORCE_UNLOCK, 2, self.name, self.channel) == 1

    def holds(self):
        return int(self.r.hget(self.name, self.field) or 0)
