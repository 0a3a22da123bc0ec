# SPDX-License-Identifier: BSD-3-Clause
"""A bank: many readers add up all accounts again and again, while transfers change them.

    REDIS_HOST, REDIS_PORT  where Redis is
    HOW                     plain: without a lock
                            sides: hasp's LOCK ... SHARED for reports, EXCLUSIVE for transfers
    READERS, TIMES          number of readers, and of the reports that each makes

Each reader has a connection of its own, as a process would. A report reads the accounts one by one.
Prints the number of reports, how many had a wrong sum, and how many were made at the same time at
most: readers need not wait for each other.
"""

import os
import random
import threading
import time

import redis

KEY, ACCOUNTS, MONEY = "bank", 8, 100
HOW = os.environ.get("HOW", "plain")
READERS, TIMES = int(os.environ.get("READERS", 8)), int(os.environ.get("TIMES", 15))
LOOKED_UP = 0.001   # seconds


class Reports:
    def __init__(self):
        self.mutex, self.now, self.most, self.total, self.wrong = threading.Lock(), 0, 0, 0, 0

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


class Side:
    """One side of the lock; with HOW=plain, no lock."""

    def __init__(self, r, side):
        self.r, self.side = r, side

    def __enter__(self):
        if HOW == "sides":
            while not self.r.execute_command("LOCK", KEY, self.side, "WAIT", 10000):
                pass

    def __exit__(self, *_):
        if HOW == "sides":
            self.r.execute_command("UNLOCK", KEY)


def read(reports, start):
    r = connect()
    r.ping()
    start.wait()
    for _ in range(TIMES):
        with Side(r, "SHARED"), reports:
            total = 0
            for n in range(ACCOUNTS):
                total += int(r.get(f"account:{n}"))
                time.sleep(LOOKED_UP)
        with reports.mutex:
            reports.wrong += total != ACCOUNTS * MONEY


def transfer(reports, start):
    """Transfers money while reports are made."""
    r = connect()
    r.ping()
    start.wait()
    while reports.total < READERS * TIMES:
        giver, taker = random.sample(range(ACCOUNTS), 2)
        with Side(r, "EXCLUSIVE"):
            r.decr(f"account:{giver}")
            time.sleep(LOOKED_UP)
            r.incr(f"account:{taker}")


def main():
    r = connect()
    for n in range(ACCOUNTS):
        r.set(f"account:{n}", MONEY)
    reports, start = Reports(), threading.Barrier(READERS + 1)
    threads = [threading.Thread(target=read, args=(reports, start)) for _ in range(READERS)]
    threads.append(threading.Thread(target=transfer, args=(reports, start)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"reports={reports.total} wrong={reports.wrong} most={reports.most}")


if __name__ == "__main__":
    main()
