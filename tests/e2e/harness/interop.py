# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests with other lock clients: the clients, and hand-offs between them and hasp.

The clients are redis-py's own, and small ones in tests/apps that send the same commands as the real
ones. `past` makes a client of Redis, `thru` a client of hasp.
"""

import contextlib
import re
import sys

import pytest

from . import sections
from .apps import APPS, run_app
from .line import polls, rechecks, stand
from .replies import FENCE, ONE, PONG
from .resp import encode
from .wait import TooSlow, until

sys.path.insert(0, str(APPS))

# pylint: disable=wrong-import-position
from lockers import LEASE_MS, GoZero, RedisPy, Redsync, Signal, Verbs, Watched  # noqa: E402
from redisson import LATCH_MS, RLock, prefixed  # noqa: E402
from redisson_rw import ReadSide, WriteSide  # noqa: E402

__all__ = ["EITHER_WAY", "KEY", "LATCH_MS", "LEASE_MS", "STRINGS", "GoZero", "RLock", "ReadSide", "RedisPy",
           "Redsync", "Sides", "Signal", "Verbs", "Watched", "WriteSide", "contend", "cross", "hand_over", "listens",
           "prefixed", "rule", "stands_in_line", "ticking", "verbs", "warm_up"]

KEY = "lock:1"

# During CLIENT PAUSE (ms), Redis queues commands; it then sends all replies at once.
PAUSE_MS = 150

EITHER_WAY = pytest.mark.parametrize("way", ["past", "thru"])
STRINGS = pytest.mark.parametrize("layout", ["refresh", "no"])


def verbs(layout="count", **settings):
    return sections.verbs(reentrant=layout, **settings)


def rule(**settings):
    return sections.rule("others", **{"owner": "value", **settings})


class Sides:
    """Clients of Redis and of hasp, each on a connection of its own."""

    def __init__(self, redis_server, hasp, stack):
        self.redis_server, self.hasp, self.stack = redis_server, hasp, stack
        self.plain = stack.enter_context(redis_server.client())

    def connect(self, way):
        server = self.redis_server if way == "past" else self.hasp
        client = server.client(single_connection_client=True)
        # The client's close() would leave the connection to the pool.
        self.stack.callback(client.connection_pool.disconnect)
        return client

    def past(self, kind, *args, **options):
        return kind(self.connect("past"), *args, **options)

    def thru(self, kind, *args, **options):
        return kind(self.connect("thru"), *args, **options)

    def by(self, way, kind, *args, **options):
        return kind(self.connect(way), *args, **options)


def stands_in_line(plain, key, briefly=None):
    """Waits until a client is queued. `briefly`: the future of its lock(), if the lease is
    short."""
    queue = f"hasp:queue:{key}:" if re.search("{[^}]", key) else f"hasp:queue:{{{key}}}"

    def stands():
        number = plain.zcard(queue)
        if briefly and number == 0 and briefly.done():
            raise TooSlow("the waiter got the lock before the test saw it in the queue")
        return number == 1

    return until(stands, "the waiter to enter the queue")


def listens(plain, channel):
    return until(lambda: plain.pubsub_numsub(channel)[0][1], f"a subscription of {channel}")


@contextlib.contextmanager
def unchecked(plain, newcomers=0):
    """Raises TooSlow if hasp's check of each second runs within the block: see harness/line.py.
    `newcomers`: clients that enter a queue within the block, as rechecks() counts them, too."""
    before = rechecks(plain)
    yield
    if rechecks(plain) != before + newcomers:
        raise TooSlow("hasp has checked the lock by itself")


@contextlib.contextmanager
def ticking(both):
    """Makes unchecked() count hasp's check of each second also if the lock is a read-write lock: a
    waiter for another lock entered its queue first, so hasp rechecks that lock no later."""
    with both.hasp.connect() as holder, both.hasp.connect() as waiter:
        assert holder.call("LOCK", "ticking") == FENCE
        stand(both.plain, waiter, "LOCK", "ticking", "WAIT", 600000)
        yield


def hand_over(both, pool, waiter, key, release, channel=None, announced=True):
    """Releases a lock and checks that the client that waits through hasp gets it: at once if hasp
    learns of the release (`announced`), else by hasp's check of each second."""
    plain = both.plain
    polled = polls(plain)
    waiting = pool.submit(waiter.lock, timeout=20)
    stands_in_line(plain, key)
    until(lambda: polls(plain) > polled, "hasp's first check of the lock")
    if channel:
        listens(plain, channel)
    before = rechecks(plain)
    with unchecked(plain) if announced else contextlib.nullcontext():
        assert release()
        assert waiting.result()
    assert announced or rechecks(plain) > before
    assert waiter.unlock()


def contend(pool, *apps, **settings):
    """Runs contend.py for each (address, kind), all at the same time. Returns how many entries are
    missing, and how often two clients had the lock together."""
    settings = {"key": KEY, "times": 15, "workers": 2, "parties": len(apps), **settings}
    runs = [pool.submit(run_app, "contend.py", address, kind=kind, **settings)
            for address, kind in apps]
    results = [run.result() for run in runs]
    wanted = len(apps) * settings["times"] * settings["workers"]
    return wanted - sum(r["entered"] for r in results), sum(r["met"] for r in results)


def cross(both, key, send_release):
    """Sends the holder's release after the other client's LOCK, which Redis gets first and
    refuses."""
    with both.hasp.connect() as ours, unchecked(both.plain, newcomers=1):
        assert ours.call("PING") == PONG  # Redis has accepted the link
        both.plain.execute_command("CLIENT", "PAUSE", PAUSE_MS, "ALL")
        ours.send(encode("LOCK", key, "WAIT", 10000))
        both.hasp.take_turn()
        send_release()
        assert ours.read() == FENCE
        assert ours.call("UNLOCK", key) == ONE


def warm_up(both, pool, key):
    """Hands a lock off through hasp, which shows that hasp gets published messages."""
    holder, waiter = both.thru(Verbs, key), both.thru(Verbs, key)
    assert holder.lock()
    hand_over(both, pool, waiter, key, holder.unlock)
