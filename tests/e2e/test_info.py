# SPDX-License-Identifier: BSD-3-Clause
"""LOCK.INFO names the client that has a lock, whichever worker serves it."""

import contextlib
import time

import pytest
from harness import encode, until
from harness.guards import guard
from harness.line import stand
from harness.replies import NIL, OK, ONE, QUEUED, bulk
from harness.resp import pipeline
from harness.sections import VERBS, rule, verbs
from harness.told import REDIS_TELLS, told

KEY = "lock:1"
HASP_TELLS = ("address", "name", "since", "lease", "renewed")


def address_of(connection):
    return "%s:%d" % connection.sock.getsockname()


def held_by(info, connection):
    return info["address"] == address_of(connection)


def test_holder_of_a_verbs_lock_is_told(pair):
    one, other = pair(VERBS)
    before = time.time() * 1000
    assert one.call("CLIENT", "SETNAME", "shop") == OK
    fence = int(one.call("LOCK", "k")[1:])
    info = told(other, "k")
    assert list(info) == [*REDIS_TELLS, *HASP_TELLS]
    assert held_by(info, one)
    assert (info["name"], info["fence"], info["lease"], info["renewed"]) == ("shop", fence, 30000, 1)
    assert before - 1000 < info["since"] < time.time() * 1000 + 1000


@pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
def test_lock_that_its_client_gave_a_lease_is_not_renewed(pair, reentrant):
    one, other = pair(verbs(reentrant=reentrant))
    one.call("LOCK", "k", "PX", 60000, "AS", "worker-7")
    info = told(other, "k")
    assert (info["owner"], info["lease"], info["renewed"], info["name"]) == ("worker-7", 60000, 0, None)
    assert held_by(info, one)


@pytest.mark.parametrize("first", [("LOCK", "k"), ("MLOCK", 1, "k")])
def test_holder_that_took_its_lock_again_by_mlock_is_told(pair, first):
    one, other = pair(VERBS)
    fence = int(one.call(*first)[1:])
    assert int(one.call("MLOCK", 2, "k", "l")[1:]) > fence
    for holds in (2, 1):
        info = told(other, "k")
        assert held_by(info, one)
        assert (info["holds"], info["fence"]) == (holds, fence)
        assert one.call("UNLOCK", "k") == ONE


@pytest.mark.parametrize("owner", ["connection", "address", "name", "user", "value"])
def test_holder_of_a_rules_lock_is_told(pair, owner):
    one, other = pair(VERBS + rule(owner=owner))
    assert one.call("CLIENT", "SETNAME", "one") == OK
    assert one.call("SET", KEY, "v w", "NX", "PX", 60000) == OK
    info = told(other, KEY)
    assert held_by(info, one)
    assert (info["name"], info["lease"], info["renewed"], info["fence"]) == ("one", 60000, 0, None)


def test_since_when_it_has_the_lock_and_not_when_that_was_refreshed(pair):
    one, other = pair(VERBS + rule(reentrant="refresh"))
    assert one.call("SET", KEY, "v", "NX", "PX", 60000) == OK
    first = told(other, KEY)
    until(lambda: time.time() * 1000 > first["since"] + 1500, "a second and a half to pass")
    assert one.call("SET", KEY, "v", "NX", "PX", 90000) == OK
    again = told(other, KEY)
    assert again["lease"] == 90000
    assert abs(again["since"] - first["since"]) < 1000


def test_holder_of_a_guard_is_told(pair):
    one, other = pair(VERBS + guard(lease="60s"))
    assert one.call("CLIENT", "SETNAME", "reader") == OK
    assert one.call("GET", "stock:1") == NIL
    info = told(other, "stock:1")
    assert held_by(info, one)
    assert (info["name"], info["lease"], info["renewed"], info["fence"]) == ("reader", 60000, 0, None)
    assert one.call("SET", "stock:1", "v") == OK
    assert other.call("LOCK.INFO", "stock:1") == NIL


def test_each_worker_knows_the_clients_of_the_others(start_hasp):
    """The kernel spreads the twenty connections over the three workers."""
    hasp = start_hasp(VERBS + rule() + guard(lease="60s"), workers=3)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(20)]
        for n, c in enumerate(clients):
            assert c.call("SET", f"lock:{n}", "v", "NX", "PX", 60000) == OK
            assert c.call("GET", f"stock:{n}") == NIL
            c.call("LOCK", n, "PX", 60000)
        for n, c in enumerate(clients):
            for key in (f"lock:{n}", f"stock:{n}", n):
                assert held_by(told(clients[0], key), c)


def test_of_connections_that_are_one_owner_the_one_that_took_it_last_is_told(start_hasp):
    hasp = start_hasp(VERBS + rule(owner="address"), workers=3)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(10)]
        for taker, releaser in zip(clients, clients[1:]):
            assert taker.call("SET", KEY, "v", "NX", "PX", 60000) == OK
            assert held_by(told(releaser, KEY), taker)
            assert releaser.call("DEL", KEY) == ONE


def test_holder_at_another_hasp_is_nil_but_what_redis_has_is_told(share_hasp, plain):
    hasps = share_hasp(VERBS + rule(wait="60s")), share_hasp(VERBS + rule(wait="60s"))
    with hasps[0].connect() as one, hasps[1].connect() as other, hasps[1].connect() as waiter:
        assert one.call("SET", KEY, "v", "NX", "PX", 60000) == OK
        stand(plain, waiter, "SET", KEY, "w", "NX", "PX", 60000)
        info = told(other, KEY)
        assert info["owner"].startswith(f"connection:{address_of(one)}/")
        assert 0 < info["ttl"] <= 60000 and info["waiters"] == 1
        assert [info[field] for field in HASP_TELLS] == [None] * len(HASP_TELLS)
        assert one.call("DEL", KEY) == ONE
        assert waiter.read() == OK
        assert held_by(told(other, KEY), waiter)


def test_lock_that_was_taken_past_hasp_has_no_holder(pair, plain):
    one, _ = pair(VERBS + rule())
    plain.set(KEY, "v", px=60000)
    info = told(one, KEY)
    assert info["owner"] is None and info["holds"] == 1
    assert [info[field] for field in HASP_TELLS] == [None] * len(HASP_TELLS)


def test_resp3_gets_a_map(pair):
    one, other = pair(VERBS)
    assert other.call("HELLO", 3).startswith(b"%")
    one.call("LOCK", "k", "PX", 60000)
    reply = other.call("LOCK.INFO", "k")
    assert reply.startswith(b"%10\r\n$5\r\nowner\r\n") and bulk("name") + b"_\r\n" in reply
    assert bulk("address") + bulk(address_of(one)) in reply
    assert other.call("LOCK.INFO", "free") == b"_\r\n"


def test_answers_keep_their_order(pair):
    one, other = pair(VERBS, workers=3)
    one.call("LOCK", "k")
    echo, first, second, nil, last = pipeline(
        other, ("ECHO", "a"), ("LOCK.INFO", "k"), ("LOCK.INFO", "k"), ("LOCK.INFO", "free"), ("ECHO", "b"))
    assert (echo, nil, last) == (bulk("a"), NIL, bulk("b"))
    assert first.startswith(b"*20\r\n") and second.startswith(b"*20\r\n")


def test_in_a_transaction_only_what_redis_knows_is_told(pair):
    one, other = pair(VERBS)
    one.call("LOCK", "k")
    replies = pipeline(other, ("MULTI",), ("LOCK.INFO", "k"), ("EXEC",))
    assert replies[:2] == [OK, QUEUED]
    assert replies[2].startswith(b"*1\r\n*10\r\n$5\r\nowner\r\n")


def test_client_that_hangs_up_while_workers_are_asked_harms_nobody(start_hasp):
    hasp = start_hasp(VERBS, workers=3)
    with hasp.connect() as one:
        one.call("LOCK", "k")
        for _ in range(50):
            with hasp.connect() as other:
                other.send(encode("LOCK.INFO", "k") * 20)
        assert held_by(told(one, "k"), one)


def test_script_that_redis_has_forgotten_is_sent_again(pair, plain):
    one, other = pair(VERBS)
    one.call("LOCK", "k")
    plain.script_flush()
    assert held_by(told(other, "k"), one)


def test_error_is_told_as_it_is(pair, plain):
    one, _ = pair(VERBS)
    plain.lpush("list", 1)
    assert one.call("LOCK.INFO", "list").startswith(b"-WRONGTYPE ")
    assert pipeline(one, ("LOCK.INFO", "list"), ("ECHO", "b"))[1] == bulk("b")
