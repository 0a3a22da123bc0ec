# SPDX-License-Identifier: BSD-3-Clause
"""Other lock clients and hasp on the same keys at the same time.

The clients are small ones in tests/apps, written from the descriptions of what
the real ones send, and redis-py's own. `past` makes one that talks to Redis, `thru` one that
talks to hasp; either must exclude, and wake, those who LOCK or stand in line through hasp.
"""

import concurrent.futures
import contextlib
import re
import statistics
import sys
import time
import uuid

import pytest
import redis

from harness import TOP, encode, run_app, until

sys.path.insert(0, str(TOP / "tests" / "apps"))

# pylint: disable=wrong-import-position
from lockers import LEASE_MS, GoZero, RedisPy, Redsync, Signal, Verbs, Watched  # noqa: E402
from redisson import LATCH_MS, RLock, prefixed  # noqa: E402

KEY = "lock:1"

# hasp looks at a lock that is waited for every second, whatever it hears.
PROMPT = 0.5

BOTH = pytest.mark.parametrize("pooling", ["shared", "session"])
EITHER_WAY = pytest.mark.parametrize("way", ["past", "thru"])
NAMES = pytest.mark.parametrize("name", [KEY, "lock:{order}:1", "{lock}", "}lock{}"])
STRINGS = pytest.mark.parametrize("layout", ["refresh", "no"])


@pytest.fixture
def pooling():
    """Where it matters, BOTH."""
    return "shared"


def verbs(layout="count", **settings):
    lines = [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(["[verbs]", f"reentrant = {layout}", *lines, ""])


def rule(**settings):
    settings = {"pattern": "lock:*", "owner": "value", **settings}
    lines = [f"{name} = {value}" for name, value in settings.items()]
    return "\n".join(["[lock others]", *lines, ""])


class Sides:
    """Clients of both sides, each on a connection of its own."""

    def __init__(self, redis_server, hasp, stack):
        self.redis_server, self.hasp, self.stack = redis_server, hasp, stack
        self.plain = stack.enter_context(redis_server.client())

    def connect(self, way):
        server = self.redis_server if way == "past" else self.hasp
        return self.stack.enter_context(server.client(single_connection_client=True))

    def past(self, kind, *args, **options):
        return kind(self.connect("past"), *args, **options)

    def thru(self, kind, *args, **options):
        return kind(self.connect("thru"), *args, **options)

    def by(self, way, kind, *args, **options):
        return kind(self.connect(way), *args, **options)


@pytest.fixture
def sides(redis_server, start_hasp):
    with contextlib.ExitStack() as stack:
        yield lambda config, **options: Sides(redis_server, start_hasp(config, **options), stack)


@pytest.fixture
def pool():
    with concurrent.futures.ThreadPoolExecutor() as executor:
        yield executor


def stands_in_line(plain, key):
    queue = f"hasp:queue:{key}:" if re.search("{[^}]", key) else f"hasp:queue:{{{key}}}"
    return until(lambda: plain.zcard(queue) == 1, "the waiter to stand in line")


def listens(plain, channel):
    return until(lambda: plain.pubsub_numsub(channel)[0][1], f"a subscription of {channel}")


def was_looked_at(plain):
    """hasp has called a script since: its look at the lock that it waits for. The next one is
    a second away."""
    def calls():
        return plain.info("commandstats")["cmdstat_evalsha"]["calls"]

    before = calls()
    until(lambda: calls() > before, "hasp to look at the lock")


def handover_seconds(both, pool, waiter, key, release, channel=None):
    """From the release until the one who waits in line through hasp has the lock."""
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


# --- the clients themselves ------------------------------------------------------


def test_contenders_without_a_lock_meet(redis_server, plain, pool):
    missing, met = contend(pool, (redis_server.address, "none"), (redis_server.address, "none"))
    assert missing == 0
    assert met > 0
    assert int(plain.get("contend:counter")) < 60


# --- Redisson's RLock and LOCK in the layout count -------------------------------


@BOTH
def test_redisson_and_lock_exclude_each_other_under_load(redis_server, start_hasp, plain, pool):
    hasp = start_hasp(verbs())
    missing, met = contend(pool, (redis_server.address, "redisson"), (hasp.address, "redisson"),
                           (hasp.address, "verbs"))
    assert (missing, met) == (0, 0)
    assert int(plain.get("contend:counter")) == 90


@EITHER_WAY
@NAMES
def test_redisson_is_excluded_by_lock_and_lock_by_redisson(sides, way, name):
    both = sides(verbs())
    theirs, ours = both.by(way, RLock, name), both.thru(Verbs, name)
    assert ours.lock()
    assert 0 < theirs.try_lock() <= LEASE_MS
    assert theirs.unlock() is None
    assert ours.unlock() == 1
    assert theirs.try_lock() is None
    assert ours.lock(timeout=0) is None
    assert ours.unlock() == 0
    assert theirs.unlock() is True
    assert ours.lock(timeout=0)


@EITHER_WAY
@NAMES
def test_redisson_s_waiter_is_woken_by_unlock(sides, plain, pool, way, name):
    both = sides(verbs())
    theirs, ours = both.by(way, RLock, name), both.thru(Verbs, name)
    assert ours.lock()
    waiting = pool.submit(theirs.lock)
    listens(plain, theirs.channel)
    assert ours.unlock() == 1
    assert waiting.result()  # long before the lease it slept for
    assert set(theirs.heard) <= {"0"}
    assert theirs.unlock() is True


def test_redisson_s_waiter_is_woken_by_the_last_unlock_alone(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    assert ours.lock() and ours.lock()
    with plain.pubsub() as messages:
        messages.subscribe(theirs.channel)
        assert messages.get_message(timeout=5)["type"] == "subscribe"
        assert ours.unlock() == 1
        waiting = pool.submit(theirs.lock)
        until(lambda: plain.pubsub_numsub(theirs.channel)[0][1] == 2, "the waiter's subscription")
        assert ours.unlock() == 1
        assert waiting.result()
        assert messages.get_message(timeout=5)["data"] == "0"
        assert messages.get_message() is None


def test_redisson_s_waiter_is_woken_when_hasp_s_line_is_empty(sides, plain, pool):
    """The lock is handed down the line unannounced, for nobody else gets it."""
    both = sides(verbs())
    theirs = both.past(RLock, KEY)
    first, second = both.thru(Verbs, KEY), both.thru(Verbs, KEY)
    assert first.lock()
    ours = pool.submit(second.lock)
    stands_in_line(plain, KEY)
    waiting = pool.submit(theirs.lock)
    until(lambda: plain.pubsub_numsub(theirs.channel)[0][1] == 2, "both subscriptions")
    assert first.unlock() == 1
    assert ours.result()
    assert theirs.heard == []
    assert second.unlock() == 1
    assert waiting.result()


@BOTH
@EITHER_WAY
@NAMES
def test_waiter_is_handed_what_redisson_unlocks(sides, plain, pool, way, name):
    both = sides(verbs())
    theirs, ours = both.by(way, RLock, name), both.thru(Verbs, name)
    seconds = []
    for _ in range(3):
        assert theirs.lock()
        seconds.append(handover_seconds(both, pool, ours, name, theirs.unlock, theirs.channel))
    assert statistics.median(seconds) < PROMPT


def test_waiter_is_handed_what_redisson_unlocks_by_force(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    seconds = []
    for _ in range(3):
        assert theirs.lock()
        seconds.append(handover_seconds(both, pool, ours, KEY, theirs.force_unlock, theirs.channel))
    assert statistics.median(seconds) < PROMPT


def test_waiter_in_another_database_is_handed_what_redisson_unlocks_there(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    for client in theirs.r, ours.r, both.plain:
        client.select(3)
    seconds = []
    for _ in range(3):
        assert theirs.lock()
        seconds.append(handover_seconds(both, pool, ours, KEY, theirs.unlock, theirs.channel))
    assert statistics.median(seconds) < PROMPT


def test_waiter_is_not_let_in_while_redisson_has_a_hold_left(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    assert theirs.lock() and theirs.lock()
    waiting = pool.submit(ours.lock)
    stands_in_line(plain, KEY)
    assert theirs.unlock() is False
    assert theirs.try_lock() is None  # it is still its own
    assert (theirs.unlock(), theirs.unlock()) == (False, True)
    assert waiting.result()
    assert theirs.try_lock() > 0


def test_waiter_gets_the_lock_of_a_redisson_that_died(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY, lease_ms=300), both.thru(Verbs, KEY)
    assert theirs.lock()
    waiting = pool.submit(ours.lock)
    stands_in_line(plain, KEY)
    assert waiting.result()
    assert theirs.try_lock() > 0


def test_redisson_s_waiter_gets_the_lock_of_a_client_that_died(sides, plain, pool):
    both = sides(verbs(lease="300ms"))
    theirs = both.past(RLock, KEY)
    with both.hasp.connect() as dead:
        assert int(dead.call("LOCK", KEY)[1:]) > 0
        waiting = pool.submit(theirs.lock)
        listens(plain, theirs.channel)
    assert waiting.result()
    assert plain.hgetall(KEY) == {theirs.field: "1"}


@EITHER_WAY
def test_unlock_that_redisson_sends_again_is_answered_the_same(sides, plain, way):
    """Though the lock is another's by then, and with a latch that hasp knows nothing of."""
    both = sides(verbs() + rule(pattern="*", owner="connection"))
    theirs, ours = both.by(way, RLock, "jobs"), both.thru(Verbs, "jobs")
    latch = prefixed("redisson_unlock_latch", "jobs") + ":1"
    assert theirs.lock()
    assert theirs.send_unlock(latch) == 1
    assert ours.lock()
    assert theirs.send_unlock(latch) == 1
    assert 0 < plain.pttl(latch) <= LATCH_MS
    assert both.connect("thru").delete(latch) == 1
    assert ours.unlock() == 1


# --- releases that cross a try ---------------------------------------------------

# Redis runs what it was sent during a pause in that order, and its answers come all at once.
PAUSE_MS = 150


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


@BOTH
def test_script_that_deletes_while_a_try_is_on_its_way_lets_it_in(sides, pool):
    both = sides(verbs("no"))
    warm_up(both, pool, KEY)
    theirs = both.thru(Redsync, KEY)
    seconds = []
    for _ in range(3):
        assert theirs.lock()
        seconds.append(crossing_seconds(both, KEY, theirs.unlock))
    assert statistics.median(seconds) < PROMPT


@BOTH
def test_redisson_s_unlock_while_a_try_is_on_its_way_lets_it_in(sides, pool):
    both = sides(verbs())
    warm_up(both, pool, KEY)
    theirs = both.past(RLock, KEY)
    seconds = []
    for _ in range(5):
        assert theirs.lock()
        seconds.append(crossing_seconds(both, KEY, theirs.unlock))
    assert max(seconds) < PROMPT


# --- the same owner by both ways -------------------------------------------------


@EITHER_WAY
def test_holds_of_redisson_and_of_lock_add_up(sides, plain, way):
    both = sides(verbs())
    client = uuid.uuid4()
    theirs = both.by(way, RLock, KEY, thread=57, client=client)
    ours = both.thru(Verbs, KEY, owner=f"{client}:57")
    assert theirs.lock()
    assert ours.lock(timeout=0)
    assert theirs.lock()
    assert plain.hgetall(KEY) == {f"{client}:57": "3"}
    assert ours.unlock() == 1
    assert theirs.unlock() is False
    assert theirs.holds() == 1
    assert ours.unlock() == 1
    assert not plain.exists(KEY)
    assert theirs.unlock() is None


def test_another_thread_of_the_same_redisson_is_another_owner(sides):
    both = sides(verbs())
    client = uuid.uuid4()
    theirs = both.past(RLock, KEY, thread=57, client=client)
    ours = both.thru(Verbs, KEY, owner=f"{client}:58")
    assert theirs.lock()
    assert ours.lock(timeout=0) is None
    assert ours.unlock() == 0


def test_lock_info_tells_of_redisson_s_holds(sides):
    both = sides(verbs())
    theirs = both.past(RLock, KEY)
    assert theirs.lock() and theirs.lock()
    info = both.connect("thru").execute_command("LOCK.INFO", KEY)
    info = dict(zip(info[::2], info[1::2]))
    assert (info["owner"], info["holds"], info["waiters"]) == (theirs.field, 2, 0)
    assert 0 < info["ttl"] <= 30000


# --- renewal ---------------------------------------------------------------------


def expiries(plain, *keys):
    """Of each of `keys`, by turns, until the first one is gone."""
    seen = []
    until(lambda: seen.append([plain.pttl(key) for key in keys]) or seen[-1][0] < 0, "the end")
    return zip(*seen)


def times_risen(expiry):
    return sum(after > before for before, after in zip(expiry, expiry[1:]))


def is_renewed(plain, key):
    seen = [plain.pttl(key)]
    return until(lambda: seen.append(plain.pttl(key)) or times_risen(seen) == 2,
                 f"{key} to be renewed")


@EITHER_WAY
def test_redisson_s_watchdog_leaves_our_lock_alone(sides, plain, way):
    both = sides(verbs())
    theirs, ours = both.by(way, RLock, KEY), both.thru(Verbs, KEY)
    assert ours.lock()
    assert theirs.renew() is False
    assert plain.pttl(KEY) <= LEASE_MS
    assert plain.hlen(KEY) == 1


def test_our_renewal_leaves_redisson_s_lock_alone(sides, plain):
    """Which it took by force: hasp believes that it has the lock. The other one tells that hasp
    did renew what it has."""
    both = sides(verbs(lease="450ms"))
    theirs = both.past(RLock, KEY, lease_ms=1000)
    with both.hasp.connect() as ours:
        for key in KEY, "lock:2":
            assert int(ours.call("LOCK", key)[1:]) > 0
        assert theirs.force_unlock()
        assert theirs.try_lock() is None
        left_alone, renewed = expiries(plain, KEY, "lock:2")
        assert times_risen(left_alone) == 0
        assert times_risen(renewed) > 1


def test_our_renewal_does_not_shorten_redisson_s(sides, plain):
    both = sides(verbs(lease="450ms"))
    theirs = both.past(RLock, KEY)
    with both.hasp.connect() as ours:
        for key in KEY, "lock:2":
            assert int(ours.call("LOCK", key, "AS", theirs.field)[1:]) > 0
        assert theirs.renew() is True
        assert is_renewed(plain, "lock:2")
        assert plain.pttl(KEY) > 20000


def test_both_watchdogs_keep_what_both_hold_until_the_last_is_gone(sides, plain):
    both = sides(verbs(lease="450ms"))
    theirs = both.past(RLock, KEY, lease_ms=450)
    with both.hasp.connect() as ours:
        assert theirs.lock()
        assert int(ours.call("LOCK", KEY, "AS", theirs.field)[1:]) > 0
        assert is_renewed(plain, KEY)
        assert theirs.unlock() is False
        assert is_renewed(plain, KEY)
        assert theirs.renew() is True  # it need not know
        assert ours.call("UNLOCK", KEY, "AS", theirs.field) == b":1\r\n"
    assert theirs.renew() is False


# --- go-zero's RedisLock and LOCK in the layout refresh --------------------------


@BOTH
def test_gozero_and_lock_exclude_each_other_under_load(redis_server, start_hasp, plain, pool):
    hasp = start_hasp(verbs("refresh"))
    missing, met = contend(pool, (redis_server.address, "gozero"), (hasp.address, "gozero"),
                           (hasp.address, "verbs"))
    assert (missing, met) == (0, 0)
    assert int(plain.get("contend:counter")) == 90


@EITHER_WAY
def test_gozero_is_excluded_by_lock_and_lock_by_gozero(sides, way):
    both = sides(verbs("refresh"))
    theirs, ours = both.by(way, GoZero, KEY), both.thru(Verbs, KEY)
    assert ours.lock()
    assert not theirs.try_lock()
    assert theirs.unlock() == 0
    assert ours.unlock() == 1
    assert theirs.try_lock() and theirs.try_lock()
    assert ours.lock(timeout=0) is None
    assert ours.unlock() == 0
    assert theirs.unlock() == 1
    assert ours.lock(timeout=0)


@EITHER_WAY
def test_gozero_s_id_and_lock_as_it_are_one_owner(sides, plain, way):
    both = sides(verbs("refresh"))
    theirs = both.by(way, GoZero, KEY)
    ours = both.thru(Verbs, KEY, owner=theirs.id)
    assert theirs.try_lock()
    plain.pexpire(KEY, 1000)
    assert ours.lock(timeout=0)
    assert plain.pttl(KEY) > 1000
    plain.pexpire(KEY, 1000)
    assert theirs.try_lock()
    assert plain.pttl(KEY) > 1000
    assert ours.unlock() == 1
    assert theirs.unlock() == 0


@BOTH
@STRINGS
@pytest.mark.parametrize("kind", [GoZero, Redsync, RedisPy, Watched])
def test_waiter_is_handed_what_others_through_hasp_delete(sides, plain, pool, kind, layout):
    both = sides(verbs(layout))
    theirs, ours = both.thru(kind, KEY), both.thru(Verbs, KEY)
    seconds = []
    for _ in range(3):
        assert theirs.lock()
        seconds.append(handover_seconds(both, pool, ours, KEY, theirs.unlock))
    assert statistics.median(seconds) < PROMPT


def test_waiter_of_any_worker_is_handed_what_others_through_hasp_delete(sides, pool):
    both = sides(verbs("no"), workers=3)
    seconds = []
    for _ in range(8):
        theirs, ours = both.thru(Redsync, KEY), both.thru(Verbs, KEY)
        assert theirs.lock()
        seconds.append(handover_seconds(both, pool, ours, KEY, theirs.unlock))
    assert sorted(seconds)[-2] < PROMPT


@pytest.mark.parametrize("kind", [GoZero, Redsync, RedisPy, Watched])
def test_waiter_gets_what_others_past_hasp_delete(sides, plain, pool, kind):
    """At the next look; nothing announces it."""
    both = sides(verbs("no"))
    theirs, ours = both.past(kind, KEY), both.thru(Verbs, KEY)
    assert theirs.lock()
    assert handover_seconds(both, pool, ours, KEY, theirs.unlock) < 5


# --- redis-py's Lock, and those who lock as redsync does -------------------------


@STRINGS
@EITHER_WAY
@pytest.mark.parametrize("kind", [RedisPy, Redsync, Watched])
def test_random_value_and_lock_exclude_each_other(sides, way, kind, layout):
    both = sides(verbs(layout))
    theirs, ours = both.by(way, kind, KEY), both.thru(Verbs, KEY)
    assert ours.lock()
    assert not theirs.lock(timeout=0)
    assert ours.unlock() == 1
    assert theirs.lock(timeout=0)
    assert ours.lock(timeout=0) is None
    assert ours.unlock() == 0
    assert theirs.unlock()
    assert ours.lock(timeout=0)


@STRINGS
def test_random_values_and_lock_exclude_each_other_under_load(redis_server, start_hasp, plain, pool,
                                                             layout):
    hasp = start_hasp(verbs(layout))
    missing, met = contend(pool, (redis_server.address, "redispy"), (hasp.address, "redsync"),
                           (hasp.address, "verbs"))
    assert (missing, met) == (0, 0)
    assert int(plain.get("contend:counter")) == 90


@pytest.mark.parametrize("wait", ["0", "10s"])
@pytest.mark.parametrize("ours", ["redispy", "redsync", "watched"])
def test_random_values_by_a_rule_exclude_each_other_under_load(redis_server, start_hasp, plain,
                                                               pool, ours, wait):
    hasp = start_hasp(rule(wait=wait))
    missing, met = contend(pool, (redis_server.address, "redispy"), (hasp.address, ours))
    assert (missing, met) == (0, 0)
    assert int(plain.get("contend:counter")) == 60


@pytest.mark.parametrize("wait", ["0", "50ms"])
@pytest.mark.parametrize("kind", [RedisPy, Redsync, Watched])
@EITHER_WAY
def test_random_value_is_refused_what_is_held(sides, kind, wait, way):
    both = sides(rule(wait=wait))
    holder, other = both.by(way, kind, KEY), both.thru(kind, KEY)
    assert holder.lock()
    assert not other.lock(timeout=0)
    assert holder.unlock()
    assert not holder.unlock()
    assert other.lock(timeout=0)
    assert not holder.lock(timeout=0)
    assert other.unlock()


@BOTH
@pytest.mark.parametrize("kind", [RedisPy, Redsync, Watched])
def test_set_nx_that_waits_is_handed_what_others_delete(sides, plain, pool, kind):
    both = sides(rule(wait="10s"))
    holder, waiter = both.thru(kind, KEY), both.thru(kind, KEY)
    seconds = []
    for _ in range(3):
        assert holder.lock(timeout=0)
        seconds.append(handover_seconds(both, pool, waiter, KEY, holder.unlock))
    assert statistics.median(seconds) < PROMPT


def test_release_of_one_whose_script_redis_has_forgotten_lets_the_next_one_in(sides, plain, pool):
    both = sides(rule(wait="10s"))
    holder, waiter = both.thru(Redsync, KEY), both.thru(Redsync, KEY)
    seconds = []
    for _ in range(3):
        assert holder.lock(timeout=0)
        plain.script_flush()
        seconds.append(handover_seconds(both, pool, waiter, KEY, holder.unlock))
    assert statistics.median(seconds) < PROMPT


def test_set_nx_that_waits_is_handed_what_lock_had(sides, plain, pool):
    both = sides(verbs("no") + rule(wait="10s"))
    ours, theirs = both.thru(Verbs, KEY), both.thru(Redsync, KEY)
    seconds = []
    for _ in range(3):
        assert ours.lock(timeout=0)
        seconds.append(handover_seconds(both, pool, theirs, KEY, ours.unlock))
    assert statistics.median(seconds) < PROMPT


def test_redis_py_s_lock_is_extended_and_taken_anew_through_hasp(sides, plain):
    both = sides(rule(wait="10s"))
    holder = both.thru(RedisPy, KEY)
    assert holder.lock()
    assert holder.impl.owned()
    assert holder.impl.extend(40)
    assert plain.pttl(KEY) > LEASE_MS + 30000
    assert holder.impl.reacquire()
    assert plain.pttl(KEY) <= LEASE_MS
    assert holder.unlock()


def test_redis_py_s_lock_without_a_timeout_gets_a_lease(sides, plain):
    both = sides(rule(wait="1s", lease="450ms"))
    holder = both.thru(RedisPy, KEY)
    holder.impl.timeout = None
    assert holder.lock()
    assert is_renewed(plain, KEY)
    assert holder.unlock()
    assert not plain.exists(KEY)


@STRINGS
def test_lock_as_a_string_does_not_take_redisson_s(sides, plain, layout):
    both = sides(verbs(layout))
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    assert theirs.lock()
    for wrong in lambda: ours.lock(timeout=1), ours.unlock:
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            wrong()
    assert theirs.unlock() is True


def test_lock_as_a_hash_does_not_take_a_random_value(sides):
    both = sides(verbs())
    theirs, ours = both.past(Redsync, KEY), both.thru(Verbs, KEY)
    assert theirs.lock()
    for wrong in lambda: ours.lock(timeout=1), ours.unlock:
        with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
            wrong()
    assert theirs.unlock() == 1


def test_random_value_does_not_take_redisson_s_by_a_rule(sides, plain):
    both = sides(rule(wait="50ms"))
    theirs, other = both.past(RLock, KEY), both.thru(Redsync, KEY)
    assert theirs.lock()
    assert not other.lock(timeout=0)
    assert theirs.holds() == 1
    assert 20000 < plain.pttl(KEY) <= 30000


# --- python-redis-lock -----------------------------------------------------------


@pytest.mark.parametrize("wait", ["0", "10s"])
def test_signals_exclude_under_load(redis_server, start_hasp, plain, pool, wait):
    hasp = start_hasp(rule(wait=wait, pattern="lock*"))
    missing, met = contend(pool, (redis_server.address, "signal"), (hasp.address, "signal"),
                           key="jobs")
    assert (missing, met) == (0, 0)
    assert int(plain.get("contend:counter")) == 60


@EITHER_WAY
def test_signal_wakes_who_blocks_on_it_through_hasp(sides, plain, pool, way):
    """The rule's pattern has the list in it too: it is no lock, and gets no expiry but its own."""
    both = sides(rule(pattern="lock*"))
    holder, waiter = both.by(way, Signal, "jobs"), both.thru(Signal, "jobs")
    assert holder.lock()
    waiting = pool.submit(waiter.lock)
    until(lambda: int(plain.info("clients")["blocked_clients"]) == 1, "the waiter to block")
    assert holder.unlock()
    assert waiting.result()
    assert waiter.woken == 1
    assert waiter.unlock()
    assert plain.lrange(waiter.signal, 0, -1) == ["1"]
    assert 0 < plain.pttl(waiter.signal) <= Signal.SIGNAL_MS
    assert sorted(plain.keys()) == [waiter.signal]


def test_signal_is_left_for_others_when_the_lock_is_handed_down_the_line(sides, plain, pool):
    both = sides(rule(pattern="lock*", wait="10s"))
    holder, waiter = both.past(Signal, "jobs"), both.thru(Signal, "jobs")
    seconds = []
    for _ in range(3):
        holder.r = both.connect("thru")
        assert holder.lock()
        seconds.append(handover_seconds(both, pool, waiter, waiter.name, holder.unlock))
        assert waiter.woken == 0
        assert plain.lrange(waiter.signal, 0, -1) == ["1"]
    assert statistics.median(seconds) < PROMPT
