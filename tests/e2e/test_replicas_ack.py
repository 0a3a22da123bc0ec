# SPDX-License-Identifier: BSD-3-Clause
"""`replicas_ack`: a client gets a lock only when enough replicas have it."""

import contextlib
import re
import socket

import pytest
from harness import encode, until
from harness.info import calls, is_waited
from harness.line import stand
from harness.marks import covers
from harness.relay import Relay
from harness.replicas import Replicas
from harness.replies import FENCE, NIL, NOREPLICAS, OK, ONE, PONG, TAKEN, ZERO
from harness.sections import rule, verbs

KEY, LOCK = "k", "lock:1"
LONG = "20s"
TAKES = [("LOCK", KEY), ("LOCK", KEY, "WAIT", 60000), ("LOCK", KEY, "LIMIT", 1, "WAIT", 60000),
         ("LOCK", KEY, "EXCLUSIVE", "WAIT", 60000), ("SETNX", LOCK, "v"),
         ("SET", LOCK, "v", "NX"), ("SET", LOCK, "v"), ("INCR", LOCK), ("GETSET", LOCK, "v"),
         ("MSETNX", LOCK, "v", "lock:2", "v")]
takes = pytest.mark.parametrize("take", TAKES, ids=str)


@pytest.fixture
def plain(servers):
    return servers.primary.client()


@pytest.fixture
def start(replicas, start_hasp, servers):
    """start(rules, *terms) starts a hasp; `terms` are options that say how many replicas must have
    a lock."""
    def start_with(rules=None, *terms):
        upstream = "address = %s:%d" % servers.primary.address
        return start_hasp(rule(wait="60s") + verbs() if rules is None else rules,
                          upstream="\n".join([upstream, *terms])).is_up()
    return start_with


def key_of(take):
    return take[1]


def give(take):
    return ("UNLOCK", KEY) if take[0] == "LOCK" else ("DEL", LOCK)


@covers("replicas_ack")
@takes
def test_lock_that_a_client_is_told_of_is_on_as_many_replicas(start, replicas, take):
    hasp = start(None, "replicas_ack = 2", f"replicas_ack_timeout = {LONG}")
    with hasp.connect() as one:
        answer = one.call(*take)
        assert all(replica.client().exists(key_of(take)) for replica in replicas)
        assert answer in (*TAKEN, NIL) and one.call(*give(take)) == ONE


@takes
def test_lock_of_which_too_few_replicas_tell_is_given_back_first(start, replicas, plain, take):
    hasp = start(None, "replicas_ack = 2", "replicas_ack_timeout = 100ms")
    with hasp.connect() as one, replicas[1].frozen():
        assert one.call(*take) == NOREPLICAS
        assert not plain.exists(key_of(take), f"hasp:owner:{{{key_of(take)}}}", f"hasp:fence:{{{key_of(take)}}}")
        until(lambda: not plain.exists("lock:2"), "MSETNX's other lock to be released")
        assert one.call("PING") == PONG and one.call(*give(take)) == ZERO
    # On a busy machine, hasp may not get to WAIT in that time, and then logs got=-1.
    assert re.search(r"replicas_ack_failed db=0 .* wanted=2 got=(-1|0|1) ", hasp.log)


@pytest.mark.parametrize("settings, again", [
    ({}, ("SET", LOCK, "w")), ({"owner": "value"}, ("SET", LOCK, "w")), ({"owner": "value"}, ("GETSET", LOCK, "w")),
    ({"owner": "value", "reentrant": "refresh"}, ("SETNX", LOCK, "v"))], ids=str)
@pytest.mark.parametrize("ends", ["DEL", "disconnect"])
def test_owner_keeps_a_lock_that_it_set_again_although_too_few_replicas_have_that(
        start, replicas, plain, settings, again, ends):
    hasp = start(rule(on_disconnect="release", **settings), "replicas_ack = 2", "replicas_ack_timeout = 500ms")
    with hasp.connect() as one:
        until(lambda: one.call("SETNX", LOCK, "v") == ONE, "the lock to be taken")
        with replicas[1].frozen():
            assert one.call(*again) == NOREPLICAS
        assert plain.get(LOCK) == again[2]
        if ends == "DEL":
            assert one.call("DEL", LOCK) == ONE
    until(lambda: not plain.exists(LOCK), "the lock to be released")


@takes
def test_replicas_beyond_those_are_not_waited_for(start, replicas, take):
    hasp = start(None, "replicas_ack = 1", f"replicas_ack_timeout = {LONG}")
    with hasp.connect() as one, replicas[1].frozen():
        assert one.call(*take) in (*TAKEN, NIL)
        assert replicas[0].client().exists(key_of(take))
    with start(None).connect() as one, replicas[0].frozen(), replicas[1].frozen():
        assert one.call("LOCK", "other") == FENCE and one.call("SETNX", "lock:other", "v") == ONE


@pytest.mark.parametrize("take, refused", [(("LOCK", KEY), NIL), (("SETNX", LOCK, "v"), ZERO),
                                           (("SET", LOCK, "v", "NX"), NIL)], ids=str)
def test_refusal_of_a_lock_does_not_ask_the_replicas(start, replicas, plain, take, refused):
    hasp = start(rule() + verbs(), "replicas_ack = 2", f"replicas_ack_timeout = {LONG}")
    with start().connect() as other, hasp.connect() as one, replicas[0].frozen():
        assert other.call(*take) in TAKEN
        before = calls(plain, "wait")
        assert one.call(*take) == refused and calls(plain, "wait") == before


@pytest.mark.parametrize("take", TAKES[1:5], ids=str)
def test_lock_that_is_handed_over_is_on_replicas_too(start, replicas, plain, take):
    """The connection of the releasing client wrote the new owner's lock."""
    hasp, away = start(None, "replicas_ack = 1", f"replicas_ack_timeout = {LONG}"), start()
    with away.connect() as holder, hasp.connect() as one:
        assert holder.call(*take) in TAKEN
        stand(plain, one, *take)
        assert holder.call(*give(take)) == ONE
        assert one.read() in TAKEN
        assert any(replica.client().exists(key_of(take)) for replica in replicas)


@pytest.mark.parametrize("take", TAKES[1:5], ids=str)
def test_lock_that_is_handed_over_and_that_too_few_replicas_have_is_given_back(start, replicas, plain, take):
    hasp, away = start(None, "replicas_ack = 1", "replicas_ack_timeout = 200ms"), start()
    with away.connect() as holder, hasp.connect() as one, replicas[0].frozen(), replicas[1].frozen():
        assert holder.call(*take) in TAKEN
        stand(plain, one, *take)
        assert holder.call(*give(take)) == ONE
        assert one.read() == NOREPLICAS
        until(lambda: not plain.exists(key_of(take)), "the lock to be released")


@covers("replicas_ack_timeout")
def test_redis_waits_for_the_replicas_as_long_as_replicas_ack_timeout_says(start, plain):
    hasp = start(None, "replicas_ack = 1", "replicas_ack_timeout = 15s")
    with hasp.connect() as one, plain.monitor() as monitor:
        assert one.call("LOCK", KEY) in TAKEN
        until(lambda: monitor.next_command()["command"] == "WAIT 1 15000", "that WAIT in MONITOR")


def test_lock_that_its_owner_had_already_stays(start, replicas, plain):
    hasp, patient = (start(None, "replicas_ack = 1", f"replicas_ack_timeout = {timeout}")
                     for timeout in ("100ms", LONG))
    lock, unlock = ("LOCK", KEY, "AS", "alice"), ("UNLOCK", KEY, "AS", "alice")
    with hasp.connect() as one, patient.connect() as other:
        first = other.call(*lock)
        with replicas[0].frozen(), replicas[1].frozen():
            assert one.call(*lock) == NOREPLICAS
        assert plain.hvals(KEY) == ["1"]
        assert other.call(*lock) == first
        assert other.call(*unlock) == other.call(*unlock) == ONE and not plain.exists(KEY)


@pytest.mark.parametrize("take, release", [(("LOCK", KEY), ("UNLOCK", KEY)), (("SETNX", LOCK, "v"), ("DEL", LOCK)),
                                           (("MLOCK", 2, KEY, "other"), ("MUNLOCK", 2, KEY, "other"))], ids=str)
def test_refresh_that_too_few_replicas_have_leaves_the_lock_to_its_owner_s_other_connection(
        start, replicas, plain, take, release):
    again = {"owner": "address", "reentrant": "refresh", "on_disconnect": "release"}
    hasp = start(rule(**again) + verbs(**again), "replicas_ack = 1", "replicas_ack_timeout = 500ms")
    with hasp.connect() as one:
        until(lambda: one.call(*take) in TAKEN, "the lock to be taken")
        with hasp.connect() as other:
            until(lambda: other.call("LOCK", "its own") in TAKEN, "the other connection to have a lock")
            with replicas[0].frozen(), replicas[1].frozen():
                assert other.call(*take) == NOREPLICAS
        until(lambda: not plain.exists("its own"), "the other connection's lock to be released")
        assert one.call(*release) != ZERO


@pytest.mark.parametrize("rules, asks", [
    (rule(replicas_ack=0) + verbs(), (True, False)), (rule() + verbs(replicas_ack=0), (False, True)),
    (rule() + verbs(), (True, True))], ids=["rule", "verbs", "neither"])
def test_rules_and_verbs_may_have_their_own_number(start, replicas, plain, rules, asks):
    hasp = start(rules, "replicas_ack = 2", f"replicas_ack_timeout = {LONG}")
    with hasp.connect() as one:
        for take, expected in zip((("LOCK", KEY), ("SETNX", LOCK, "v")), asks, strict=True):
            before = calls(plain, "wait")
            assert one.call(*take) in TAKEN
            assert (calls(plain, "wait") > before) == expected


def test_one_wait_serves_all_clients_that_took_locks_meanwhile(start, replicas, plain):
    hasp = start(None, "replicas_ack = 2", f"replicas_ack_timeout = {LONG}")
    with contextlib.ExitStack() as clients:
        ones, before = [clients.enter_context(hasp.connect()) for _ in range(50)], calls(plain, "wait")
        with replicas[0].frozen():
            ones[0].send(encode("LOCK", "k0"))
            until(lambda: is_waited(plain), "hasp to wait for the replicas")
            for n, one in enumerate(ones[1:], 1):
                one.send(encode("LOCK", f"k{n}") if n % 2 else encode("SETNX", f"lock:{n}", "v"))
            keys = [f"{'k' if n % 2 or not n else 'lock:'}{n}" for n in range(50)]
            until(lambda: plain.exists(*keys) == 50, "all locks to be taken")
            hasp.take_turn()
        assert all(one.read() in TAKEN for one in ones)
    assert calls(plain, "wait") == before + 2


def test_lock_of_a_client_that_hangs_up_while_replicas_are_asked_is_undone(start, replicas, plain):
    hasp = start(rule(on_disconnect="release") + verbs(on_disconnect="release"), "replicas_ack = 2",
                 f"replicas_ack_timeout = {LONG}")
    with replicas[0].frozen():
        for take in (("LOCK", KEY), ("SETNX", LOCK, "v")):
            with hasp.connect() as one:
                one.send(encode(*take))
                until(lambda: is_waited(plain) or plain.exists(key_of(take)), "the lock to be taken")  # noqa: B023
            until(lambda: not plain.exists(key_of(take)), "the lock to be undone")  # noqa: B023


@pytest.mark.parametrize("take", [("LOCK", KEY), ("SETNX", LOCK, "v")], ids=str)
def test_lock_of_a_client_that_hangs_up_before_replicas_are_asked_is_undone_at_once(start, replicas, plain, take):
    hasp = start(rule(on_disconnect="release") + verbs(on_disconnect="release"), "replicas_ack = 2",
                 f"replicas_ack_timeout = {LONG}")
    before = calls(plain, "evalsha")
    with replicas[0].frozen():
        with hasp.connect() as one:
            one.send(encode(*take))
        until(lambda: calls(plain, "evalsha") > before, "the lock to be taken")
        until(lambda: not plain.exists(key_of(take)), "the lock to be undone")
        until(lambda: is_waited(plain), "hasp to wait for the replicas")


@pytest.mark.parametrize("take", [("LOCK", KEY), ("SETNX", LOCK, "v")], ids=str)
def test_client_that_shuts_down_its_sending_side_while_replicas_are_asked_gets_an_error(start, replicas, plain, take):
    hasp = start(None, "replicas_ack = 2", f"replicas_ack_timeout = {LONG}")
    with replicas[0].frozen(), hasp.connect() as one:
        one.send(encode(*take))
        one.sock.shutdown(socket.SHUT_WR)
        assert one.read().startswith(b"-ERR hasp: the client shut down its sending side before replicas had its lock")
        assert one.at_end()
        until(lambda: not plain.exists(key_of(take)), "the lock to be released")


def test_commands_behind_wait_and_others_do_not(start, replicas, plain):
    hasp = start(None, "replicas_ack = 2", f"replicas_ack_timeout = {LONG}")
    with hasp.connect() as one, hasp.connect() as other:
        with replicas[0].frozen():
            one.send(encode("LOCK", KEY) + encode("SET", "behind", 1))
            until(lambda: is_waited(plain), "hasp to wait for the replicas")
            assert other.call("SET", "x", 1) == OK and not plain.exists("behind")
        assert one.read() == FENCE and one.read() == OK


def test_user_that_may_not_ask_is_told_so_by_the_log(start, replicas, plain):
    plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "&*", "+@all", "-wait")
    hasp = start(None, "replicas_ack = 1", f"replicas_ack_timeout = {LONG}", "user = hasp", "password = pw")
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == NOREPLICAS and not plain.exists(KEY)
    assert "NOPERM" in hasp.log


@takes
def test_server_that_does_not_have_the_lock_confirms_nothing(start_hasp, servers, replicas, plain, take):
    """The client's link leads to the old primary, hasp's own connection to one without the lock."""
    with Replicas(1) as elsewhere, Relay(servers.primary.address) as relay:
        hasp = start_hasp(rule() + verbs(), upstream=f"address = {relay.address}\nreplicas_ack = 1\n"
                          f"replicas_ack_timeout = {LONG}").is_up()
        with hasp.connect() as one:
            assert one.call("PING") == PONG
            relay.target = elsewhere.primary.address
            assert one.call(*take) == NOREPLICAS
            assert not plain.exists(key_of(take))
        assert "the server does not have the lock" in hasp.log


def test_primary_that_dies_while_replicas_are_asked_gives_no_lock(start_hasp, pooling):
    with Replicas(2) as servers:
        hasp = start_hasp(verbs(), upstream="address = %s:%d\nreplicas_ack = 2\nreplicas_ack_timeout = 20s" %
                          servers.primary.address).is_up()
        with hasp.connect() as one, servers.replicas[0].frozen():
            one.send(encode("LOCK", KEY))
            until(lambda: is_waited(servers.primary.client()), "hasp to wait for the replicas")
            servers.primary.kill()
            assert one.at_end() if pooling == "session" else one.read() == NOREPLICAS
