# SPDX-License-Identifier: BSD-3-Clause
"""Redisson's RLock and hasp on the same keys at the same time.

`past` talks to Redis, `thru` to hasp; either must exclude and wake clients that LOCK through hasp.
"""

import uuid

import pytest
from harness import until
from harness.interop import (EITHER_WAY, KEY, LATCH_MS, LEASE_MS, RLock, Verbs, contend, cross, hand_over, listens,
                             prefixed, rule, stands_in_line, verbs, warm_up)
from harness.renewal import LEASE
from harness.renewal import LEASE_MS as OURS_MS
from harness.renewal import is_renewed

NAMES = pytest.mark.parametrize("name", [KEY, "lock:{order}:1", "{lock}", "}lock{}"])


# --- Redisson's RLock and LOCK in the layout count -------------------------------


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
    assert waiting.result()  # a message woke it, long before the lease ended
    assert set(theirs.heard) <= {"0"}
    assert theirs.unlock() is True


def test_redisson_s_waiter_is_woken_by_the_last_unlock_alone(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    assert ours.lock() and ours.lock()
    with plain.pubsub() as messages:
        messages.subscribe(theirs.channel)
        assert messages.get_message(timeout=30)["type"] == "subscribe"
        assert ours.unlock() == 1
        waiting = pool.submit(theirs.lock)
        until(lambda: plain.pubsub_numsub(theirs.channel)[0][1] == 2, "the waiter's subscription")
        assert ours.unlock() == 1
        assert waiting.result()
        assert messages.get_message(timeout=30)["data"] == "0"
        assert messages.get_message() is None


def test_redisson_s_waiter_is_woken_when_hasp_s_line_is_empty(sides, plain, pool):
    """hasp sends Redisson's waiters no message when it hands the lock to a waiter of its own."""
    both = sides(verbs())
    theirs = both.past(RLock, KEY)
    first, second = both.thru(Verbs, KEY), both.thru(Verbs, KEY)
    assert first.lock()
    ours = pool.submit(second.lock)
    stands_in_line(plain, KEY)
    waiting = pool.submit(theirs.lock)
    until(lambda: plain.pubsub_numsub(theirs.channel)[0][1] == 2, "both clients' subscriptions")
    assert first.unlock() == 1
    assert ours.result()
    assert theirs.heard == []
    assert second.unlock() == 1
    assert waiting.result()


@EITHER_WAY
@NAMES
def test_waiter_is_handed_what_redisson_unlocks(sides, plain, pool, way, name):
    both = sides(verbs())
    theirs, ours = both.by(way, RLock, name), both.thru(Verbs, name)
    for _ in range(3):
        assert theirs.lock()
        hand_over(both, pool, ours, name, theirs.unlock, theirs.channel)


def test_waiter_is_handed_what_redisson_unlocks_by_force(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    for _ in range(3):
        assert theirs.lock()
        hand_over(both, pool, ours, KEY, theirs.force_unlock, theirs.channel)


def test_waiter_in_another_database_is_handed_what_redisson_unlocks_there(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    for client in theirs.r, ours.r, both.plain:
        client.select(3)
    for _ in range(3):
        assert theirs.lock()
        hand_over(both, pool, ours, KEY, theirs.unlock, theirs.channel)


def test_waiter_is_not_let_in_while_redisson_has_a_hold_left(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY), both.thru(Verbs, KEY)
    assert theirs.lock() and theirs.lock()
    waiting = pool.submit(ours.lock)
    stands_in_line(plain, KEY)
    assert theirs.unlock() is False
    assert theirs.try_lock() is None  # Redisson's client still has the lock
    assert (theirs.unlock(), theirs.unlock()) == (False, True)
    assert waiting.result()
    assert theirs.try_lock() > 0


def test_waiter_gets_the_lock_of_a_redisson_that_died(sides, plain, pool):
    both = sides(verbs())
    theirs, ours = both.past(RLock, KEY, lease_ms=900), both.thru(Verbs, KEY)
    assert theirs.lock()
    waiting = pool.submit(ours.lock)
    stands_in_line(plain, KEY, briefly=waiting)
    assert waiting.result()
    assert theirs.try_lock() > 0


def test_redisson_s_waiter_gets_the_lock_of_a_client_that_died(sides, plain, pool):
    both = sides(verbs(lease="3s"))
    theirs = both.past(RLock, KEY)
    with both.hasp.connect() as dead:
        assert int(dead.call("LOCK", KEY)[1:]) > 0
        waiting = pool.submit(theirs.lock)
        listens(plain, theirs.channel)
    assert waiting.result()
    assert plain.hgetall(KEY) == {theirs.field: "1"}


@EITHER_WAY
def test_unlock_that_redisson_sends_again_is_answered_the_same(sides, plain, way):
    """The lock may have another owner by then. hasp does not know the latch's key."""
    both = sides(verbs() + rule(pattern="*latch:*", owner="connection"))
    theirs, ours = both.by(way, RLock, "jobs"), both.thru(Verbs, "jobs")
    latch = prefixed("redisson_unlock_latch", "jobs") + ":1"
    assert theirs.lock()
    assert theirs.send_unlock(latch) == 1
    assert ours.lock()
    assert theirs.send_unlock(latch) == 1
    assert 0 < plain.pttl(latch) <= LATCH_MS
    assert both.connect("thru").delete(latch) == 1
    assert ours.unlock() == 1


# --- releases that meet an attempt in flight -------------------------------------


def test_redisson_s_unlock_while_a_try_is_on_its_way_lets_it_in(sides, pool):
    both = sides(verbs())
    warm_up(both, pool, KEY)
    theirs = both.past(RLock, KEY)
    for _ in range(5):
        assert theirs.lock()
        cross(both, KEY, theirs.unlock)


# --- one owner through Redisson and hasp -----------------------------------------


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
    """Yields the expiries of `keys` in turn, until the first key is gone."""
    seen = []
    until(lambda: seen.append([plain.pttl(key) for key in keys]) or seen[-1][0] < 0, "the first key to be gone")
    return zip(*seen)


def times_risen(expiry):
    return sum(after > before for before, after in zip(expiry, expiry[1:]))


@EITHER_WAY
def test_redisson_s_watchdog_leaves_our_lock_alone(sides, plain, way):
    both = sides(verbs())
    theirs, ours = both.by(way, RLock, KEY), both.thru(Verbs, KEY)
    assert ours.lock()
    assert theirs.renew() is False
    assert plain.pttl(KEY) <= LEASE_MS
    assert plain.hlen(KEY) == 1


def test_our_renewal_leaves_redisson_s_lock_alone(sides, plain):
    """Redisson's client took the lock by force, which hasp does not know. The renewal of lock:2
    shows that hasp did renew."""
    both = sides(verbs(lease=LEASE))
    theirs = both.past(RLock, KEY, lease_ms=2 * OURS_MS)
    with both.hasp.connect() as ours:
        for key in KEY, "lock:2":
            assert int(ours.call("LOCK", key)[1:]) > 0
        assert theirs.force_unlock()
        assert theirs.try_lock() is None
        left_alone, renewed = expiries(plain, KEY, "lock:2")
        assert times_risen(left_alone) == 0
        assert times_risen(renewed) > 1


def test_our_renewal_does_not_shorten_redisson_s(sides, plain):
    both = sides(verbs(lease=LEASE))
    theirs = both.past(RLock, KEY)
    with both.hasp.connect() as ours:
        for key in KEY, "lock:2":
            assert int(ours.call("LOCK", key, "AS", theirs.field)[1:]) > 0
        assert theirs.renew() is True
        assert is_renewed(plain, "lock:2")
        assert plain.pttl(KEY) > 20000


def test_both_watchdogs_keep_what_both_hold_until_the_last_is_gone(sides, plain):
    both = sides(verbs(lease=LEASE))
    theirs = both.past(RLock, KEY, lease_ms=OURS_MS)
    with both.hasp.connect() as ours:
        assert theirs.lock()
        assert int(ours.call("LOCK", KEY, "AS", theirs.field)[1:]) > 0
        assert is_renewed(plain, KEY)
        assert theirs.unlock() is False
        assert is_renewed(plain, KEY)
        assert theirs.renew() is True  # Redisson's client still has a hold
        assert ours.call("UNLOCK", KEY, "AS", theirs.field) == b":1\r\n"
    assert theirs.renew() is False
