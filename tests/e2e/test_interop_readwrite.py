# SPDX-License-Identifier: BSD-3-Clause
"""Redisson's RReadWriteLock and hasp's SHARED and EXCLUSIVE on the same keys at the same time.

`past` talks to Redis, `thru` to hasp; either must exclude and wake clients that LOCK through hasp.
"""

import pytest
from harness import until
from harness.interop import (EITHER_WAY, KEY, LATCH_MS, LEASE_MS, ReadSide, Verbs, WriteSide, contend, hand_over,
                             listens, prefixed, stands_in_line, ticking, verbs)

NAMES = pytest.mark.parametrize("name", [KEY, "lock:{order}:1", "{lock}", "}lock{}"])
THEIRS = pytest.mark.parametrize("theirs_kind", [ReadSide, WriteSide])
SHARED, EXCLUSIVE = "SHARED", "EXCLUSIVE"


def test_both_exclude_each_other_under_load(redis_server, start_hasp, plain, pool):
    hasp = start_hasp(verbs())
    apps = [(redis_server.address, "write-side"), (redis_server.address, "read-side"),
            (hasp.address, "exclusive"), (hasp.address, "shared")]
    missing, met = contend(pool, *apps)
    assert (missing, met) == (0, 0)
    assert int(plain.get("contend:counter")) == 2 * 15 * 2


@EITHER_WAY
@NAMES
def test_writer_excludes_both_sides_of_the_other(sides, way, name):
    both = sides(verbs())
    theirs = {kind: both.by(way, kind, name) for kind in (ReadSide, WriteSide)}
    ours = {side: both.thru(Verbs, name, side=side) for side in (SHARED, EXCLUSIVE)}
    assert ours[EXCLUSIVE].lock()
    for side in theirs.values():
        assert side.try_lock() > 0
        assert side.unlock() is None
    assert ours[EXCLUSIVE].unlock() == 1
    assert theirs[WriteSide].try_lock() is None
    for side in ours.values():
        assert side.lock(timeout=0) is None
        assert side.unlock() == 0
    assert theirs[WriteSide].unlock() is True
    assert ours[EXCLUSIVE].lock(timeout=0)


@EITHER_WAY
@NAMES
@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_readers_of_both_read_together(sides, plain, way, name, first):
    both = sides(verbs())
    theirs, ours = both.by(way, ReadSide, name), both.thru(Verbs, name, side=SHARED)
    their_writer, our_writer = both.by(way, WriteSide, name), both.thru(Verbs, name, side=EXCLUSIVE)

    def nobody_writes():
        return their_writer.try_lock() > 0 and our_writer.lock(timeout=0) is None

    assert theirs.try_lock() is None and ours.lock() and theirs.try_lock() is None
    assert nobody_writes()
    if first == "ours":
        assert ours.unlock() == 1 and nobody_writes()
        assert theirs.unlock() is False and nobody_writes()
        assert theirs.unlock() is True
    else:
        assert theirs.unlock() is False and theirs.unlock() is False and nobody_writes()
        assert ours.unlock() == 1
    assert set(plain.keys()) == {"hasp:fence"}
    assert our_writer.lock(timeout=0)


def test_their_unlock_keeps_our_lease_and_ours_keeps_theirs(sides, plain):
    both = sides(verbs())
    theirs, ours = both.past(ReadSide, KEY, lease_ms=900000), both.thru(Verbs, KEY, side=SHARED)
    assert ours.lock() and theirs.try_lock() is None
    assert ours.unlock() == 1
    assert plain.pttl(KEY) > LEASE_MS * 10
    assert ours.lock()
    assert theirs.unlock() is False
    assert LEASE_MS / 2 < plain.pttl(KEY) <= LEASE_MS


def test_their_renewal_keeps_what_we_hold(sides, plain):
    both = sides(verbs())
    theirs, ours = both.past(ReadSide, KEY, lease_ms=60000), both.thru(Verbs, KEY, side=SHARED)
    assert ours.lock() and theirs.try_lock() is None
    assert theirs.renew()
    assert ours.unlock() == 1
    assert plain.pttl(KEY) > 50000
    assert theirs.unlock() is True
    writer = both.past(WriteSide, KEY)
    assert writer.try_lock() is None and writer.renew()
    assert ours.lock(timeout=0) is None


@EITHER_WAY
@pytest.mark.parametrize("theirs_kind, side, told", [(ReadSide, EXCLUSIVE, "1"), (WriteSide, SHARED, "0"),
                                                     (WriteSide, EXCLUSIVE, "1")])
def test_redisson_s_waiter_is_woken_by_unlock(sides, plain, pool, way, side, told, theirs_kind):
    both = sides(verbs())
    theirs, ours = both.by(way, theirs_kind, KEY), both.thru(Verbs, KEY, side=side)
    assert ours.lock()
    waiting = pool.submit(theirs.lock)
    listens(plain, theirs.channel)
    assert ours.unlock() == 1
    assert waiting.result()  # a message woke it, long before the lease ended
    assert set(theirs.heard) <= {told}
    assert theirs.unlock() is True


def test_redisson_s_readers_are_woken_when_our_writer_steps_down(sides, plain, pool):
    both = sides(verbs())
    theirs = both.past(ReadSide, KEY)
    ours = both.thru(Verbs, KEY, side=EXCLUSIVE)
    assert ours.lock() and ours.r.execute_command("LOCK", KEY, SHARED)
    waiting = pool.submit(theirs.lock)
    listens(plain, theirs.channel)
    assert ours.unlock() == 1
    assert waiting.result()
    assert ours.unlock() == 1 and theirs.unlock() is True


def test_redisson_s_waiter_is_not_told_while_one_of_ours_waits(sides, plain, pool):
    both = sides(verbs())
    theirs = both.past(WriteSide, KEY)
    first, second = (both.thru(Verbs, KEY, side=EXCLUSIVE) for _ in range(2))
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
@pytest.mark.parametrize("theirs_kind, side", [(ReadSide, EXCLUSIVE), (WriteSide, SHARED), (WriteSide, EXCLUSIVE)])
def test_waiter_is_handed_what_redisson_unlocks(sides, plain, pool, way, theirs_kind, side):
    both = sides(verbs())
    theirs, ours = both.by(way, theirs_kind, KEY), both.thru(Verbs, KEY, side=side)
    with ticking(both):
        for _ in range(3):
            assert theirs.lock()
            hand_over(both, pool, ours, KEY, theirs.unlock, theirs.channel)


@THEIRS
def test_waiter_is_handed_what_redisson_unlocks_by_force(sides, plain, pool, theirs_kind):
    both = sides(verbs())
    theirs, ours = both.past(theirs_kind, KEY), both.thru(Verbs, KEY, side=EXCLUSIVE)
    assert theirs.lock()
    with ticking(both):
        hand_over(both, pool, ours, KEY, theirs.force_unlock, theirs.channel)


def test_readers_in_line_join_when_redisson_s_writer_steps_down(sides, plain, pool):
    """Redisson sends no message, so the readers learn of it by the check each second."""
    both = sides(verbs())
    writer = both.past(WriteSide, KEY)
    reader = both.past(ReadSide, KEY)
    reader.field = writer.field
    reader.timeouts = f"{reader.prefix}:{reader.field}:rwlock_timeout"
    assert writer.try_lock() is None and reader.try_lock() is None
    ours = both.thru(Verbs, KEY, side=SHARED)
    waiting = pool.submit(ours.lock)
    stands_in_line(plain, KEY)
    assert writer.unlock() is True
    assert waiting.result()
    assert reader.unlock() is False and ours.unlock() == 1


def test_an_unlock_that_redisson_sends_again_is_answered_the_same(sides, plain):
    both = sides(verbs())
    theirs, ours = both.thru(ReadSide, KEY), both.thru(Verbs, KEY, side=SHARED)
    latch = f"{prefixed('redisson_unlock_latch', KEY)}:1"
    assert theirs.try_lock() is None and ours.lock()
    assert theirs.send_unlock(latch) == 0
    assert 0 < plain.pttl(latch) <= LATCH_MS
    assert ours.unlock() == 1
