# SPDX-License-Identifier: BSD-3-Clause
"""Late messages: releases, attempts, grants and checks that cross each other or are delayed.

To show that something does not happen, a test waits for a later event: Redis runs hasp's own calls
in the order in which hasp makes them.
"""

import re
import signal

import pytest
from harness import encode, until
from harness.gates import subscribe
from harness.info import calls, is_ready
from harness.line import queue_of, stand
from harness.relay import Relay
from harness.renewal import LEASE, is_renewed, rises
from harness.replies import FENCE, NIL, OK, ONE, UNKNOWN, ZERO
from harness.sections import rule, verbs

KEY, LOCK = "k", "lock:1"


# --- locks that are released, and lost -----------------------------------------


@pytest.mark.parametrize("owner", ["connection", "name"])
def test_del_of_several_keys_ends_the_renewal_of_none_that_stays(clients, plain, owner):
    one, other = clients(2, rule(lease=LEASE, owner=owner))
    for n, connection in enumerate((one, other)):
        assert connection.call("CLIENT", "SETNAME", f"name{n}") == OK
        assert connection.call("SETNX", f"lock:{n}", f"v{n}") == ONE
    assert other.call("DEL", "lock:1", "lock:0") == ONE
    assert not plain.exists("lock:1")
    assert is_renewed(plain, "lock:0")


def test_key_that_del_names_twice_is_released_once(clients, plain):
    one, second, third = clients(3, rule(wait="5s"))
    assert one.call("SETNX", LOCK, "v") == ONE
    stand(plain, second, "SETNX", LOCK, "w")
    stand(plain, third, "SETNX", LOCK, "x")
    assert one.call("DEL", LOCK, LOCK) == ONE
    assert second.read() == ONE
    assert plain.get(LOCK) == "w" and plain.zcard(queue_of(LOCK)) == 1


def test_late_del_of_a_client_that_lost_its_lock_leaves_the_next_holders(clients, plain):
    """With owner = value, hasp compares the lock with the value that this connection stored."""
    one, other = clients(2, rule(lease=LEASE, owner="value"))
    assert one.call("SETNX", LOCK, "mine") == one.call("SETNX", "lock:2", "mine") == ONE
    plain.delete(LOCK)
    assert other.call("SET", LOCK, "yours", "NX", "PX", 60000) == OK
    assert rises(plain, 3, "lock:2")  # three renewals, in which hasp has also tried to renew LOCK
    assert one.call("DEL", LOCK) == ZERO
    assert plain.get(LOCK) == "yours"


def test_lock_taken_in_another_database_of_a_transaction_that_was_never_answered_is_undone(
        start_hasp, redis_server, plain):
    with Relay(redis_server.address) as relay, redis_server.client(db=1) as second:
        hasp = start_hasp(rule(wait="5s"), upstream=relay.address).is_up()
        with hasp.connect() as one:
            for command in (("MULTI",), ("SELECT", 1), ("SET", LOCK, "v", "NX", "PX", 60000), ("SELECT", 0)):
                assert one.call(*command) in (OK, b"+QUEUED\r\n")
            relay.swallows = True
            one.send(encode("EXEC"))
            until(lambda: second.exists(LOCK), "the lock to be taken")
            relay.cut()
            relay.mend()
            until(lambda: not second.exists(LOCK), "the lock to be undone")


# hasp undoes attempts of an address or a user as it does those of a name.
OWNERS = ["connection", "name", "value"]
TAKES = [("SETNX", LOCK, "v"), ("SET", LOCK, "v", "NX", "PX", 60000), ("SET", LOCK, "v", "EX", 60), ("GETSET", LOCK, "v"),
         ("MSETNX", "lock:other", "w", LOCK, "v")]


@pytest.mark.parametrize("command, owner", [
    *((take, "connection") for take in (*TAKES, ("INCR", LOCK))), *((TAKES[0], owner) for owner in OWNERS[1:]),
    (TAKES[-1], "value")],
    ids=lambda value: value if isinstance(value, str) else value[0])
def test_lock_of_any_owner_whose_taking_was_never_answered_is_undone(start_hasp, redis_server, plain, command, owner):
    with Relay(redis_server.address) as relay:
        hasp = is_ready(start_hasp(rule(owner=owner), upstream=relay.address), plain)
        with hasp.connect() as one:
            assert one.call("CLIENT", "SETNAME", "one") == OK
            assert one.call("PING") == b"+PONG\r\n"  # so its link to Redis is connected
            relay.swallows = True
            one.send(encode(*command))
            until(lambda: plain.exists(LOCK), "the lock to be taken")
            relay.cut()
            assert one.read().startswith(UNKNOWN)
            relay.mend()
            until(lambda: not plain.exists(LOCK, "lock:other"), "the lock to be undone")


REFRESHED = {"reentrant": "refresh", "lease": "600s", "on_disconnect": "release"}


@pytest.mark.parametrize("section, command", [
    (rule(**REFRESHED), ("SETNX", LOCK, "v")), (rule(owner="address", **REFRESHED), ("SETNX", LOCK, "v")),
    (rule(owner="value", **REFRESHED), ("SETNX", LOCK, "v")), (verbs(**REFRESHED), ("LOCK", LOCK)),
    (verbs(**REFRESHED), ("LOCK", LOCK, "AS", "me")),
    (verbs(**REFRESHED), ("MLOCK", 2, "lock:0", LOCK, "AS", "me"))],
    ids=["connection", "address", "value", "LOCK", "AS", "MLOCK"])
def test_lock_whose_refresh_was_never_answered_is_released_at_disconnect(start_hasp, redis_server, plain, section, command):
    """Redis knows a later try of the owner than hasp."""
    record = "hasp:fence:{%s}" % LOCK
    with Relay(redis_server.address) as relay:
        hasp = is_ready(start_hasp(section, upstream=relay.address), plain)
        with hasp.connect() as one:
            assert one.call(*command).startswith(b":")
            first = plain.get(record)
            relay.swallows = True
            one.send(encode(*command))
            until(lambda: plain.get(record) != first, "the lock to be refreshed")
            relay.cut()
            assert one.read().startswith(UNKNOWN)
            relay.mend()
        until(lambda: not plain.exists(LOCK), "the lock to be released")


def test_undo_of_a_try_leaves_what_the_same_owner_has_taken(start_hasp, gates, plain):
    """Before the undo arrives, another connection of the same owner takes the lock with the same
    value."""
    hasp = is_ready(start_hasp(rule(owner="user"), upstream=gates.address), plain)
    past = start_hasp(rule(owner="user"))
    with hasp.connect() as one, past.connect() as other:
        assert one.call("PING") == b"+PONG\r\n"
        gates.shut(requests={"own"}, replies={"link"})
        one.send(encode("SET", LOCK, "v", "NX", "PX", 60000))
        until(lambda: gates.waiting, "the reply to wait at the gate")
        gates.cut_links()
        assert one.read().startswith(UNKNOWN)
        assert other.call("DEL", LOCK) == ONE
        assert other.call("SET", LOCK, "v", "NX", "PX", 60000) == OK
        before = calls(plain, "evalsha")
        gates.open()
        until(lambda: calls(plain, "evalsha") > before, "hasp to undo the attempt")
        assert plain.get(LOCK) == "v"


def test_try_that_arrives_after_its_hasp_was_to_leave_is_undone(start_hasp, gates, plain):
    hasp = is_ready(start_hasp(verbs(), upstream=gates.address, drain_timeout="50ms"), plain)
    with hasp.connect() as one:
        assert one.call("PING") == b"+PONG\r\n"
        gates.shut(requests={"link"})
        one.send(encode("LOCK", KEY, "PX", 3600000))
        until(lambda: gates.waiting, "the LOCK to wait at the gate")
        before = calls(plain, "evalsha")
        hasp.signal(signal.SIGTERM)
        assert one.at_end()
        until(lambda: calls(plain, "evalsha") > before, "hasp to undo the attempt")
        before = calls(plain, "hincrby")
        gates.open()
        until(lambda: calls(plain, "hincrby") > before, "Redis to run the LOCK")
        until(lambda: not plain.exists(KEY), "the second undo")


def test_try_that_arrives_after_it_was_undone_is_undone_again(start_hasp, gates, plain):
    """The LOCK is still in transit to Redis when hasp closes the connection and undoes it."""
    hasp = is_ready(start_hasp(verbs(), upstream=gates.address), plain)
    with hasp.connect() as one:
        assert one.call("PING") == b"+PONG\r\n"
        gates.shut(requests={"link"})
        one.send(encode("LOCK", KEY, "PX", 3600000))
        until(lambda: gates.waiting, "the LOCK to wait at the gate")
        before = calls(plain, "evalsha")
        gates.cut_links()
        assert one.read().startswith(UNKNOWN)
        until(lambda: calls(plain, "evalsha") > before, "hasp to undo the attempt")
        before = calls(plain, "hincrby")
        gates.open()
        until(lambda: calls(plain, "hincrby") > before, "Redis to run the LOCK")
        until(lambda: not plain.exists(KEY), "the second undo")


# --- replies and messages that come late ----------------------------------------


def test_end_of_a_lease_is_noticed_for_the_second_though_the_first_had_its_grant_before_its_place(
        start_hasp, gates, plain):
    hasp = is_ready(start_hasp(verbs(reentrant="no"), upstream=gates.address), plain)
    with hasp.connect() as one, hasp.connect() as first, hasp.connect() as second:
        subscribe(hasp, gates, plain)
        before = gates.passed["link"].count(b"+QUEUED ")
        assert one.call("LOCK", KEY, "PX", 60000) == FENCE
        assert one.call("CLIENT", "REPLY", "ON") == OK  # the client has a link of its own from now on
        assert first.call("PING") == b"+PONG\r\n"  # the other clients share a link
        gates.shut(replies={"link", "own"})
        stand(plain, first, "LOCK", KEY, "PX", 6000, "WAIT", 20000, checked=False)
        until(lambda: gates.waiting, "the first client's place to wait at the gate")
        # Without replies, hasp sends the full call at once, although it does not know the waiter yet.
        one.send(encode("CLIENT", "REPLY", "OFF") + encode("UNLOCK", KEY))
        until(lambda: plain.get("hasp:fence").encode() in gates.passed["listening"], "the first waiter's grant")
        end = plain.pexpiretime(KEY)
        until(lambda: plain.pttl(KEY) < 5100, "part of the lease to pass, so that hasp renews the lease")
        hasp.take_turn()
        gates.shut(replies={"own"})
        until(lambda: plain.pexpiretime(KEY) > end, "the lease to be renewed")
        stand(plain, second, "LOCK", KEY, "WAIT", 20000, checked=False)
        until(lambda: gates.passed["link"].count(b"+QUEUED ") >= before + 2, "both waiters to know their places")
        hasp.take_turn()
        gates.open()
        assert first.read() == FENCE
        assert second.read() == FENCE


def test_look_that_comes_late_is_not_followed_by_looks_at_everybody(start_hasp, gates, plain):
    """The waiter for which hasp sent the poll has got the lock before the reply arrives."""
    hasp = is_ready(start_hasp(verbs(on_disconnect="release"), upstream=gates.address), plain)
    number = 100
    with hasp.connect() as one:
        assert one.call("LOCK", KEY, "PX", 600000) == FENCE
        crowd = [hasp.connect() for _ in range(number)]
        for other in crowd:
            other.send(encode("LOCK", KEY, "WAIT", 60000))
        until(lambda: plain.zcard(queue_of(KEY)) == number, "all clients to enter the queue")
        ports = {other.sock.getsockname()[1]: other for other in crowd}
        first, second = (ports[int(re.search(r" connection:[^ ]*:(\d+)/", entry)[1])]
                         for entry in plain.zrange(queue_of(KEY), 0, 1))
        gates.shut(requests={"own"})
        until(lambda: gates.waiting, "hasp to poll")
        assert one.call("UNLOCK", KEY) == ONE
        assert first.read() == FENCE
        assert first.call("UNLOCK", KEY) == ONE
        assert second.read() == FENCE
        before = calls(plain, "evalsha"), len(gates.passed["own"])
        gates.open()
        until(lambda: len(gates.passed["own"]) > before[1], "the reply to the poll")
        hasp.take_turn()
        with hasp.connect() as last:
            assert last.call("LOCK", "last").startswith(b":")
        until(lambda: not plain.exists("last"), "a later release")
        assert calls(plain, "evalsha") - before[0] < number / 2
        for other in crowd:
            other.close()


def test_client_that_hangs_up_before_it_knows_its_place_is_not_searched_for(start_hasp, gates, plain):
    hasp = is_ready(start_hasp(verbs(), upstream=gates.address), plain)
    with hasp.connect() as one, hasp.connect() as other:
        plain.hset(KEY, "somebody", 1)
        stand(plain, one, "LOCK", KEY, "WAIT", 60000)
        gates.shut(replies={"link"})
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        other.close()
        hasp.take_turn()
        before = calls(plain, "zrange")
        gates.open()
        until(lambda: plain.zcard(queue_of(KEY)) <= 1, "the client to leave the queue")
        assert plain.zcard(queue_of(KEY)) == 1
        assert calls(plain, "zrange") == before


def test_client_that_waited_in_vain_goes_on_though_it_cannot_leave_the_queue_yet(start_hasp, gates, plain):
    hasp = is_ready(start_hasp(verbs(), upstream=gates.address), plain)
    with hasp.connect() as one:
        subscribe(hasp, gates, plain)
        plain.hset(KEY, "somebody", 1)
        gates.shut(requests={"own"})
        one.send(encode("LOCK", KEY, "WAIT", 50) + encode("PING"))
        assert one.read() == NIL
        assert one.read() == b"+PONG\r\n"
        assert plain.zcard(queue_of(KEY)) == 1
        gates.open()
        until(lambda: not plain.exists(queue_of(KEY)), "the client to leave the queue")


def test_lock_that_is_handed_to_a_client_that_waited_in_vain_goes_to_the_next(start_hasp, gates, plain):
    """Redis hands the lock over before the wait ends, but hasp reads the grant after it."""
    hasp = is_ready(start_hasp(verbs(), upstream=gates.address), plain)
    away = start_hasp(verbs())
    with hasp.connect() as one, hasp.connect() as gone, away.connect() as other:
        subscribe(hasp, gates, plain)
        assert one.call("LOCK", KEY) == FENCE
        gates.shut(requests={"own"}, replies={"listening"})
        stand(plain, gone, "LOCK", KEY, "WAIT", 3000, "AS", "gone", checked=False)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        assert one.call("UNLOCK", KEY) == ONE
        assert plain.hgetall(KEY) == {"gone": "1"}
        assert gone.read() == NIL
        gates.open()
        assert other.read() == FENCE
        assert gone.call("PING") == b"+PONG\r\n"
