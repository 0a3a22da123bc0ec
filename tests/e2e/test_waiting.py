# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for a lock by verb: LOCK ... WAIT, its order, its time-out, its owners."""

import itertools
import time

import pytest
from harness import encode, until
from harness.info import calls, is_ready
from harness.line import entries, nobody_waits, queue_of, soon, stand, unless_checked
from harness.marks import LAYOUTS
from harness.relay import Relay
from harness.renewal import LEASE, LEASE_MS, is_renewed
from harness.replies import FENCE, NIL, NIL3, OK, ONE, TAKEN, ZERO
from harness.sections import VERBS, verbs
from harness.told import told
from harness.waiting import KEY, named, rule


# --- LOCK ... WAIT ---------------------------------------------------------------


@LAYOUTS
def test_free_lock_is_got_at_once(share_hasp, plain, reentrant):
    with share_hasp(verbs(reentrant=reentrant)).connect() as one:
        assert one.call("LOCK", KEY, "WAIT", 60000) == FENCE
        assert not plain.exists(queue_of(KEY))


@LAYOUTS
def test_unlock_hands_off_to_the_next_one_with_a_new_fencing_token(clients, plain, reentrant):
    one, other = clients(2, verbs(reentrant=reentrant))
    assert one.call("LOCK", KEY) == FENCE
    stand(plain, other, "LOCK", KEY, "WAIT", 60000)
    assert one.call("UNLOCK", KEY) == ONE
    assert soon(plain, other) == FENCE
    assert one.call("LOCK", KEY) == NIL
    assert other.call("UNLOCK", KEY) == ONE
    assert not plain.exists(KEY, queue_of(KEY))


def test_unlock_tells_the_first_waiter_and_nobody_else(start_hasp, plain):
    hasp = is_ready(start_hasp(VERBS), plain)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third, \
            plain.pubsub() as listener:
        one.call("LOCK", KEY)
        listener.psubscribe("*")
        assert listener.get_message(timeout=30)["type"] == "psubscribe"
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        stand(plain, third, "LOCK", KEY, "WAIT", 60000)
        before = calls(plain, "eval", "evalsha")
        first, second = entries(plain)
        assert one.call("UNLOCK", KEY) == ONE
        assert other.read() == FENCE
        scripts = calls(plain, "eval", "evalsha") - before
        unless_checked(plain)
        assert scripts == 1
        assert entries(plain) == [second]
        plain.publish("end", "")
        messages = [listener.get_message(timeout=30) for _ in range(2)]
        assert [m["channel"] for m in messages] == [f"hasp:worker:{first.split('-')[0]}", "end"]
        assert messages[0]["data"].split()[:2] == [first, plain.get("hasp:fence")]


def test_fencing_tokens_rise_from_holder_to_holder(share_hasp, plain):
    hasp = share_hasp(VERBS)
    ones = [hasp.connect() for _ in range(6)]
    fences = [int(ones[0].call("LOCK", KEY)[1:])]
    for one in ones[1:]:
        stand(plain, one, "LOCK", KEY, "WAIT", 60000)
    for before, one in itertools.pairwise(ones):
        assert before.call("UNLOCK", KEY) == ONE
        fences.append(int(one.read()[1:]))
    assert fences == sorted(set(fences))
    for one in ones:
        one.close()


def in_turn(plain, holder, ones, take, give):
    """Queues all of `ones`, and checks that they get the lock in that order."""
    for one in ones:
        stand(plain, one, *take)
    for n, one in enumerate(ones):
        assert (ones[n - 1] if n else holder).call(*give) == ONE
        assert one.read() in TAKEN
        assert len(entries(plain, take[1])) == len(ones) - n - 1


def test_first_come_first_served(share_hasp, plain):
    hasp = share_hasp(VERBS)
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        ones = [hasp.connect() for _ in range(8)]
        in_turn(plain, one, ones, ("LOCK", KEY, "WAIT", 60000), ("UNLOCK", KEY))
        for other in ones:
            other.close()


def test_first_come_first_served_by_workers_and_other_hasps(start_hasp, plain):
    hasps = [start_hasp(VERBS, workers=2), start_hasp(VERBS, workers=2)]
    with hasps[0].connect() as one:
        assert one.call("LOCK", KEY) == FENCE
        ones = []
        while len(ones) < 8 or len({ticket.split("-")[0] for ticket in entries(plain)}) < 4:
            assert len(ones) < 80, "a worker has no waiter"
            ones.append(hasps[len(ones) % 2].connect())
            stand(plain, ones[-1], "LOCK", KEY, "WAIT", 20000)
        for n, other in enumerate(ones):
            assert (ones[n - 1] if n else one).call("UNLOCK", KEY) == ONE
            assert other.read() == FENCE
        for other in ones:
            other.close()


def test_first_come_first_served_under_a_rule_by_two_hasps(share_hasp, plain):
    hasps = [share_hasp(rule()), share_hasp(rule())]
    with hasps[0].connect() as one:
        assert one.call("SETNX", "lock:1", "v") == ONE
        ones = [hasps[n % 2].connect() for n in range(6)]
        in_turn(plain, one, ones, ("SETNX", "lock:1", "v"), ("DEL", "lock:1"))
        for other in ones:
            other.close()


@pytest.mark.parametrize("take", [("LOCK", KEY), ("LOCK", KEY, "WAIT", 60000)])
def test_newcomer_does_not_overtake_the_waiters(clients, plain, take):
    """Only the newcomer's LOCK finds that the lock was deleted; the queue has a waiter."""
    one, other = clients(2, VERBS)
    plain.hset(KEY, "somebody", 1)
    stand(plain, one, "LOCK", KEY, "WAIT", 60000)
    plain.delete(KEY)
    other.send(encode(*take))
    assert one.read() == FENCE
    if len(take) == 2:
        assert other.read() == NIL
    else:
        assert one.call("UNLOCK", KEY) == ONE
        assert other.read() == FENCE


def test_several_locks_have_a_queue_each(clients, plain):
    one, other, third = clients(3, VERBS)
    one.call("LOCK", "a")
    one.call("LOCK", "b")
    stand(plain, other, "LOCK", "a", "WAIT", 60000)
    stand(plain, third, "LOCK", "b", "WAIT", 60000)
    assert one.call("UNLOCK", "b") == ONE
    assert soon(plain, third) == FENCE
    assert plain.zcard(queue_of("a")) == 1


@pytest.mark.parametrize("proto, nil", [(2, NIL), (3, NIL3)])
def test_time_out_is_nil_and_leaves_the_queue(clients, plain, proto, nil):
    one, other = clients(2, VERBS)
    one.call("LOCK", KEY)
    other.call("HELLO", proto)
    began = time.monotonic()
    assert other.call("LOCK", KEY, "WAIT", 300) == nil
    assert 0.3 <= time.monotonic() - began
    nobody_waits(plain)
    assert other.call("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("take, failed", [(("SETNX", "lock:1", "w"), ZERO), (("SET", "lock:1", "w", "NX"), NIL)])
def test_time_out_under_a_rule_is_what_redis_answers(clients, plain, take, failed):
    one, other = clients(2, rule(wait="300ms"))
    one.call("SETNX", "lock:1", "v")
    began = time.monotonic()
    assert other.call(*take) == failed
    assert 0.3 <= time.monotonic() - began
    nobody_waits(plain, "lock:1")
    assert plain.get("lock:1") == "v"


def test_one_that_times_out_does_not_hold_up_those_behind_it(clients, plain):
    one, other, third = clients(3, VERBS)
    one.call("LOCK", KEY)
    stand(plain, other, "LOCK", KEY, "WAIT", 800, briefly=True)
    stand(plain, third, "LOCK", KEY, "WAIT", 60000)
    assert other.read() == NIL
    assert one.call("UNLOCK", KEY) == ONE
    assert soon(plain, third, polled=True) == FENCE


def test_wait_0_does_not_wait(clients, plain):
    one, other = clients(2, VERBS)
    assert one.call("LOCK", KEY, "WAIT", 0) == FENCE
    assert other.call("LOCK", KEY, "WAIT", 0) == NIL
    assert not plain.exists(queue_of(KEY))


@pytest.mark.parametrize("ms, error", [
    ("x", b"timeout is not an integer or out of range"),
    ("", b"timeout is not an integer or out of range"),
    ("1.5", b"timeout is not an integer or out of range"),
    ("9223372036854775808", b"timeout is not an integer or out of range"),
    ("-1", b"timeout is negative"),
])
def test_wrong_wait_is_blpops_error(share_hasp, plain, ms, error):
    with share_hasp(VERBS).connect() as one:
        assert one.call("LOCK", KEY, "WAIT", ms) == b"-ERR %s\r\n" % error
        assert not plain.exists(KEY)


@pytest.mark.parametrize("options", [("WAIT",), ("WAIT", 1, "WAIT", 1), ("WAIT", 1, "PX")])
def test_wait_that_is_no_option_is_a_syntax_error(share_hasp, options):
    with share_hasp(VERBS).connect() as one:
        assert one.call("LOCK", KEY, *options) == b"-ERR syntax error\r\n"


def test_options_come_in_any_order_and_case(clients, plain):
    one, other = clients(2, VERBS)
    one.call("LOCK", KEY)
    stand(plain, other, "lock", KEY, "wait", 9000, "As", "bob", "eX", 40)
    one.call("UNLOCK", KEY)
    assert other.read() == FENCE
    assert plain.hgetall(KEY) == {"bob": "1"}
    assert 30000 < plain.pttl(KEY) <= 40000


def test_longest_wait_is_a_wait(clients, plain):
    one, other = clients(2, VERBS)
    one.call("LOCK", KEY)
    stand(plain, other, "LOCK", KEY, "WAIT", (1 << 63) - 1 - (1 << 43))
    one.call("UNLOCK", KEY)
    assert soon(plain, other) == FENCE


def test_lock_info_tells_how_many_wait(clients, plain):
    one, other, third = clients(3, VERBS)
    one.call("LOCK", KEY)
    assert told(one, KEY)["waiters"] == 0
    stand(plain, other, "LOCK", KEY, "WAIT", 60000)
    stand(plain, third, "LOCK", KEY, "WAIT", 60000)
    assert told(one, KEY)["waiters"] == 2


def test_waiters_lock_is_renewed_unless_it_has_a_lease(clients, plain):
    one, other, third = clients(3, verbs(lease=LEASE))
    for key in ("a", "b"):
        one.call("LOCK", key)
    stand(plain, other, "LOCK", "a", "WAIT", 60000)
    stand(plain, third, "LOCK", "b", "WAIT", 60000, "PX", LEASE_MS)
    for key in ("a", "b"):
        one.call("UNLOCK", key)
    other.read(), third.read()
    until(lambda: not plain.exists("b"), "the lease to end")
    assert is_renewed(plain, "a")


def test_waiters_lock_is_released_at_disconnect_when_it_shall(share_hasp, plain):
    hasp = share_hasp(verbs(on_disconnect="release"))
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        with hasp.connect() as other:
            stand(plain, other, "LOCK", KEY, "WAIT", 60000)
            one.call("UNLOCK", KEY)
            assert other.read() == FENCE
        until(lambda: not plain.exists(KEY), "the lock to be released")


@pytest.mark.parametrize("pooling", ["session"])
@pytest.mark.parametrize("take, give", [(("LOCK", KEY, "WAIT", 60000), ("UNLOCK", KEY)),
                                        (("SETNX", "lock:1", "v"), ("DEL", "lock:1"))])
def test_answer_to_a_release_that_comes_after_the_grant_is_not_about_the_new_holder(
        start_hasp, redis_server, plain, take, give):
    """The late reply must not make hasp forget the new holder's lock, which it releases at the
    end."""
    with Relay(redis_server.address) as relay:
        hasp = is_ready(start_hasp(rule(on_disconnect="release") + verbs(on_disconnect="release"),
                                   upstream=relay.address), plain)
        with hasp.connect() as one:
            one.call(*take)
            with hasp.connect() as other:
                stand(plain, other, *take)
                relay.holds_back = ONE
                one.send(encode(*give))
                assert other.read() in TAKEN
                relay.holds_back = None
                assert one.read() == ONE
            until(lambda: not plain.exists(take[1]), "the lock to be released")
        hasp.stop()


def test_holder_that_hangs_up_hands_off(share_hasp, plain):
    hasp = share_hasp(verbs(on_disconnect="release"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.call("LOCK", KEY)
            stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        assert soon(plain, other) == FENCE


# --- owners ----------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["connection", "name", "user"])
def test_waiter_gets_the_lock_for_its_owner(share_hasp, plain, owner):
    plain.execute_command("ACL", "SETUSER", "bob", "on", "nopass", "~*", "&*", "+@all")
    hasp = share_hasp(verbs(owner=owner))
    with named(hasp.connect(), "alice") as one, named(hasp.connect(), "bob") as other:
        assert other.call("AUTH", "bob", "x") == OK
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        one.call("UNLOCK", KEY)
        assert other.read() == FENCE
        (token,) = plain.hgetall(KEY)
        assert owner == "connection" or token.endswith("bob")
        assert one.call("UNLOCK", KEY) == ZERO
        assert other.call("UNLOCK", KEY) == ONE


def test_address_that_holds_a_lock_gets_in_again_and_others_wait(clients, plain):
    one, same, other = clients(3, verbs(owner="address"))
    one.call("LOCK", KEY)
    assert same.call("LOCK", KEY, "WAIT", 60000) == FENCE
    stand(plain, other, "LOCK", KEY, "WAIT", 60000, "AS", "other")
    assert same.call("UNLOCK", KEY) == ONE
    assert len(entries(plain)) == 1
    assert one.call("UNLOCK", KEY) == ONE
    assert soon(plain, other) == FENCE


def test_named_owner_waits_and_another_connection_of_its_releases(share_hasp, plain):
    hasp, away = share_hasp(VERBS), share_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, away.connect() as third:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000, "AS", "bob")
        one.call("UNLOCK", KEY)
        assert other.read() == FENCE
        assert third.call("UNLOCK", KEY, "AS", "bob") == ONE
        assert not plain.exists(KEY)


def test_count_is_shared_by_an_owners_connections_at_two_hasps(share_hasp, plain):
    hasp, away = share_hasp(VERBS), share_hasp(VERBS)
    with hasp.connect() as one, away.connect() as two, hasp.connect() as other:
        bob = ("AS", "bob")
        assert one.call("LOCK", KEY, "WAIT", 60000, *bob) == FENCE
        stand(plain, other, "LOCK", KEY, "WAIT", 60000, "AS", "ann")
        # The owner has the lock already, so it does not queue after the waiters.
        assert two.call("LOCK", KEY, "WAIT", 60000, *bob) == FENCE
        assert one.call("UNLOCK", KEY, *bob) == ONE
        assert entries(plain) and plain.hgetall(KEY) == {"bob": "1"}
        assert one.call("UNLOCK", KEY, *bob) == ONE
        assert soon(plain, other) == FENCE


def test_waiters_of_one_owner_all_get_in(share_hasp, plain):
    hasp, away = share_hasp(VERBS), share_hasp(VERBS)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        same = [(hasp, away)[n % 2].connect() for n in range(4)]
        for other in same:
            stand(plain, other, "LOCK", KEY, "WAIT", 4000, "AS", "bob")
        one.call("UNLOCK", KEY)
        assert [other.read() for other in same] == [FENCE] * 4
        assert plain.hgetall(KEY) == {"bob": "4"}
        for other in same:
            assert other.call("UNLOCK", KEY, "AS", "bob") == ONE
            other.close()
        assert not plain.exists(KEY)


def test_refreshing_owner_gets_in_again_and_others_wait(clients, plain):
    one, other = clients(2, verbs(reentrant="refresh"))
    assert one.call("LOCK", KEY, "PX", 20000) == FENCE
    stand(plain, other, "LOCK", KEY, "WAIT", 60000)
    assert one.call("LOCK", KEY, "PX", 60000, "WAIT", 60000) == FENCE
    assert plain.pttl(KEY) > 50000
    assert one.call("UNLOCK", KEY) == ONE
    assert soon(plain, other) == FENCE


def test_layout_no_makes_its_own_owner_wait(clients, plain):
    one, other = clients(2, verbs(reentrant="no"))
    assert one.call("LOCK", KEY, "AS", "bob") == FENCE
    stand(plain, other, "LOCK", KEY, "WAIT", 60000, "AS", "bob")
    assert one.call("UNLOCK", KEY, "AS", "bob") == ONE
    assert soon(plain, other) == FENCE
