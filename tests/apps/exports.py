# SPDX-License-Identifier: BSD-3-Clause
"""A shop whose database can stand three exports at a time. Workers take turns; one of them crashes.

    REDIS_HOST, REDIS_PORT  where Redis is
    HOW                     counter: counts itself if fewer than three exports are running
                            limit: hasp's LOCK ... LIMIT 3
    WORKERS, TIMES          number of workers, and of the exports that each makes

Each worker has a connection of its own, as a process would; the first one dies in the middle of its
last export. Prints the number of exports, and how many ran at the same time at most.
"""

import os
import threading
import time

import redis

PLACES, KEY = 3, "exports"
HOW = os.environ.get("HOW", "counter")
WORKERS, TIMES = int(os.environ.get("WORKERS", 12)), int(os.environ.get("TIMES", 10))
LOOKED_UP, EXPORTED = 0.004, 0.01   # seconds


class Running:
    """Counts the exports that run at the same time."""

    def __init__(self):
        self.mutex, self.now, self.most, self.total = threading.Lock(), 0, 0, 0

    def __enter__(self):
        with self.mutex:
            self.now += 1
            self.total += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *_):
        with self.mutex:
            self.now -= 1


def connect():
    return redis.Redis(os.environ.get("REDIS_HOST", "127.0.0.1"), int(os.environ.get("REDIS_PORT", 6379)),
                       decode_responses=True, single_connection_client=True)


def begin(r):
    if HOW == "limit":
        while not r.execute_command("LOCK", KEY, "LIMIT", PLACES, "WAIT", 10000):
            pass
        return
    while int(r.get(KEY) or 0) >= PLACES:
        time.sleep(0.001)
    time.sleep(LOOKED_UP)  # looks up the data to export
    r.incr(KEY)


def end(r):
    if HOW == "limit":
        r.execute_command("UNLOCK", KEY)
    else:
        r.decr(KEY)


def worker(number, running, start):
    r = connect()
    r.ping()
    start.wait()
    for i in range(TIMES):
        begin(r)
        with running:
            time.sleep(EXPORTED)
        if number > 0 or i < TIMES - 1:
            end(r)
    r.close()


def main():
    running, start = Running(), threading.Barrier(WORKERS)
    threads = [threading.Thread(target=worker, args=(n, running, start)) for n in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"exports={running.total} most={running.most}")


if __name__ == "__main__":
    main()
