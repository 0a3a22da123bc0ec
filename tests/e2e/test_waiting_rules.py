# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for a lock under a rule with `wait`, and other commands that the waiting client sends."""

import time

import pytest
from harness import encode, until
from harness.line import entries, queue_of, soon, stand
from harness.marks import covers
from harness.replies import FENCE, NIL, OK, ONE, ZERO
from harness.sections import VERBS
from harness.waiting import KEY, named, rule


# --- rules with `wait` -----------------------------------------------------------


TAKES = [("SETNX", "lock:1", "w"), ("SET", "lock:1", "w", "NX"), ("SET", "lock:1", "w", "NX", "EX", 40),
         ("SET", "lock:1", "w", "px", 40000, "nx"),
         ("SET", "lock:1", "w", "NX", "EXAT", lambda: int(time.time()) + 40),
         ("SET", "lock:1", "w", "NX", "PXAT", lambda: int(time.time() * 1000) + 40000)]


@covers("wait")
@pytest.mark.parametrize("owner", ["connection", "value"])
@pytest.mark.parametrize("take", TAKES, ids=lambda take: "-".join(map(str, take[:1] + take[3:5])))
def test_rule_makes_setnx_and_set_nx_wait(share_hasp, plain, take, owner):
    hasp = share_hasp(rule(owner=owner, lease="40s"))
    take = [word() if callable(word) else word for word in take]
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        stand(plain, other, *take)
        assert one.call("DEL", "lock:1") == ONE
        dated = "EXAT" in take or "PXAT" in take  # hasp polls after such a grant, to learn when the lock ends
        assert soon(plain, other, polled=dated) == (ONE if take[0] == "SETNX" else OK)
        assert plain.get("lock:1") == "w"
        assert 30000 < plain.pttl("lock:1") <= 40000
        if owner == "connection":
            assert one.call("DEL", "lock:1") == ZERO
            assert plain.pttl("hasp:owner:{lock:1}") > 30000
        assert other.call("DEL", "lock:1") == ONE


@pytest.mark.parametrize("take, took", [(("SETNX", "lock:1", "v"), ONE), (("SET", "lock:1", "v", "NX", "PX", 9000), OK)])
def test_free_lock_under_a_rule_is_got_at_once(share_hasp, plain, take, took):
    with share_hasp(rule()).connect() as one:
        assert one.call(*take) == took
        assert not plain.exists(queue_of("lock:1"))


def test_expiry_named_as_a_date_does_not_move_while_one_waits(share_hasp, plain):
    hasp = share_hasp(rule())
    date = int(time.time() * 1000) + 40000
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "SET", "lock:1", "w", "NX", "PXAT", date)
        until(lambda: time.time() * 1000 > date - 40000 + 1000, "time to pass while the client waits")
        one.call("DEL", "lock:1")
        assert other.read() == OK
        # hasp sends the rest of the lease in ms, which takes time, too.
        assert abs(plain.execute_command("PEXPIRETIME", "lock:1") - date) < 500


@pytest.mark.parametrize("owner", ["address", "name", "user"])
def test_rule_with_wait_for_every_owner(share_hasp, plain, owner):
    plain.execute_command("ACL", "SETUSER", "bob", "on", "nopass", "~*", "&*", "+@all")
    hasp = share_hasp(rule(owner=owner))
    with named(hasp.connect(), "alice") as one, named(hasp.connect(), "bob") as other, \
            named(hasp.connect(), "bob") as same:
        for connection in (other, same):
            assert connection.call("AUTH", "bob", "x") == OK
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "SETNX", "lock:1", "v")
        one.call("DEL", "lock:1")
        assert soon(plain, other) == ONE
        assert one.call("DEL", "lock:1") == (ONE if owner == "address" else ZERO)
        assert same.call("DEL", "lock:1") == (ZERO if owner == "address" else ONE)


def test_rule_with_wait_and_refresh_lets_its_owner_in_again(clients, plain):
    one, other = clients(2, rule(reentrant="refresh", lease="20s"))
    assert one.call("SETNX", "lock:1", "v") == ONE
    stand(plain, other, "SETNX", "lock:1", "w")
    assert one.call("SET", "lock:1", "v", "NX", "EX", 60) == OK
    assert plain.pttl("lock:1") > 50000
    assert one.call("DEL", "lock:1") == ONE
    assert soon(plain, other, polled=True) == ONE


def test_set_nx_get_does_not_wait(clients, plain):
    """GET asks for the present value, which cannot wait."""
    one, other = clients(2, rule())
    one.call("SETNX", "lock:1", "v")
    assert other.call("SET", "lock:1", "w", "NX", "GET") == b"$1\r\nv\r\n"
    assert not plain.exists(queue_of("lock:1"))


def test_other_writes_do_not_wait(clients, plain):
    one, other = clients(2, rule())
    one.call("SETNX", "lock:1", "v")
    assert other.call("SET", "lock:1", "w").startswith(b"-LOCKED ")
    assert other.call("SET", "lock:1", "w", "XX") == NIL
    assert other.call("INCR", "lock:1").startswith(b"-")
    assert not plain.exists(queue_of("lock:1"))


def test_rule_that_only_observes_makes_nobody_wait(clients, plain):
    one, other = clients(2, rule(mode="observe"))
    one.call("SETNX", "lock:1", "v")
    assert other.call("SETNX", "lock:1", "w") == ZERO
    assert not plain.exists(queue_of("lock:1"))


@pytest.mark.parametrize("take, failed", [(("LOCK", KEY, "WAIT", 60000), NIL), (("SETNX", "lock:1", "w"), ZERO),
                                          (("SET", "lock:1", "w", "NX"), NIL)])
def test_transaction_waits_for_nobody(clients, plain, take, failed):
    one, other = clients(2, rule() + VERBS)
    one.call("LOCK", KEY)
    one.call("SETNX", "lock:1", "v")
    other.call("MULTI")
    assert other.call(*take) == b"+QUEUED\r\n"
    other.send(encode("EXEC"))
    assert other.read() == b"*1\r\n" + failed
    assert not plain.exists(queue_of(take[1]))


def test_client_that_reads_no_replies_does_not_wait(clients, plain):
    one, other = clients(2, VERBS)
    one.call("LOCK", KEY)
    other.send(encode("CLIENT", "REPLY", "OFF") + encode("LOCK", KEY, "WAIT", 60000)
               + encode("CLIENT", "REPLY", "ON"))
    assert other.read() == OK
    assert not plain.exists(queue_of(KEY))


def test_watched_key_is_not_waited_for(clients, plain):
    """The application detects changes by WATCH."""
    one, other = clients(2, rule())
    one.call("SETNX", "lock:1", "v")
    other.call("WATCH", "lock:1")
    assert other.call("SETNX", "lock:1", "w") == ZERO


# --- the client's other commands -------------------------------------------------


def test_commands_behind_one_that_waits_wait(share_hasp, plain):
    hasp = share_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        other.send(encode("SET", "x", 1) + encode("UNLOCK", KEY) + encode("PING"))
        hasp.take_turn()
        assert not plain.exists("x")
        assert one.call("SET", "y", 1) == OK  # perhaps over the same link
        assert one.call("UNLOCK", KEY) == ONE
        assert [other.read() for _ in range(4)] == [FENCE, OK, ONE, b"+PONG\r\n"]


def test_commands_before_one_that_waits_are_answered(clients, plain):
    one, other = clients(2, VERBS)
    one.call("LOCK", KEY)
    other.send(encode("PING") + encode("LOCK", KEY, "WAIT", 60000) + encode("PING"))
    assert other.read() == b"+PONG\r\n"
    until(lambda: entries(plain), "the LOCK to enter the queue")
    one.call("UNLOCK", KEY)
    assert [other.read(), other.read()] == [FENCE, b"+PONG\r\n"]


def test_pipeline_of_locks_waits_for_each(clients, plain):
    one, other = clients(2, VERBS)
    for key in "abc":
        one.call("LOCK", key)
    other.send(b"".join(encode("LOCK", key, "WAIT", 60000) for key in "abc"))
    for key in "abc":
        until(lambda: entries(plain, key), f"the waiter for {key} to enter the queue")  # noqa: B023
        one.call("UNLOCK", key)
        assert other.read() == FENCE


def test_waiters_do_not_hold_up_others(share_hasp, plain):
    hasp = share_hasp(VERBS)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        ones = [hasp.connect() for _ in range(20)]
        for other in ones:
            other.send(encode("LOCK", KEY, "WAIT", 60000))
        until(lambda: len(entries(plain)) == 20, "all clients to enter the queue")
        one.send(encode("PING") * 100)
        assert [one.read() for _ in range(100)] == [b"+PONG\r\n"] * 100
        for other in ones:
            other.close()
