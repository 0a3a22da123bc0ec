# SPDX-License-Identifier: BSD-3-Clause
"""Threads that contend for one lock with others of their kind, and with other programs.

    REDIS_HOST, REDIS_PORT  where Redis is
    KIND                    the kind of lock: see KINDS in lockers.py
    KEY                     the lock
    WORKERS, TIMES          number of threads, and how often each gets the lock
    PARTIES                 number of programs that begin together
    WORK_MS, LEASE_MS       how long each write takes, and a lease

The lock protects a counter. Each thread reads it and, after WORK_MS, writes it. The threads with
the lock also count themselves in Redis. Prints how often this program's threads got the lock, and
how often another thread, of any program, had it at the same time. Threads of the kinds in READERS
write nothing and may have the lock together; for them, only a writer beside them, or a counter that
changes, is a fault.
"""

import os
import threading
import time

import redis

from lockers import KINDS, READERS

NAME = os.environ.get("KIND", "redisson")
KIND, READS = KINDS[NAME], NAME in READERS
KEY = os.environ.get("KEY", "lock:contend")
WORK = int(os.environ.get("WORK_MS", 1)) / 1000
COUNTER, INSIDE, READING, READY = "contend:counter", "contend:inside", "contend:reading", "contend:ready"


def connect():
    return redis.Redis(os.environ.get("REDIS_HOST", "127.0.0.1"),
                       int(os.environ.get("REDIS_PORT", 6379)),
                       decode_responses=True, single_connection_client=True)


def write(r):
    """Returns true if another thread had the lock, too."""
    met = r.incr(INSIDE) != 1 or int(r.get(READING) or 0) != 0
    count = int(r.get(COUNTER) or 0)
    time.sleep(WORK)
    r.set(COUNTER, count + 1)
    r.decr(INSIDE)
    return met


def read(r):
    r.incr(READING)
    before = r.mget(COUNTER, INSIDE)
    time.sleep(0.001)
    met = r.mget(COUNTER, INSIDE) != before or before[1] not in (None, "0")
    r.decr(READING)
    return met


def worker(times, entered, met):
    with connect() as r:
        lock = KIND(connect(), KEY)
        for _ in range(times):
            if not lock.lock(timeout=20):
                return
            met.append(read(r) if READS else write(r))
            entered.append(1)
            # For a reader, Redisson's unlock() returns only whether it was the last reader.
            if not lock.unlock() and not READS:
                return


def begin_together():
    with connect() as r:
        r.incr(READY)
        while int(r.get(READY)) < int(os.environ.get("PARTIES", 1)):
            time.sleep(0.002)


def main():
    entered, met = [], []
    times = int(os.environ.get("TIMES", 20))
    threads = [threading.Thread(target=worker, args=(times, entered, met))
               for _ in range(int(os.environ.get("WORKERS", 3)))]
    begin_together()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"entered={len(entered)} met={sum(met)}")


if __name__ == "__main__":
    main()
