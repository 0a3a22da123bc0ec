# SPDX-License-Identifier: BSD-3-Clause
"""Counting without locks, as many applications do: GET, add one, SET.

    REDIS_HOST, REDIS_PORT  where Redis is
    WORKERS, ROUNDS, KEYS   number of processes, of their rounds in total, and of counters
    THINK_US                how long the application thinks between GET and SET, at most
    LOG                     a file that gets a line for each event

The counters counter:0 ... exist already. The events show who counted what, even if this program is
killed:

    p PID                   a worker begins
    s KEY NUMBER            the worker is about to write this number
    k KEY NUMBER            Redis acknowledged the write
    r KEY                   the read was refused
    w KEY NUMBER            the write was refused: nothing was written
    u KEY NUMBER            the write failed in another way: Redis may have the number

counter.php, counter.rb and counter.js do the same. No client library reconnects by itself between
read and write; the application does, after an error.
"""

import os
import random
import sys
import time

import redis


def setting(name, default):
    return int(os.environ.get(name, default))


LOG = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND)


def tell(*words):
    os.write(LOG, (" ".join(map(str, words)) + "\n").encode())


def connect():
    deadline = time.monotonic() + 30
    while True:
        try:
            client = redis.Redis(host=os.environ.get("REDIS_HOST", "127.0.0.1"),
                                 port=setting("REDIS_PORT", 6379), single_connection_client=True)
            client.ping()
            return client
        except redis.RedisError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def is_refusal(error):
    return isinstance(error, redis.ResponseError) and str(error).startswith(("LOCKED", "LOCKLOST"))


def count(client, key):
    """Returns true if the connection is still usable."""
    try:
        number = int(client.get(key)) + 1
    except redis.RedisError as error:
        tell("r", key)
        return is_refusal(error)
    time.sleep(random.randint(0, setting("THINK_US", 1000)) / 1e6)
    tell("s", key, number)
    try:
        client.set(key, number)
    except redis.RedisError as error:
        tell("w" if is_refusal(error) else "u", key, number)
        return is_refusal(error)
    tell("k", key, number)
    return True


def worker(rounds):
    tell("p", os.getpid())
    random.seed()
    client = connect()
    for _ in range(rounds):
        if not count(client, f"counter:{random.randrange(setting('KEYS', 20))}"):
            client = connect()


def main():
    workers, rounds = setting("WORKERS", 50), setting("ROUNDS", 20000)
    for i in range(workers):
        if os.fork() == 0:
            worker((rounds + i) // workers)
            os._exit(0)
    failed = 0
    for _ in range(workers):
        failed += os.wait()[1] != 0
    print(f"workers={workers} failed={failed}")


sys.exit(main())
