# SPDX-License-Identifier: BSD-3-Clause
"""Waiters at a node of a cluster where their worker has not subscribed yet."""

import pytest
from harness import until
from harness.script_queue import (OTHERS, QUEUE, SECOND, Workers, ask, assert_holder, expire_now, give_back, kinds,
                                  own_token, place_in, value_of)
from harness.scripts import KEY, ME, WORKER

AWAY = "n0000000000000dd"


def tickets(world):
    return [entry.split(b" ")[0].decode() for entry in world.db.zrange(QUEUE, 0, -1)]


def look(world, kind, token, ticket, place):
    return world.poll(kind, own_token(kind, token), ticket, place, value_of(token))[0]


def line(world, kind, *workers):
    """ME takes the lock, and a client of each worker waits. Returns the waiters' places."""
    ask(world, kind, ME)
    return [place_in(ask(world, kind, OTHERS[n], ticket=f"{worker}-{n}")) for n, worker in enumerate(workers)]


@kinds
def test_a_worker_that_comes_late_finds_its_waiters_in_their_places(world, workers, server, kind):
    places = line(world, kind, AWAY, WORKER, AWAY)
    assert give_back(world, kind, ME) == 1
    assert workers.told() == [] and not world.db.exists(KEY)
    assert tickets(world) == [f"{AWAY}-0", f"{WORKER}-1", f"{AWAY}-2"]
    # Neither waiters behind the first one nor newcomers overtake it.
    assert look(world, kind, OTHERS[1], f"{WORKER}-1", places[1]) == "queued"
    assert place_in(ask(world, kind, OTHERS[3], ticket=f"{WORKER}-3")) > places[2]
    late = Workers(server, AWAY)
    assert look(world, kind, OTHERS[1], f"{WORKER}-1", places[1]) == "queued"
    assert [ticket for ticket, _ in late.told()] == [f"{AWAY}-0"]
    late.c.close()
    assert_holder(world, kind, OTHERS[0])
    assert tickets(world) == [f"{WORKER}-1", f"{AWAY}-2", f"{WORKER}-3"]


def awaited_for_long(world):
    """Makes the queue look as if the first waiter had been notified four seconds ago."""
    (first, place), = world.db.zrange(QUEUE, 0, 0, withscores=True)
    fields = first.split(b" ")
    assert int(fields[2]) > 1e12
    fields[2] = b"%d" % (int(fields[2]) - 4000)
    world.db.zrem(QUEUE, first)
    world.db.zadd(QUEUE, {b" ".join(fields): place})


@kinds
def test_a_worker_that_does_not_come_is_forgotten_with_all_its_waiters(world, workers, kind):
    places = line(world, kind, AWAY, AWAY, WORKER, AWAY, SECOND)
    assert give_back(world, kind, ME) == 1
    awaited_for_long(world)
    assert look(world, kind, OTHERS[2], f"{WORKER}-2", places[2]) == "granted"
    assert_holder(world, kind, OTHERS[2])
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-2"]
    assert tickets(world) == [f"{SECOND}-4"]


@kinds
def test_waiter_that_has_waited_long_enough_is_not_waited_for(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], ticket=f"{AWAY}-0", wait=1)
    place = place_in(ask(world, kind, OTHERS[1], ticket=f"{WORKER}-1"))
    expire_now(world)
    until(lambda: look(world, kind, OTHERS[1], f"{WORKER}-1", place) != "queued", "the first waiter's time to end")
    assert_holder(world, kind, OTHERS[1])
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1"]


def test_waiters_of_the_owner_behind_it_join_when_it_has_come(world, workers, server):
    """With reentrant = count, all waiters of one owner get the lock together."""
    ask(world, "h", ME)
    first = place_in(ask(world, "h", OTHERS[0], ticket=f"{WORKER}-0"))
    ask(world, "h", OTHERS[0], ticket=f"{AWAY}-1")
    assert give_back(world, "h", ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-0"]
    assert tickets(world) == [f"{AWAY}-1"]
    late = Workers(server, AWAY)
    assert look(world, "h", OTHERS[0], f"{WORKER}-0", first) == "granted"
    assert [ticket for ticket, _ in late.told()] == [f"{AWAY}-1"]
    late.c.close()
    assert world.db.hgetall(KEY) == {OTHERS[0].encode(): b"2"}


@pytest.mark.parametrize("number", ["00000000000000dd", "c0000000000000dd"])
def test_a_worker_that_listens_to_one_server_is_passed_over_at_once(world, workers, number):
    line(world, "s", number, WORKER)
    assert give_back(world, "s", ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1"]
