# SPDX-License-Identifier: BSD-3-Clause
"""Refusing repeated orders, as tutorials do: SET uid 1 EX n NX, and DEL in `finally`.

    REDIS_HOST, REDIS_PORT  where Redis is
    USERS                   number of users
    LEASE                   seconds after which a lock expires
    KILL                    no: no process is killed, and that user clicks three times, too

The fault: `finally` also runs if the lock was not acquired, so a second click removes the lock of
the first, and a third click orders again.

Every user clicks three times: the first order is being paid while the other clicks come. Then a
process is killed while it has the lock of one more user, who tries again until it works. Each click
is a process that waits for commands of this program, so the order of events is fixed. Prints the
number of orders, how many are too many, and for how long the killed process kept its user out.
"""

import multiprocessing
import os
import time

import redis

LEASE = int(os.environ.get("LEASE", 2))

multiprocessing.set_start_method("fork")


def connect():
    return redis.Redis(os.environ.get("REDIS_HOST", "127.0.0.1"),
                       int(os.environ.get("REDIS_PORT", 6379)), decode_responses=True)


def order(r, uid, pay):
    """Runs the tutorial's code. Returns true if the order was placed."""
    lock = f"lock:order:{uid}"
    try:
        if not r.set(lock, 1, ex=LEASE, nx=True):
            return False
        if r.get(f"cart:{uid}") is None:
            return False
        pay()
        r.rpush(f"orders:{uid}", "order")
        r.delete(f"cart:{uid}")
        return True
    finally:
        r.delete(lock)


class Click:
    """One request in a process of its own, which pauses while it pays."""

    def __init__(self, uid):
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=self._run, args=(uid, theirs))
        self.process.start()

    @staticmethod
    def _run(uid, pipe):
        def pay():
            pipe.send("paying")
            pipe.recv()

        placed = order(connect(), uid, pay)
        pipe.send("ordered" if placed else "refused")

    def progress(self):
        return self.pipe.recv()

    def finish(self):
        self.pipe.send("paid")
        assert self.progress() == "ordered"
        self.process.join()


def three_clicks(uid):
    clicks = [Click(uid)]
    assert clicks[0].progress() == "paying"
    paying = [clicks[0]]
    for _ in range(2):
        again = Click(uid)
        if again.progress() == "paying":
            paying.append(again)
    for click in paying:
        click.finish()


def kill_while_paying(uid):
    click = Click(uid)
    assert click.progress() == "paying"
    click.process.kill()
    click.process.join()


def order_at_last(uid):
    """Returns how many milliseconds pass until the user can order."""
    r = connect()
    start = time.monotonic()
    while not order(r, uid, pay=lambda: None):
        time.sleep(0.01)
    return int((time.monotonic() - start) * 1000)


def main():
    clicking, unlucky = [f"user{i}" for i in range(int(os.environ.get("USERS", 5)))], ["unlucky"]
    users = clicking + unlucky
    if os.environ.get("KILL") == "no":
        clicking, unlucky = users, []
    r = connect()
    for uid in users:
        r.delete(f"orders:{uid}")
        r.set(f"cart:{uid}", "a book")

    for uid in clicking:
        three_clicks(uid)
    kept_out = 0
    for uid in unlucky:
        kill_while_paying(uid)
        kept_out = order_at_last(uid)

    orders = sum(r.llen(f"orders:{uid}") for uid in users)
    print(f"users={len(users)} orders={orders} repeated={orders - len(users)} kept_out_ms={kept_out}")


if __name__ == "__main__":
    main()
