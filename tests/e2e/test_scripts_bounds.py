# SPDX-License-Identifier: BSD-3-Clause
"""Scripts do only bounded work, however many clients wait for a lock or read under it."""

import functools

import pytest
from harness.script_queue import (DEAF, OTHERS, QUEUE, ask, entry, give_back, kinds, own_token, place_in, value_of)
from harness.scripts import KEY, ME, OTHER, WORKER, parse
from test_scripts_nodes import AWAY, awaited_for_long

CROWD = 200
MOST = 64  # the most waiters that one call removes or serves, and the most readers that it checks
COMMANDS = 20 * MOST  # the most Redis commands that one call of a script runs
LOOKS = 3 * MOST  # the most commands of a call that checks readers


@pytest.fixture
def bounded(world):
    """bounded(function, ...) fails if Redis ran more than `most` commands for the call."""

    def run(what, *args, most=COMMANDS, **options):
        world.db.config_resetstat()
        result = what(*args, **options)
        stats = world.db.info("commandstats")
        assert sum(s["calls"] for s in stats.values()) <= most
        return result

    return run


def name(n):
    return f"10.0.0.9:{n}/0/beef{n}"


def side(world, verb, *args, token, **options):
    return parse(world.verb(verb, KEY, *args, token=token, **options))


def crowd(world, kind, worker, owner=name):
    for n in range(CROWD):
        place_in(ask(world, kind, owner(n), ticket=f"{worker}-{n}"))


def until_granted(bounded, world, kind, token, place):
    """hasp polls again at once as long as one call cannot remove all absent waiters."""
    look = kind, own_token(kind, token), f"{WORKER}-0", place, value_of(token)
    while (answer := bounded(world.poll, *look))[0] != "granted":
        assert answer[:2] == ["queued", 0]


@kinds
def test_waiters_of_a_dead_worker_are_removed_in_several_calls(world, workers, bounded, kind):
    ask(world, kind, ME)
    crowd(world, kind, DEAF)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-0"))
    assert bounded(give_back, world, kind, ME) == 1
    assert CROWD - MOST <= world.db.zcard(QUEUE) - 1 < CROWD
    # A newcomer does not pass the waiters that are still in the queue.
    assert not bounded(ask, world, kind, OTHERS[0], wait=0) and not world.db.exists(KEY)
    until_granted(bounded, world, kind, OTHER, place)
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-0"]
    assert not world.db.exists(QUEUE)


@kinds
def test_waiters_of_a_worker_that_a_cluster_has_lost_are_removed_in_several_calls(world, workers, bounded, kind):
    ask(world, kind, ME)
    crowd(world, kind, AWAY)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-0"))
    assert bounded(give_back, world, kind, ME) == 1
    assert world.db.zcard(QUEUE) == CROWD + 1
    awaited_for_long(world)
    # hasp waits once for the worker, not once for each 64 of its waiters.
    until_granted(bounded, world, kind, OTHER, place)
    assert not world.db.exists(QUEUE)


@pytest.mark.parametrize("kind", "hm")
def test_waiters_that_may_have_the_lock_together_get_it_in_several_calls(world, workers, bounded, kind):
    if kind == "h":
        ask(world, kind, ME)
        crowd(world, kind, WORKER, lambda n: OTHER)
        assert bounded(give_back, world, kind, ME) == 1
    else:
        side(world, "LOCK", "EXCLUSIVE", token=ME)
        for n in range(CROWD):
            side(world, "LOCK", "WAIT", 5000, "SHARED", token=name(n), may_wait=5000, ticket=f"{WORKER}-{n}")
        assert bounded(side, world, "UNLOCK", token=ME) == 1
    granted = []
    while world.db.zcard(QUEUE):
        *grants, (next_one, word) = workers.told()
        assert word == "look" and next_one == f"{WORKER}-{len(granted) + len(grants)}"
        granted += grants
        (_, place), = world.db.zrange(QUEUE, 0, 0, withscores=True)
        owner = OTHER if kind == "h" else name(len(granted))
        bounded(world.poll, kind, owner, next_one, int(place))
    granted += workers.told()
    assert [ticket for ticket, _ in granted] == [f"{WORKER}-{n}" for n in range(CROWD)]
    assert "look" not in (word for _, word in granted)


def test_try_whose_place_is_not_known_is_searched_for_from_when_it_was_sent(world):
    ask(world, "h", ME)
    seconds, micros = world.db.time()
    long_ago = seconds * 1000000 + micros - 60000000
    world.db.zadd(QUEUE, {entry(f"{DEAF}-{n}", f"9999999999999 h 1000 0 {OTHER} "): long_ago + n for n in range(1000)})
    place_in(ask(world, "h", OTHER, ticket=f"{WORKER}-1"))
    # The script has not found the entry, so it did not search the whole queue.
    assert world.dequeue("h", OTHER, f"{WORKER}-1", -1, age=60500)[0] == "gone"
    assert world.dequeue("h", OTHER, f"{DEAF}-200", -1, age=60000)[0] == "left"
    assert world.dequeue("h", OTHER, f"{WORKER}-1", -1, age=30000)[0] == "left"
    assert world.db.zcard(QUEUE) == 999


def readers(world, ended=0):
    """200 readers take the lock; the first `ended` leases end. Redis scans small hashes at once."""
    world.db.config_set("hash-max-listpack-entries", 16)
    for n in range(CROWD):
        side(world, "LOCK", "SHARED", token=name(n))
    for n in range(ended):
        assert world.db.delete(f"{{{KEY}}}:{name(n)}:rwlock_timeout:1")


def test_readers_are_counted_but_not_all_are_looked_at(world, bounded):
    readers(world)
    told = bounded(side, world, "INFO", token=ME, most=LOOKS)
    told = dict(zip(told[::2], told[1::2], strict=True))
    assert (told["mode"], told["readers"]) == ("read", CROWD)
    assert told["owner"].startswith("10.0.0.9:")


@pytest.mark.parametrize("what", [("EXTEND", "PX", 1000), ("EXTEND", "PX", 60000), ("UNLOCK",)])
def test_reader_does_not_look_at_all_others(world, bounded, what):
    readers(world)
    side(world, "EXTEND", "PX", 90000, token=name(7))
    assert bounded(side, world, *what, token=name(7), most=LOOKS) == 1
    assert not bounded(side, world, "LOCK", "EXCLUSIVE", token=ME, most=LOOKS)
    assert 0 < world.db.pttl(KEY) <= 90000


@pytest.mark.parametrize("holds", ["9007199254740993", "inf", "nan", "-1"])
def test_absurd_count_of_holds_does_not_keep_redis_busy(world, bounded, holds):
    side(world, "LOCK", "SHARED", token=ME)
    world.db.hset(KEY, ME, holds)
    for what in ("EXTEND", "PX", 60000), ("INFO",), ("LOCK", "SHARED"), ("EXTEND", "PX", 1000), ("UNLOCK",):
        bounded(side, world, *what, token=ME, most=CROWD * 20)


def test_readers_whose_time_is_over_are_removed_in_several_calls(world, workers, bounded):
    readers(world, ended=CROWD)
    assert side(world, "INFO", token=ME)
    wait = functools.partial(side, world, "LOCK", "WAIT", 5000, "EXCLUSIVE", token=ME, may_wait=5000)
    place = place_in(bounded(wait, ticket=f"{WORKER}-0"))
    until_granted(bounded, world, "x", ME, place)
    assert world.db.hkeys(KEY) == [b"mode", f"{ME}:write".encode()]


def test_owners_whose_places_are_over_go_at_once(world, bounded):
    for n in range(CROWD):
        side(world, "LOCK", "LIMIT", CROWD, token=name(n))
    assert world.db.zadd(KEY, {name(n): 1 for n in range(CROWD)}, xx=True, ch=True) == CROWD
    assert bounded(side, world, "LOCK", "LIMIT", 1, token=ME)
    assert world.db.zrange(KEY, 0, -1) == [ME.encode()]
