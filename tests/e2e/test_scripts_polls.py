# SPDX-License-Identifier: BSD-3-Clause
"""hasp's own polls of locks with waiters, and waiters that leave."""

import pytest
from harness import Connection
from harness.script_forms import VALUES
from harness.script_queue import (DEAF, OTHERS, QUEUE, RULES, ask, assert_holder, assert_nothing_left, assert_record,
                                  expire_now, give_back, kinds, own_token, place_in, shorten, value_of)
from harness.scripts import calls  # noqa: F401: a fixture for all tests here
from harness.scripts import FENCE, KEY, LEASE, ME, OTHER, SIDE, WORKER, bulk, parse


@kinds
def test_a_probe_hands_off_a_lock_that_is_free(world, workers, kind):
    ask(world, kind, ME)
    first = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    second = place_in(ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2"))
    owner = [own_token(kind, token) for token in OTHERS]
    value = [value_of(token) for token in OTHERS]
    what, held, _ = world.poll(kind, owner[0], f"{WORKER}-1", first, value[0])
    assert what == "queued" and world.is_left(held, LEASE)
    assert workers.told() == []
    expire_now(world)
    # A poll for the second waiter hands the lock off to the first one.
    what, held, _ = world.poll(kind, owner[1], f"{WORKER}-2", second, value[1])
    assert what == "queued" and world.is_left(held, LEASE)
    fence = 0 if kind in RULES else world.fence()
    assert workers.told() == [(f"{WORKER}-1", str(fence or "-"))]
    assert_holder(world, kind, OTHERS[0])
    shorten(world, kind, OTHERS[0], 20000)
    what, held, got = world.poll(kind, owner[0], f"{WORKER}-1", first, value[0])
    assert (what, got) == ("granted", fence) and world.is_left(held, 20000)
    assert world.poll(kind, owner[2], f"{WORKER}-3", first + 1, value[2])[0] == "gone"
    assert workers.told() == []


@kinds
def test_a_probe_on_behalf_of_nobody_only_hands_off(world, workers, kind):
    assert world.poll(kind, "", "", 0, "") == ["gone", -2, 0]
    ask(world, kind, ME)
    assert world.poll(kind, "", "", 0, "")[0] == "gone"
    ask(world, kind, OTHER, ticket=f"{WORKER}-1")
    expire_now(world)
    what, held, _ = world.poll(kind, "", "", 0, "")
    assert what == "gone" and world.is_left(held, LEASE)
    assert len(workers.told()) == 1
    assert_holder(world, kind, OTHER)


@kinds
def test_a_grant_that_was_heard_of_late_begins_its_lease_again(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-1", lease=7000))
    give_back(world, kind, ME)
    shorten(world, kind, OTHER, 3000)
    what, held, _ = world.poll(kind, own_token(kind, OTHER), f"{WORKER}-1", place,
                                value_of(OTHER), lease=7000)
    assert what == "granted" and world.is_left(held, 7000)
    assert_holder(world, kind, OTHER, 7000)
    assert_record(world, kind, OTHER, f"{WORKER}-1")


@kinds
def test_waiter_that_lost_the_lock_again_is_told_that_it_is_gone(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-1"))
    give_back(world, kind, ME)
    expire_now(world)
    ask(world, kind, ME, ticket=f"{WORKER}-2")
    assert world.poll(kind, own_token(kind, OTHER), f"{WORKER}-1", place,
                       value_of(OTHER))[0] == "gone"
    assert_holder(world, kind, ME)


def test_lease_of_a_place_is_told_and_not_that_of_others(world, workers):
    ask(world, "l", ME)
    place = place_in(ask(world, "l", OTHERS[0], ticket=f"{WORKER}-1"))
    give_back(world, "l", ME)
    for lease in (LEASE // 3, 3 * LEASE):
        assert parse(world.verb("LOCK", KEY, "LIMIT", 2, "PX", lease, token=OTHERS[1])) == world.fence()
        what, held, _ = world.poll("l", OTHERS[0], f"{WORKER}-1", place, "1")
        assert what == "granted" and world.is_left(held, LEASE)
        what, held, _ = world.dequeue("l", OTHERS[0], f"{WORKER}-1", place, "tell", "1")
        assert what == "granted" and world.is_left(held, LEASE)
        give_back(world, "l", OTHERS[1])


def test_place_that_its_owner_asks_for_again_is_kept_for_the_longer_lease(world):
    first = parse(world.verb("LOCK", KEY, "LIMIT", 2, "PX", LEASE))
    assert parse(world.verb("LOCK", KEY, "LIMIT", 2, "PX", 1000)) == first
    assert world.is_left(world.db.pttl(KEY), LEASE)
    assert parse(world.verb("LOCK", KEY, "LIMIT", 2, "PX", 2 * LEASE)) == first
    assert world.is_left(world.db.pttl(KEY), 2 * LEASE)


# -- waiters that leave


def test_try_that_renewed_a_place_leaves_it_when_it_is_undone(world):
    for n in (1, 2):
        assert parse(world.verb("LOCK", KEY, "LIMIT", 2, ticket=f"{WORKER}-{n}")) == world.fence()
    assert world.dequeue("l", ME, f"{WORKER}-2", 0)[0] == "gone"
    assert world.db.zrange(KEY, 0, -1) == [ME.encode()]
    # The first LOCK's undo leaves the place, too, as the second LOCK renewed it.
    assert world.dequeue("l", ME, f"{WORKER}-1", 0)[0] == "gone"
    assert world.db.zrange(KEY, 0, -1) == [ME.encode()]

@kinds
@pytest.mark.parametrize("what", ["undo", "tell"])
@pytest.mark.parametrize("known", [True, False])
def test_waiter_that_leaves_the_queue_is_not_called_in(world, workers, kind, what, known):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-11")  # a ticket that begins like the other one
    args = own_token(kind, OTHERS[0]), f"{WORKER}-1", place if known else -1, what
    assert world.dequeue(kind, *args, value_of(OTHERS[0])) == ["left", 0, 0]
    assert world.dequeue(kind, *args, value_of(OTHERS[0])) == ["gone", 0, 0]
    assert_holder(world, kind, ME)
    give_back(world, kind, ME)
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-11"]


@kinds
def test_waiter_that_was_let_in_releases_the_lock_when_it_leaves(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")
    give_back(world, kind, ME)
    args = kind, own_token(kind, OTHERS[0]), f"{WORKER}-1", place
    what, held, fence = world.dequeue(*args, "tell", value_of(OTHERS[0]))
    assert what == "granted" and world.is_left(held, LEASE)
    assert fence == (0 if kind in RULES else world.fence())
    assert_holder(world, kind, OTHERS[0])
    assert world.dequeue(*args, "undo", value_of(OTHERS[0])) == ["undone", 0, 0]
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1", f"{WORKER}-2"]
    assert_holder(world, kind, OTHERS[1])
    assert world.dequeue(*args, "undo", value_of(OTHERS[0])) == ["gone", 0, 0]
    assert_holder(world, kind, OTHERS[1])


@kinds
def test_a_try_that_nobody_heard_of_is_undone(world, kind):
    """The attempt took the lock at once, but hasp lost the reply with the connection."""
    ask(world, kind, ME, ticket=f"{WORKER}-1")
    assert world.dequeue(kind, own_token(kind, ME), f"{WORKER}-2", 0, "undo",
                       value_of(ME)) == ["gone", 0, 0]
    assert_holder(world, kind, ME)
    assert world.dequeue(kind, own_token(kind, ME), f"{WORKER}-1", 0, "undo",
                       value_of(ME)) == ["undone", 0, 0]
    assert_nothing_left(world)


def test_undoing_a_hold_leaves_the_others(world):
    first = ask(world, "h", ME, ticket=f"{WORKER}-1")
    ask(world, "h", ME, ticket=f"{WORKER}-2")
    ask(world, "h", OTHER)
    assert world.dequeue("h", ME, f"{WORKER}-2", 0) == ["undone", 0, 0]
    # hasp may repeat the call; it undoes a hold only once.
    assert world.dequeue("h", ME, f"{WORKER}-2", 0) == ["gone", 0, 0]
    assert_holder(world, "h", ME)
    assert world.db.zcard(QUEUE) == 1
    assert world.verb("LOCK", KEY) == b":%d\r\n" % first


@pytest.mark.parametrize("kind", "srv")
def test_undoing_a_refresh_leaves_the_lock(world, kind):
    """The owner had the lock before, perhaps through another connection."""
    again = {"layout": "refresh"} if kind == "s" else {"reentrant": "refresh"}
    ask(world, kind, ME, ticket=f"{WORKER}-1", **again)
    reply = ask(world, kind, ME, ticket=f"{WORKER}-2", lease=50000, **again)
    assert reply == ("OK" if kind in RULES else world.fence())
    assert world.dequeue(kind, own_token(kind, ME), f"{WORKER}-2", 0, "undo",
                       value_of(ME)) == ["gone", 0, 0]
    assert_holder(world, kind, ME, 50000)


# -- faults

@kinds
def test_a_lock_that_redis_has_no_room_for_stays_free_and_the_queue_whole(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-1"))
    expire_now(world)
    entries = world.db.zrange(QUEUE, 0, -1, withscores=True)
    args = kind, own_token(kind, OTHER), f"{WORKER}-1", place, value_of(OTHER)
    world.db.config_set("maxmemory", 1)
    try:
        assert world.poll(*args) == ["queued", -2, 0]
        assert ask(world, kind, OTHERS[0]).startswith("OOM")
        assert ask(world, kind, OTHERS[0], wait=0) is None
    finally:
        world.db.config_set("maxmemory", 0)
    assert workers.told() == []
    assert world.db.zrange(QUEUE, 0, -1, withscores=True) == entries
    assert not world.db.exists(KEY, SIDE, FENCE)
    assert world.poll(*args)[0] == "granted"
    assert_holder(world, kind, OTHER)


@kinds
@pytest.mark.parametrize("may_not", ["-publish", "resetchannels"])
def test_user_that_may_not_publish_leaves_the_lock_free_for_hasps_probe(world, server, workers,
                                                                        kind, may_not):
    world.db.execute_command("ACL", "SETUSER", "mute", "reset", "on", "nopass", "~*", "&*",
                             "+@all", may_not)
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-1"))
    with Connection(server.unix) as c:
        c.call("AUTH", "mute", "x")
        there, world.ours[2] = world.ours[2], c
        try:
            assert give_back(world, kind, ME) == 1
        finally:
            world.ours[2] = there
    assert workers.told() == []
    assert not world.db.exists(KEY, SIDE, FENCE) and world.db.zcard(QUEUE) == 1
    assert world.poll(kind, own_token(kind, OTHER), f"{WORKER}-1", place,
                       value_of(OTHER))[0] == "granted"
    assert len(workers.told()) == 1
    assert_holder(world, kind, OTHER)


@kinds
def test_what_is_no_entry_is_thrown_out_of_the_queue(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHER, ticket=f"{WORKER}-1")
    for n, junk in enumerate(["", "junk", f"{WORKER}-7 x h 1 0 t ", "- - - - - - -"]):
        world.db.zadd(QUEUE, {junk: n})
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1"]
    assert not world.db.exists(QUEUE)


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_any_value_is_handed_off(world, workers, value):
    for kind in RULES:
        world.db.flushall()
        ask(world, kind, ME)
        place = place_in(ask(world, kind, OTHER, argv=["SET", KEY, value, "NX"],
                             ticket=f"{WORKER}-1"))
        assert give_back(world, kind, ME) == 1
        assert len(workers.told()) == 1
        assert world.db.get(KEY) == value
        token = value if kind == "v" else OTHER
        assert world.poll(kind, token, f"{WORKER}-1", place, value)[0] == "granted"
        assert world.dequeue(kind, token, f"{WORKER}-1", place, "undo", value)[0] == "undone"
        assert_nothing_left(world)


def test_info_counts_the_waiters(world):
    ask(world, "h", ME)
    for token in OTHERS:
        ask(world, "h", token)
    assert bulk("waiters") + b":%d\r\n" % len(OTHERS) in world.verb("INFO", KEY)


def test_redissons_waiters_are_told_only_when_nobody_of_ours_is_let_in(world, server, workers):
    """Redisson's waiters would find the lock taken by hasp's waiter."""
    with Connection(server.unix) as redisson:
        redisson.call("SUBSCRIBE", "redisson_lock__channel:{lock:1}")
        ask(world, "h", ME)
        ask(world, "h", OTHERS[0], ticket=f"{WORKER}-1")
        assert give_back(world, "h", ME) == 1
        assert redisson.call("PING") == b"*2\r\n" + bulk("pong") + bulk("")
        ask(world, "h", OTHERS[1], ticket=f"{DEAF}-1")
        assert give_back(world, "h", OTHERS[0]) == 1
        assert parse(redisson.read()) == ["message", "redisson_lock__channel:{lock:1}", "0"]
        ask(world, "h", ME, ticket=f"{WORKER}-2")
        assert world.dequeue("h", ME, f"{WORKER}-2", 0)[0] == "undone"
        assert parse(redisson.read()) == ["message", "redisson_lock__channel:{lock:1}", "0"]
