# SPDX-License-Identifier: BSD-3-Clause
"""Locks with a random value, as redis-py, redsync and python-redis-lock take them, and hasp."""

import pytest
import redis
from harness import until
from harness.interop import (EITHER_WAY, KEY, LEASE_MS, STRINGS, RLock, RedisPy, Redsync, Signal, Verbs, Watched,
                             contend, cross, hand_over, rule, verbs, warm_up)
from harness.renewal import LEASE, is_renewed


# --- the clients themselves ------------------------------------------------------


def test_contenders_without_a_lock_meet(redis_server, plain, pool):
    missing, met = contend(pool, (redis_server.address, "none"), (redis_server.address, "none"))
    assert missing == 0
    assert met > 0
    assert int(plain.get("contend:counter")) < 60


# --- releases that meet an attempt in flight -------------------------------------


def test_script_that_deletes_while_a_try_is_on_its_way_lets_it_in(sides, pool):
    both = sides(verbs("no"))
    warm_up(both, pool, KEY)
    theirs = both.thru(Redsync, KEY)
    for _ in range(3):
        assert theirs.lock()
        cross(both, KEY, theirs.unlock)


# --- redis-py's Lock, and libraries that lock as redsync -------------------------


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


@pytest.mark.parametrize("kind", [RedisPy, Redsync, Watched])
def test_set_nx_that_waits_is_handed_what_others_delete(sides, plain, pool, kind):
    both = sides(rule(wait="10s"))
    holder, waiter = both.thru(kind, KEY), both.thru(kind, KEY)
    for _ in range(3):
        assert holder.lock(timeout=0)
        hand_over(both, pool, waiter, KEY, holder.unlock)


def test_release_of_one_whose_script_redis_has_forgotten_lets_the_next_one_in(sides, plain, pool):
    both = sides(rule(wait="10s"))
    holder, waiter = both.thru(Redsync, KEY), both.thru(Redsync, KEY)
    for _ in range(3):
        assert holder.lock(timeout=0)
        plain.script_flush()
        hand_over(both, pool, waiter, KEY, holder.unlock)


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
    both = sides(rule(wait="1s", lease=LEASE))
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
def test_signal_wakes_a_client_that_blocks_on_it_through_hasp(sides, plain, pool, way):
    """The rule also matches the signal's list, which is no lock, so hasp leaves its expiry
    alone."""
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
    assert sorted(plain.keys("lock*")) == [waiter.signal]


def test_signal_is_left_for_others_when_the_lock_is_handed_down_the_line(sides, plain, pool):
    both = sides(rule(pattern="lock*", wait="10s"))
    holder, waiter = both.past(Signal, "jobs"), both.thru(Signal, "jobs")
    for _ in range(3):
        holder.r = both.connect("thru")
        assert holder.lock()
        hand_over(both, pool, waiter, waiter.name, holder.unlock)
        assert waiter.woken == 0
        assert plain.lrange(waiter.signal, 0, -1) == ["1"]
