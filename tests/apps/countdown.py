# SPDX-License-Identifier: BSD-3-Clause
"""A counter, as in tutorials: each of a hundred threads takes a number from it.

    REDIS_HOST, REDIS_PORT  where Redis is
    THREADS                 number of threads, each with a connection of its own
    LOCKED                  0: without the lock

Reports that it is ready, and begins when the counter exists. Each thread reads the counter, prints
its number, and writes one less. The "printer" is a list in Redis, which all threads share.
countdown.php and countdown.js do the same.
"""

import os
import threading
import time

import redis

LOCK, COUNTER = "countdown:lock", "countdown"
PRINTER, READY = "countdown:printed", "countdown:ready"
WAIT_MS = 240000


def connect():
    return redis.Redis(os.environ.get("REDIS_HOST", "127.0.0.1"),
                       int(os.environ.get("REDIS_PORT", 6379)), single_connection_client=True)


def count_down(r):
    number = int(r.get(COUNTER))
    r.rpush(PRINTER, number)
    time.sleep(0.001)
    r.set(COUNTER, number - 1)


def worker(r, locked, released):
    if not locked:
        count_down(r)
    elif r.execute_command("LOCK", LOCK, "WAIT", WAIT_MS):
        count_down(r)
        released.append(r.execute_command("UNLOCK", LOCK))


def begin(r):
    r.incr(READY)
    while not r.exists(COUNTER):
        time.sleep(0.002)


def main():
    connections = [connect() for _ in range(int(os.environ.get("THREADS", 100)))]
    locked = os.environ.get("LOCKED", "1") == "1"
    released = []
    threads = [threading.Thread(target=worker, args=(r, locked, released)) for r in connections]
    begin(connections[0])
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"threads={len(threads)} released={sum(released)}")


if __name__ == "__main__":
    main()
