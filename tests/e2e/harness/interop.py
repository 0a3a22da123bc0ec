# SPDX-License-Identifier: BSD-3-Clause
"""What the tests with other lock clients share: the clients, both ways to Redis, hand-offs.

The clients are small ones in tests/apps, written from the descriptions of what
the real ones send, and redis-py's own. `past` makes one that talks to Redis, `thru` one that
talks to hasp.
"""

import re
import sys
import time

import pytest

from . import sections
from .apps import APPS, run_app
from .info import calls
from .resp import encode
from .wait import TooSlow, until

sys.path.insert(0, str(APPS))

# pylint: disable=wrong-import-position
from lockers import LEASE_MS, GoZero, RedisPy, Redsync, Signal, Verbs, Watched  # noqa: E402
from redisson import LATCH_MS, RLock, prefixed  # noqa: E402
from redisson_rw import ReadSide, WriteSide  # noqa: E402

__all__ = ["EITHER_WAY", "KEY", "LATCH_MS", "LEASE_MS", "PROMPT", "STRINGS", "GoZero", "RLock", "ReadSide", "RedisPy",
           "Redsync", "Sides", "Signal", "Verbs", "Watched", "WriteSide", "contend", "crossing_seconds",
           "handover_seconds", "listens", "prefixed", "rule", "stands_in_line", "verbs", "warm_up"]

KEY = "lock:1"

# hasp probes a lock that is waited for every second, whatever it hears.
PROMPT = 0.5

# Redis runs what it was sent during a pause in that order, and its answers come all at once.
PAUSE_MS = 150

EITHER_WAY = pytest.mark.parametrize("way", ["past", "thru"])
STRINGS = pytest.mark.parametrize("layout", ["refresh", "no"])


def verbs(layout="count", **settings):
    return sections.verbs(reentrant=layout, **settings)


def rule(**settings):
    return sections.rule("others", **{"owner": "value", **settings})


class Sides:
    """Clients of both sides, each on a connection of its own."""

    def __init__(self, redis_server, hasp, stack):
        self.redis_server, self.hasp, self.stack = redis_server, hasp, stack
        self.plain = stack.enter_context(redis_server.client())

    def connect(self, way):
        server = self.redis_server if way == "past" else self.hasp
        client = server.client(single_connection_client=True)
        self.stack.callback(client.connection_pool.disconnect)  # close() would leave it to the pool
        return client

    def past(self, kind, *args, **options):
        return kind(self.connect("past"), *args, **options)

    def thru(self, kind, *args, **options):
        return kind(self.connect("thru"), *args, **options)

    def by(self, way, kind, *args, **options):
        return kind(self.connect(way), *args, **options)


def stands_in_line(plain, key, briefly=None):
    """`briefly`: the future of a waiter for a lock whose lease is over soon."""
    queue = f"hasp:queue:{key}:" if re.search("{[^}]", key) else f"hasp:queue:{{{key}}}"

    def stands():
        number = plain.zcard(queue)
        if briefly and number == 0 and briefly.done():
            raise TooSlow("the waiter had the lock before it was seen to stand in line")
        return number == 1

    return until(stands, "the waiter to stand in line")


def listens(plain, channel):
    return until(lambda: plain.pubsub_numsub(channel)[0][1], f"a subscription of {channel}")


def was_looked_at(plain):
    """hasp has called a script since: its probe of the lock that it waits for. The next one is
    a second away."""
    before = calls(plain, "evalsha")
    until(lambda: calls(plain, "evalsha") > before, "hasp to probe the lock")


def handover_seconds(both, pool, waiter, key, release, channel=None):
    """From the release until the client that waits through hasp has the lock."""
    def wait():
        return waiter.lock(timeout=10), time.monotonic()

    waiting = pool.submit(wait)
    stands_in_line(both.plain, key)
    if channel:
        listens(both.plain, channel)
    was_looked_at(both.plain)
    released = time.monotonic()
    assert release()
    got, since = waiting.result()
    assert got
    assert waiter.unlock()
    return since - released


def contend(pool, *apps, **settings):
    """Runs contend.py once for each (address, kind), all at the same time. Returns how often
    they were inside, together and met by another."""
    settings = {"key": KEY, "times": 15, "workers": 2, "parties": len(apps), **settings}
    runs = [pool.submit(run_app, "contend.py", address, kind=kind, **settings)
            for address, kind in apps]
    results = [run.result() for run in runs]
    wanted = len(apps) * settings["times"] * settings["workers"]
    return wanted - sum(r["entered"] for r in results), sum(r["met"] for r in results)


def crossing_seconds(both, key, send_release):
    """The holder's release is sent when the other one's try is on its way and finds it held."""
    with both.hasp.connect() as ours:
        both.plain.execute_command("CLIENT", "PAUSE", PAUSE_MS, "ALL")
        ours.send(encode("LOCK", key, "WAIT", 10000))
        both.hasp.take_turn()
        send_release()
        released = time.monotonic()
        assert int(ours.read()[1:]) > 0
        since = time.monotonic()
        assert ours.call("UNLOCK", key) == b":1\r\n"
    return since - released


def warm_up(both, pool, key):
    """From then on hasp hears what is published."""
    holder, waiter = both.thru(Verbs, key), both.thru(Verbs, key)
    assert holder.lock()
    handover_seconds(both, pool, waiter, key, holder.unlock)
