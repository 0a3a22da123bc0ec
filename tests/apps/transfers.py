# SPDX-License-Identifier: BSD-3-Clause
"""Transfers between accounts, each of which reads and writes two balances.

    REDIS_HOST, REDIS_PORT  where Redis is
    HOW                     none: no lock
                            each: hasp's LOCK of the account that pays; the other one is not locked
                            mlock: hasp's MLOCK of both accounts
    WORKERS, TIMES          number of workers, and of the transfers that each makes

Each worker has a connection of its own, as a process would. Prints the number of transfers, and
what all accounts had together before and after them.
"""

import os
import random
import threading
import time

import redis

ACCOUNTS = [f"account:{{bank}}:{n}" for n in range(4)]
START = 1000
HOW = os.environ.get("HOW", "none")
WORKERS, TIMES = int(os.environ.get("WORKERS", 8)), int(os.environ.get("TIMES", 15))
CHECKED = 0.002  # seconds that the bank takes to approve a transfer


def connect():
    return redis.Redis(os.environ.get("REDIS_HOST", "127.0.0.1"), int(os.environ.get("REDIS_PORT", 6379)),
                       decode_responses=True, single_connection_client=True)


def lock(payer, payee):
    if HOW == "each":
        return "LOCK", f"lock:{payer}"
    return "MLOCK", 2, f"lock:{payer}", f"lock:{payee}"


def unlock(payer, payee):
    if HOW == "each":
        return "UNLOCK", f"lock:{payer}"
    return "MUNLOCK", 2, f"lock:{payer}", f"lock:{payee}"


def transfer(r, payer, payee, amount):
    has, gets = int(r.get(payer)), int(r.get(payee))
    time.sleep(CHECKED)
    r.set(payer, has - amount)
    r.set(payee, gets + amount)


def worker(number, start):
    r, chance = connect(), random.Random(number)
    r.ping()
    start.wait()
    for _ in range(TIMES):
        payer, payee = chance.sample(ACCOUNTS, 2)
        if HOW == "none":
            transfer(r, payer, payee, chance.randint(1, 50))
            continue
        while not r.execute_command(*lock(payer, payee), "WAIT", 10000):
            pass
        transfer(r, payer, payee, chance.randint(1, 50))
        r.execute_command(*unlock(payer, payee))
    r.close()


def total(r):
    return sum(int(balance) for balance in r.mget(ACCOUNTS))


def main():
    r, start = connect(), threading.Barrier(WORKERS)
    r.mset(dict.fromkeys(ACCOUNTS, START))
    before = total(r)
    threads = [threading.Thread(target=worker, args=(n, start)) for n in range(WORKERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"transfers={WORKERS * TIMES} before={before} after={total(r)}")


if __name__ == "__main__":
    main()
