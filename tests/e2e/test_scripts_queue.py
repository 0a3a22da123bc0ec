# SPDX-License-Identifier: BSD-3-Clause
"""Locks with waiters: queues, and how scripts hand a lock off."""

import pytest
from harness import Connection
from harness.script_forms import TAKES
from harness.script_queue import (DEAF, OTHERS, QUEUE, RULES, SECOND, ask, assert_holder, assert_joined,
                                  assert_nothing_left, assert_record, entry, entry_value, expire_now, give_back, kinds,
                                  own_token, place_in, until_redis_time, value_of)
from harness.scripts import calls  # noqa: F401: a fixture for all tests here
from harness.scripts import FENCE, KEY, LEASE, ME, OTHER, OWNERS_RESPS, SIDE, STATES, WORKER, at, each


@kinds
def test_client_that_finds_the_lock_taken_stands_in_line(world, kind):
    ask(world, kind, ME, ticket=f"{WORKER}-1")
    assert_holder(world, kind, ME)
    assert_record(world, kind, ME, f"{WORKER}-1")
    before = world.dump()
    reply = ask(world, kind, OTHER, ticket=f"{WORKER}-2", lease=7000, wait=5000)
    now = int(reply.split(" ")[2])
    assert world.is_left(int(reply.split(" ")[3]), LEASE)
    assert world.last.wait_ms == 5000 and world.last.kind == kind
    queued = entry(f"{WORKER}-2", f"{now + 5000} {kind} 7000 0 {'-' if kind == 'v' else OTHER} " +
                   entry_value(kind, OTHER))
    assert world.db.zrange(QUEUE, 0, -1, withscores=True) == [(queued.encode(), place_in(reply))]
    assert place_in(reply) // 1000 == now
    assert world.is_left(world.db.pttl(QUEUE), 7000)
    world.db.delete(QUEUE)
    assert world.dump() == before


@kinds
def test_client_that_does_not_wait_is_refused_and_stands_nowhere(world, kind):
    ask(world, kind, ME)
    before = world.dump()
    assert ask(world, kind, OTHER, wait=0) is None
    if kind in RULES:
        assert ask(world, kind, OTHER, wait=0, argv=["SETNX", KEY, "v"]) == 0
    assert world.dump() == before


@kinds
def test_a_release_hands_off_to_the_first_in_line(world, workers, kind):
    ask(world, kind, ME)
    for n, token in enumerate(OTHERS[:3]):
        place_in(ask(world, kind, token, ticket=f"{WORKER}-{n}", lease=7000 + n))
    before = ME
    for n, token in enumerate(OTHERS[:3]):
        assert give_back(world, kind, before) == 1
        fence = "-" if kind in RULES else str(world.fence())
        assert workers.told() == [(f"{WORKER}-{n}", fence)]
        assert_holder(world, kind, token, 7000 + n)
        assert_record(world, kind, token, f"{WORKER}-{n}")
        assert world.db.zcard(QUEUE) == 2 - n
        assert give_back(world, kind, before) == 0
        before = token
    assert give_back(world, kind, before) == 1
    assert workers.told() == []
    assert_nothing_left(world)


@kinds
def test_hasps_own_release_hands_off_too(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHER, ticket=f"{SECOND}-2")
    assert world.release(kind, KEY, own_token(kind, ME)) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{SECOND}-2"]
    assert_holder(world, kind, OTHER)
    assert world.release(kind, KEY, own_token(kind, OTHER)) == 1
    assert_nothing_left(world)


def test_a_counted_lock_is_handed_off_with_its_last_hold(world, workers):
    ask(world, "h", ME)
    ask(world, "h", ME)
    ask(world, "h", OTHER, ticket=f"{WORKER}-3")
    assert give_back(world, "h", ME) == 1
    assert workers.told() == []
    assert give_back(world, "h", ME) == 1
    assert workers.told() == [(f"{WORKER}-3", str(world.fence()))]


def test_a_counted_lock_lets_in_all_of_one_owner_that_wait_together(world, workers):
    ask(world, "h", ME)
    for n, token in enumerate([OTHER, OTHER, OTHERS[0], OTHER]):
        ask(world, "h", token, ticket=f"{WORKER}-{n}")
    assert give_back(world, "h", ME) == 1
    assert workers.told() == [(f"{WORKER}-{n}", str(world.fence())) for n in (0, 1)]
    assert world.db.hgetall(KEY) == {OTHER.encode(): b"2"}
    assert_record(world, "h", OTHER, f"{WORKER}-0")
    assert_joined(world, f"{WORKER}-1")
    assert world.db.zcard(QUEUE) == 2
    assert give_back(world, "h", OTHER) == give_back(world, "h", OTHER) == 1
    assert workers.told() == [(f"{WORKER}-2", str(world.fence()))]


def test_of_one_owners_waiters_only_those_count_that_are_there(world, workers):
    ask(world, "h", ME)
    for n, worker in enumerate([DEAF, WORKER, DEAF, SECOND, "00000000000000de"]):
        ask(world, "h", OTHER, ticket=f"{worker}-{n}", lease=7000 if worker in (WORKER, SECOND) else 100)
    assert give_back(world, "h", ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1", f"{SECOND}-3"]
    assert world.db.hgetall(KEY) == {OTHER.encode(): b"2"}
    assert world.is_left(world.db.pttl(KEY), 7000)
    assert_record(world, "h", OTHER, f"{WORKER}-1")
    assert_joined(world, f"{SECOND}-3")
    assert not world.db.exists(QUEUE)


@pytest.mark.parametrize("kind", "srv")
def test_a_lock_that_does_not_count_lets_in_one_at_a_time(world, workers, kind):
    ask(world, kind, ME)
    for n in range(2):
        ask(world, kind, OTHER, ticket=f"{WORKER}-{n}")
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-0"]
    assert world.db.zcard(QUEUE) == 1


@kinds
def test_waiter_that_is_past_its_deadline_is_passed_over(world, workers, kind):
    ask(world, kind, ME)
    late = ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1", wait=1)
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")
    until_redis_time(world, int(late.split(" ")[2]) + 1)
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-2"]
    assert_holder(world, kind, OTHERS[1])
    assert not world.db.exists(QUEUE)


@kinds
def test_a_worker_that_is_gone_is_passed_over_and_forgotten(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], ticket=f"{DEAF}-1")
    ask(world, kind, OTHERS[1], ticket=f"{DEAF}-2")
    ask(world, kind, OTHERS[2], ticket=f"{WORKER}-1")
    ask(world, kind, OTHERS[3], ticket=f"{DEAF}-3")
    world.db.config_resetstat()
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1"]
    # The script asks once about each worker, and sends nothing to a worker that is gone.
    stats = world.db.info("commandstats")
    assert stats["cmdstat_pubsub|numsub"]["calls"] == 2
    assert stats["cmdstat_publish"]["calls"] == 1
    assert_holder(world, kind, OTHERS[2])
    assert_record(world, kind, OTHERS[2], f"{WORKER}-1")
    assert world.db.zcard(QUEUE) == 1
    assert give_back(world, kind, OTHERS[2]) == 1
    assert_nothing_left(world)


@kinds
def test_subscriber_of_everything_is_no_worker(world, workers, kind):
    """PSUBSCRIBE * makes PUBLISH count a receiver even if the waiter's worker is gone."""
    with Connection(world.server.unix) as monitor:
        monitor.call("PSUBSCRIBE", "*")
        ask(world, kind, ME)
        ask(world, kind, OTHERS[0], ticket=f"{DEAF}-1")
        ask(world, kind, OTHERS[1], ticket=f"{WORKER}-1")
        assert give_back(world, kind, ME) == 1
        assert_holder(world, kind, OTHERS[1])


@kinds
def test_waiter_that_has_lost_its_place_gets_it_back(world, kind):
    """The script had removed the waiter because its worker was not subscribed for a moment."""
    ask(world, kind, ME)
    places = [place_in(ask(world, kind, token, ticket=f"{WORKER}-{n}"))
              for n, token in enumerate(OTHERS[:3])]
    world.db.zpopmin(QUEUE)
    again = ask(world, kind, OTHERS[0], ticket=f"{WORKER}-9", place=places[0])
    assert place_in(again) == places[0]
    assert [queued.split(b" ")[0] for queued in world.db.zrange(QUEUE, 0, -1)] == \
        [f"{WORKER}-{n}".encode() for n in (9, 1, 2)]


@kinds
def test_places_keep_their_order_when_redis_clock_steps_back(world, kind):
    ask(world, kind, ME)
    first = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    # Puts the first waiter's place an hour into the future, as before the clock stepped back.
    world.db.zincrby(QUEUE, 3600e6, world.db.zrange(QUEUE, 0, 0)[0])
    assert place_in(ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")) == first + 3600e6 + 1
    assert place_in(ask(world, kind, OTHERS[2], ticket=f"{WORKER}-3")) == first + 3600e6 + 2


@kinds
def test_a_queue_lasts_as_long_as_anybody_waits(world, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], wait=60000)
    assert world.is_left(world.db.pttl(QUEUE), 62000)
    ask(world, kind, OTHERS[1], wait=10)
    assert world.is_left(world.db.pttl(QUEUE), 62000)
    ask(world, kind, OTHERS[2], wait=90000)
    assert world.is_left(world.db.pttl(QUEUE), 92000)


@kinds
def test_a_newcomer_does_not_overtake_the_waiters(world, workers, kind):
    """The lock is free, and hasp has not checked it yet."""
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1")
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")
    expire_now(world)
    assert ask(world, kind, OTHERS[2], wait=0) is None
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1"]
    assert_holder(world, kind, OTHERS[0])
    expire_now(world)
    place_in(ask(world, kind, OTHERS[2], ticket=f"{WORKER}-3"))
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-2"]
    assert world.db.zcard(QUEUE) == 1


@kinds
def test_a_newcomer_takes_what_nobody_is_there_to_take(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], ticket=f"{DEAF}-1")
    expire_now(world)
    reply = ask(world, kind, OTHERS[1], ticket=f"{WORKER}-1")
    assert reply == "OK" if kind in RULES else reply > 1
    assert workers.told() == []
    assert_holder(world, kind, OTHERS[1])
    assert_record(world, kind, OTHERS[1], f"{WORKER}-1")
    assert not world.db.exists(QUEUE)


@pytest.mark.parametrize("holder, kind", ["hr", "hv", "sr", "sv", "rs", "vs"])
def test_each_kind_in_one_line_gets_the_lock_that_it_asked_for(world, workers, holder, kind):
    """The owner or the waiter used LOCK, and the other one a command under a rule."""
    ask(world, holder, ME)
    ask(world, kind, OTHER, ticket=f"{WORKER}-1")
    assert give_back(world, holder, ME) == 1
    assert len(workers.told()) == 1
    assert_holder(world, kind, OTHER)
    assert give_back(world, kind, OTHER) == 1
    assert_nothing_left(world)


@pytest.mark.parametrize("holder, kind", ["sh", "rh", "vh", "hs"])
def test_nobody_waits_for_a_lock_of_another_type(world, holder, kind):
    ask(world, holder, ME)
    before = world.dump()
    assert ask(world, kind, OTHER).startswith("WRONGTYPE")
    assert world.dump() == before


def test_a_waiter_of_a_rule_that_was_changed_keeps_its_value(world, workers):
    """A reload set owner = value while a client waited under the old rule."""
    ask(world, "r", ME)
    ask(world, "r", OTHER, ticket=f"{WORKER}-1")
    assert give_back(world, "v", ME) == 1
    assert len(workers.told()) == 1
    assert world.db.get(KEY) == value_of(OTHER).encode()


# -- waiters under a rule

@each("owner, resp", OWNERS_RESPS, form=[f for f in TAKES if "GET" not in f], state=STATES)
def test_a_rule_with_wait_answers_as_redis_where_nobody_may_wait(world, form, state, owner, resp):
    """In a transaction, for example, no client may wait."""
    make, ttl = TAKES[form]
    argv = make()
    token = world.put(state, owner=owner)
    before = world.dump()
    reply = world.run(*argv, resp=resp, owner=owner, token=token, wait=4000)
    assert world.last.script == "take_wait" and world.last.wait_ms == 0
    assert reply == world.plain(*argv, resp=resp)
    if state not in ("free", "left over"):
        assert world.dump() == before
    elif owner == "value":
        world.assert_lock("v", ttl, owner=None)
    else:
        world.assert_lock("v", ttl)


@pytest.mark.parametrize("kind", "rv")
@pytest.mark.parametrize("form", ["PXAT", "EXAT"])
def test_a_lease_given_as_a_date_ends_then(world, workers, kind, form):
    date = at(60)
    ask(world, kind, ME)
    argv = ["SET", KEY, value_of(OTHER), "NX", form, date * (1000 if form == "PXAT" else 1)]
    ask(world, kind, OTHER, argv=argv, ticket=f"{WORKER}-1")
    assert give_back(world, kind, ME) == 1
    assert len(workers.told()) == 1
    assert world.db.get(KEY) == value_of(OTHER).encode()
    for key in (KEY, FENCE, *([SIDE] if kind == "r" else [])):
        assert abs(world.db.pexpiretime(key) - date * 1000) <= world.elapsed()
    expire_now(world)
    assert ask(world, kind, OTHER, argv=argv) == "OK"
    assert abs(world.db.pexpiretime(KEY) - date * 1000) <= world.elapsed()
    assert abs(world.db.pexpiretime(FENCE) - date * 1000) <= world.elapsed()


@pytest.mark.parametrize("kind", "rv")
def test_waiter_that_waits_past_the_end_of_its_lease_gets_nothing(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], argv=["SET", KEY, "late", "NX", "PXAT", 1000],
        ticket=f"{WORKER}-1")
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-2"]
    assert_holder(world, kind, OTHERS[1])


@pytest.mark.parametrize("kind", "rv")
def test_max_lease_caps_the_lease_of_a_waiter(world, workers, kind):
    ask(world, kind, ME)
    for n, expiry in enumerate((["EXAT", at(90000)], ["PX", 900000], [])):
        argv = ["SET", KEY, value_of(OTHERS[n]), "NX", *expiry]
        ask(world, kind, OTHERS[n], argv=argv, ticket=f"{WORKER}-{n}", longest=8000)
        expire_now(world)
        ask(world, kind, ME, wait=0)
        assert len(workers.told()) == 1
        assert world.is_left(world.db.pttl(KEY), 8000) or not expiry


def test_the_owners_second_try_does_not_wait_where_it_refreshes(world):
    ask(world, "r", ME)
    ask(world, "r", OTHER)
    assert ask(world, "r", ME, reentrant="refresh", lease=50000) == "OK"
    assert_holder(world, "r", ME, 50000)
    world.db.flushall()
    ask(world, "v", ME)
    ask(world, "v", OTHER)
    assert ask(world, "v", ME, reentrant="refresh", lease=50000) == "OK"
    assert_holder(world, "v", ME, 50000)


def test_dropping_many_locks_hands_each_over(world, workers):
    for n in range(3):
        ask(world, "r", ME, key=f"lock:{n}")
        ask(world, "r", OTHERS[n], key=f"lock:{n}", ticket=f"{WORKER}-{n}")
    ask(world, "r", OTHER, key="lock:other")
    ask(world, "r", ME, key="lock:other", ticket=f"{WORKER}-9")
    world.db.mset({"a": 1, "b": 2})
    assert world.run("DEL", "a", "lock:0", "lock:other", "b", "lock:2", "lock:1", "lock:3",
                     token=ME, wait=1) == b":5\r\n"
    assert sorted(ticket for ticket, _ in workers.told()) == [f"{WORKER}-{n}" for n in range(3)]
    for n in range(3):
        assert_holder(world, "r", OTHERS[n], key=f"lock:{n}")
    assert_holder(world, "r", OTHER, key="lock:other")
    assert world.db.zcard("hasp:queue:{lock:other}") == 1
    assert not world.db.exists("a", "b")


def test_a_lock_that_is_named_twice_is_handed_off_once(world, workers):
    ask(world, "r", ME)
    ask(world, "r", OTHERS[0], ticket=f"{WORKER}-0")
    ask(world, "r", OTHERS[1], ticket=f"{WORKER}-1")
    assert world.run("DEL", KEY, KEY, token=ME, wait=1) == b":1\r\n"
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-0"]
    assert_holder(world, "r", OTHERS[0])
    assert world.db.zcard(QUEUE) == 1


@pytest.mark.parametrize("kind", "rv")
def test_a_rule_without_wait_leaves_the_record_of_a_queue_alone(world, kind):
    """DEL hands a lock off only if the rule has `wait`; without `wait`, hasp's next poll does."""
    ask(world, kind, ME)
    ask(world, kind, OTHER)
    identity = own_token(kind, ME)
    assert world.run("DEL", KEY, token=identity, **RULES[kind]) == b":1\r\n"
    assert not world.db.exists(KEY) and world.db.zcard(QUEUE) == 1
