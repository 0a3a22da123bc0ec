# SPDX-License-Identifier: BSD-3-Clause
"""Scripts ignore entries of a queue that no script of the same hasp process has written. Entries of
another process look the same as forged ones."""

import pytest
from harness.script_queue import (DEAF, OTHERS, QUEUE, SECOND, ask, assert_holder, entry, expire_now, give_back,
                                  kinds, own_token, place_in, proof, value_of)
from harness.scripts import FENCE, KEY, ME, OTHER, SIDE, WORKER, parse

LATER = 9999999999999
TERMS = {kind: f"{LATER} {kind} 30000 0 {'-' if kind == 'v' else OTHER} "
         f"{'1' if kind == 'l' else value_of(OTHER)}" for kind in "hsrvl"}


def redis_ms(world):
    seconds, micros = world.db.time()
    return seconds * 1000 + micros // 1000


def messages(workers):
    """Returns all messages to the workers since the last call."""
    told = []
    workers.c.send(b"*2\r\n$4\r\nPING\r\n$3\r\nall\r\n")
    while (frame := parse(workers.c.read()))[0] == "message":
        told.append(frame[2])
    return told


def put(world, queued, place=1):
    world.db.zadd(QUEUE, {queued: place})
    return queued


FORGED = {
    "no proof": lambda terms: f"{WORKER}-7 0 0 {terms}",
    "by another secret": lambda terms: entry(f"{WORKER}-7", terms, secret="guessed"),
    "of another lock": lambda terms: entry(f"{WORKER}-7", terms, key="lock:2"),
    "of another waiter": lambda terms: entry(f"{WORKER}-6", terms).replace(f"{WORKER}-6 ", f"{WORKER}-7 "),
    "of other terms": lambda terms: entry(f"{WORKER}-7", terms).replace(" 30000 ", " 90000 "),
    "of a grant": lambda terms: f"{WORKER}-7 {proof('grant', f'{WORKER}-7 {terms}')} 0 {terms}",
}


@kinds
@pytest.mark.parametrize("how", FORGED)
def test_what_a_forged_entry_asks_for_is_not_written(world, workers, kind, how):
    ask(world, kind, ME)
    put(world, FORGED[how](TERMS[kind]))
    assert give_back(world, kind, ME) == 1
    assert messages(workers) == [f"{WORKER}-7 look"]
    assert not world.db.exists(KEY, SIDE, FENCE)
    assert world.db.zcard(QUEUE) == 1
    place = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-8"))
    assert world.poll(kind, own_token(kind, OTHERS[0]), f"{WORKER}-8", place, value_of(OTHERS[0]))[0] == "queued"
    assert not world.db.exists(KEY, SIDE, FENCE)
    assert messages(workers) == []


@kinds
def test_an_entry_that_does_not_come_when_it_is_woken_is_passed_over(world, workers, kind):
    ask(world, kind, ME)
    late = entry(f"{SECOND}-7", TERMS[kind], woken=redis_ms(world) - 3001, secret="another process'")
    put(world, late)
    ask(world, kind, OTHERS[0], ticket=f"{WORKER}-8")
    assert give_back(world, kind, ME) == 1
    assert [told.split(" ")[0] for told in messages(workers)] == [f"{WORKER}-8"]
    assert_holder(world, kind, OTHERS[0])
    assert not world.db.exists(QUEUE)


@kinds
@pytest.mark.parametrize("n", [3, 200])
def test_a_worker_that_does_not_come_when_it_is_woken_is_passed_over_with_all_its_waiters(world, workers, kind, n):
    ask(world, kind, ME)
    for i in range(n):
        woken = redis_ms(world) - 3001 if i == 0 else 0
        put(world, entry(f"{SECOND}-{i}", TERMS[kind], woken=woken, secret="another process'"), place=i + 1)
    place = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    assert give_back(world, kind, ME) == 1
    while world.db.zcard(QUEUE):  # one call removes at most 64 entries
        before = world.db.zcard(QUEUE)
        world.poll(kind, own_token(kind, OTHERS[0]), f"{WORKER}-1", place, value_of(OTHERS[0]))
        assert world.db.zcard(QUEUE) < before
    assert [told.split(" ")[0] for told in messages(workers)] == [f"{WORKER}-1"]
    assert_holder(world, kind, OTHERS[0])


@kinds
def test_an_entry_cannot_say_that_it_will_be_woken_one_day(world, workers, kind):
    ask(world, kind, ME)
    put(world, entry(f"{SECOND}-7", TERMS[kind], woken=LATER, secret="another process'"))
    ask(world, kind, OTHERS[0], ticket=f"{WORKER}-8")
    assert give_back(world, kind, ME) == 1
    assert [told.split(" ")[0] for told in messages(workers)] == [f"{WORKER}-8"]


@kinds
def test_an_entry_of_another_process_that_is_gone_is_passed_over(world, workers, kind):
    ask(world, kind, ME)
    put(world, entry(f"{DEAF}-7", TERMS[kind], secret="another process'"))
    ask(world, kind, OTHERS[0], ticket=f"{WORKER}-8")
    assert give_back(world, kind, ME) == 1
    assert [told.split(" ")[0] for told in messages(workers)] == [f"{WORKER}-8"]


@kinds
def test_an_entry_keeps_its_place_and_its_time_when_it_is_woken(world, workers, kind):
    ask(world, kind, ME)
    put(world, entry(f"{SECOND}-7", TERMS[kind], secret="another process'"), place=17)
    world.db.pexpire(QUEUE, 50000)
    give_back(world, kind, ME)
    assert messages(workers) == [f"{SECOND}-7 look"]
    [(queued, place)] = world.db.zrange(QUEUE, 0, -1, withscores=True)
    ticket, seal, woken, terms = queued.decode().split(" ", 3)
    assert (ticket, terms, place) == (f"{SECOND}-7", TERMS[kind], 17)
    assert seal == proof("entry", f"{ticket} {terms}", secret="another process'")
    assert 0 <= redis_ms(world) - int(woken) < 60000
    assert 0 < world.db.pttl(QUEUE) <= 50000


@kinds
def test_waiter_that_leaves_hands_off_what_was_kept_free_for_it(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-7"))
    ask(world, kind, OTHERS[0], ticket=f"{WORKER}-8")
    expire_now(world)
    assert world.dequeue(kind, own_token(kind, OTHER), f"{WORKER}-7", place, "undo", value_of(OTHER))[0] == "left"
    assert [told.split(" ")[0] for told in messages(workers)] == [f"{WORKER}-8"]
    assert_holder(world, kind, OTHERS[0])


@kinds
def test_a_grant_is_published_with_its_proof(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHER, ticket=f"{WORKER}-7")
    give_back(world, kind, ME)
    [told] = messages(workers)
    text, _, seal = told.rpartition(" ")
    assert seal == proof("grant", text)


def test_of_one_owner_by_two_processes_the_other_is_woken_and_joins(world, workers):
    ask(world, "h", ME)
    first = place_in(ask(world, "h", OTHER, ticket=f"{WORKER}-7"))
    put(world, entry(f"{SECOND}-8", TERMS["h"], secret="another process'"), place=first + 1)
    assert give_back(world, "h", ME) == 1
    grant, woken = messages(workers)
    ticket, fence, _ = grant.split(" ", 2)
    assert ticket == f"{WORKER}-7" and woken == f"{SECOND}-8 look"
    assert world.db.hget(KEY, OTHER) == b"1"
    # The other process polls: its waiter is the first, and the waiter's owner has the lock already.
    world.db.delete(QUEUE)
    put(world, entry(f"{SECOND}-8", f"{LATER} h 30000 0 {OTHER} "), place=first + 1)
    world.poll("h", OTHER, f"{SECOND}-8", first + 1)
    assert messages(workers)[0].startswith(f"{SECOND}-8 {fence} ")
    assert world.db.hget(KEY, OTHER) == b"2"
    assert not world.db.exists(QUEUE)
