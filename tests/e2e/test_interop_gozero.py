# SPDX-License-Identifier: BSD-3-Clause
"""go-zero's RedisLock and LOCK on the same keys; and commands that delete an awaited lock."""

import pytest
from harness.interop import (EITHER_WAY, KEY, STRINGS, GoZero, RedisPy, Redsync, Verbs, Watched, contend, hand_over,
                             verbs)


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


@STRINGS
@pytest.mark.parametrize("kind", [GoZero, Redsync, RedisPy, Watched])
def test_waiter_is_handed_what_others_through_hasp_delete(sides, plain, pool, kind, layout):
    both = sides(verbs(layout))
    theirs, ours = both.thru(kind, KEY), both.thru(Verbs, KEY)
    for _ in range(3):
        assert theirs.lock()
        hand_over(both, pool, ours, KEY, theirs.unlock)


def test_waiter_of_any_worker_is_handed_what_others_through_hasp_delete(sides, pool):
    both = sides(verbs("no"), workers=3)
    for _ in range(8):
        theirs, ours = both.thru(Redsync, KEY), both.thru(Verbs, KEY)
        assert theirs.lock()
        hand_over(both, pool, ours, KEY, theirs.unlock)


@pytest.mark.parametrize("kind", [GoZero, Redsync, RedisPy, Watched])
def test_waiter_gets_what_others_past_hasp_delete(sides, plain, pool, kind):
    """No message announces that the lock is free; hasp finds it by its next check."""
    both = sides(verbs("no"))
    theirs, ours = both.past(kind, KEY), both.thru(Verbs, KEY)
    assert theirs.lock()
    hand_over(both, pool, ours, KEY, theirs.unlock, announced=False)
