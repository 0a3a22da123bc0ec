# SPDX-License-Identifier: BSD-3-Clause
"""Fencing tokens: the last token plus one, or Redis' clock in microseconds if that is greater."""

import pytest
from harness.script_queue import OTHERS, WORKER, ask, assert_record, give_back
from harness.scripts import calls  # noqa: F401: a fixture for all tests here
from harness.scripts import FENCE, KEY, LOCK_LAYOUTS, ME, OTHER, bulk, each

COUNTER = "hasp:fence"
SPOILED = b"-ERR 'hasp:fence' is not an integer below 2^53 - 1\r\n"
verbs = pytest.mark.parametrize("kind", "hs")


def clock(world):
    """Returns Redis' clock in microseconds."""
    seconds, microseconds = world.db.time()
    return seconds * 10**6 + microseconds


def lock(world, layout="count", **options):
    return int(world.verb("LOCK", KEY, layout=layout, **options)[1:])


@each(layout=LOCK_LAYOUTS, last=[None, 0, 1, 41300, 10**15])
def test_token_is_redis_clock_where_the_last_one_is_smaller(world, layout, last):
    """The last token is smaller after FLUSHALL or a failover, or if an old hasp counted from 1."""
    if last is not None:
        world.db.set(COUNTER, last)
    before = clock(world)
    assert before <= lock(world, layout) <= clock(world)
    assert world.db.ttl(COUNTER) == -1


@each(layout=LOCK_LAYOUTS, last=[2**52, 2**53 - 3])
def test_token_is_one_more_than_the_last_one_where_that_is_ahead_of_the_clock(world, layout, last):
    """The last token is greater if, for example, the clock was set back."""
    world.db.set(COUNTER, last)
    assert lock(world, layout) == last + 1 == world.fence()


@verbs
@pytest.mark.parametrize("ahead", [False, True])
def test_token_of_a_hand_off_rises_too(world, workers, kind, ahead):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1")
    last = 5 * 10**15 if ahead else 0
    world.db.set(COUNTER, last)
    before = clock(world)
    assert give_back(world, kind, ME) == 1
    assert workers.told() == [(f"{WORKER}-1", str(world.fence()))]
    assert_record(world, kind, OTHERS[0], f"{WORKER}-1")
    assert world.fence() == last + 1 if ahead else before <= world.fence() <= clock(world)


@each(layout=LOCK_LAYOUTS, last=[123_456_789_012_345_6, 2**53 - 2])
def test_every_digit_of_a_token_is_kept(world, layout, last):
    world.db.set(COUNTER, last)
    token = lock(world, layout, ticket="w-1")
    assert token == world.fence() and world.db.get(COUNTER) == b"%d" % token
    assert world.db.get(FENCE) == f"{ME} {token} w-1".encode()
    for resp in (2, 3):
        assert bulk("fence") + b":%d\r\n" % token in world.verb("INFO", KEY, layout=layout, resp=resp)
    if layout != "no":
        assert lock(world, layout, ticket="w-2") == token
    if layout == "count":
        assert world.db.zrange("hasp:owner:{lock:1}", 0, -1) == [b"%d w-2" % token]
    kind = "h" if layout == "count" else "s"
    assert world.renew((kind, KEY, ME, 60000, token - 1), (kind, KEY, ME, 60000, token)) == [-2, 1]
    assert world.release(kind, KEY, ME) == 1


@each(layout=LOCK_LAYOUTS, last=["x", "", "-1", "1.5", "1e3", "0x10", "nan", 2**53 - 1, 2**53, 2**63 - 1, 2**64])
def test_spoiled_counter_takes_no_lock(world, layout, last):
    """Lua's numbers are not exact beyond 2^53, so the script refuses such a counter."""
    world.db.set(COUNTER, last)
    before = world.dump()
    assert world.verb("LOCK", KEY, layout=layout) == SPOILED
    assert world.dump() == before


@each(layout=LOCK_LAYOUTS)
def test_counter_of_another_type_takes_no_lock(world, layout):
    world.db.rpush(COUNTER, "x")
    assert world.verb("LOCK", KEY, layout=layout).startswith(b"-WRONGTYPE ")
    assert world.db.keys() == [COUNTER.encode()]


@verbs
def test_spoiled_counter_hands_no_lock_off(world, workers, kind):
    """The lock stays free for the waiter until an operator repairs the counter."""
    ask(world, kind, ME)
    ask(world, kind, OTHER, ticket=f"{WORKER}-1")
    world.db.set(COUNTER, "x")
    assert give_back(world, kind, ME) == 1
    assert workers.told() == [] and not world.db.exists(KEY, FENCE)
    world.db.delete(COUNTER)
    world.poll(kind, OTHER, f"{WORKER}-1", 0)
    assert workers.told() == [(f"{WORKER}-1", str(world.fence()))]
