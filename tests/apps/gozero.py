# SPDX-License-Identifier: BSD-3-Clause
"""An application that locks with go-zero's RedisLock scripts, sent by EVAL.

    REDIS_HOST, REDIS_PORT  where Redis is
    KEY                     the lock
    WORKERS, TIMES          number of workers of each kind, and how often each gets the lock

Prints the replies of a fixed conversation of two owners. Then workers that lock with the scripts
and workers that lock with SETNX and DEL contend for the same key. It protects a counter that each
worker reads and, a moment later, writes.
"""

import multiprocessing
import os
import time
import uuid

import redis

LOCK = """if redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
    return "OK"
else
    return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])
end"""
UNLOCK = """if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("DEL", KEYS[1])
else
    return 0
end"""

KEY = os.environ.get("KEY", "lock:gozero")
COUNTER = "gozero:counter"
LEASE_MS = 5000

multiprocessing.set_start_method("fork")


def connect():
    return redis.Redis(os.environ.get("REDIS_HOST", "127.0.0.1"),
                       int(os.environ.get("REDIS_PORT", 6379)), decode_responses=True)


class Scripts:
    def __init__(self, r):
        self.r, self.id = r, uuid.uuid4().hex

    def lock(self):
        return self.r.eval(LOCK, 1, KEY, self.id, LEASE_MS)

    def unlock(self):
        return self.r.eval(UNLOCK, 1, KEY, self.id)


class Setnx:
    def __init__(self, r):
        self.r = r

    def lock(self):
        return self.r.setnx(KEY, 1) and self.r.pexpire(KEY, LEASE_MS)

    def unlock(self):
        return self.r.delete(KEY)


def conversation():
    mine, yours = Scripts(connect()), Scripts(connect())
    return [mine.lock(), yours.lock(), mine.lock(), yours.unlock(),
            mine.unlock(), mine.unlock(), yours.lock(), yours.unlock()]


def worker(kind, times):
    r = connect()
    lock = kind(r)
    while times:
        if not lock.lock():
            time.sleep(0.002)
            continue
        count = int(r.get(COUNTER))
        time.sleep(0.002)
        r.set(COUNTER, count + 1)
        lock.unlock()
        times -= 1


def contend(workers, times):
    connect().set(COUNTER, 0)
    processes = [multiprocessing.Process(target=worker, args=(kind, times))
                 for kind in (Scripts, Setnx) for _ in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    return 2 * workers * times - int(connect().get(COUNTER))


def main():
    replies = ",".join("nil" if reply is None else str(reply) for reply in conversation())
    lost = contend(int(os.environ.get("WORKERS", 3)), int(os.environ.get("TIMES", 20)))
    print(f"replies={replies} lost_updates={lost}")


if __name__ == "__main__":
    main()
