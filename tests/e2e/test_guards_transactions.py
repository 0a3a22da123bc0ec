# SPDX-License-Identifier: BSD-3-Clause
"""Guards with MULTI, WATCH and EXEC: which commands are refused or fail, and which count as
reads."""

import threading

import pytest
from harness import encode
from harness.guards import GUARD, KEY, guard, held, is_locked, is_lost, nothing_left, overtake, transact
from harness.poolings import pooling  # noqa: F401
from harness.relay import Relay
from harness.replies import EXECABORT, NIL, OK, ONE, QUEUED, WRONGTYPE, bulk
from harness.sections import rule
from harness.wait import until


@pytest.mark.parametrize("command", [("get", "other"), ("IncrbY", "other", 1), ("srem", "other", 1)])
def test_exec_is_not_mistaken_for_a_command_of_its_block(clients, command):
    """hasp must not take the name of a queued command for EXEC's."""
    one, = clients(1, guard(acquire_on="GET"))
    assert transact(one, command, ("SET", "other", 1))[-1].startswith(b"*2\r\n")
    assert transact(one, command, ("SET", KEY, 1))[-1].startswith(b"*2\r\n")
    assert one.call("PING") == b"+PONG\r\n"


def test_write_that_failed_in_a_transaction_keeps_its_guard(share_hasp, plain):
    hasp = share_hasp(guard())
    plain.set(KEY, "text")
    with hasp.connect() as one:
        assert one.call("GET", KEY) == bulk("text")
        assert transact(one, ("LPUSH", KEY, 1), ("SET", "other", 1))[-1] == b"*2\r\n" + WRONGTYPE + OK
        assert plain.exists(GUARD)
        overtake(plain)
        assert is_lost(one.call("SET", KEY, 1))


def test_read_in_a_transaction_with_a_failed_write_counts(share_hasp, plain):
    hasp = share_hasp(guard())
    plain.set(KEY, "text")
    with hasp.connect() as one:
        assert transact(one, ("LPUSH", KEY, 1), ("GET", KEY))[-1] == b"*2\r\n" + WRONGTYPE + bulk("text")
        overtake(plain)
        assert is_lost(one.call("SET", KEY, 1))


def test_write_that_failed_keeps_the_guard_where_the_application_watches(share_hasp, plain):
    hasp = share_hasp(guard())
    plain.set(KEY, "text")
    with hasp.connect() as one:
        one.call("WATCH", KEY)
        one.call("GET", KEY)
        assert transact(one, ("LPUSH", KEY, 1))[-1] == b"*1\r\n" + WRONGTYPE
        overtake(plain)
        assert is_lost(one.call("SET", KEY, 1))


def test_command_that_was_refused_when_it_was_queued_is_not_carried_out(start_hasp, plain):
    """hasp sends a guarded transaction again at EXEC, when Redis might queue the command."""
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        assert [one.call("MULTI"), one.call("SET", "free", 1)] == [OK, QUEUED]
        plain.config_set("maxmemory", 1)
        assert one.call("SET", KEY, 1).startswith(b"-OOM ")
        plain.config_set("maxmemory", 0)
        assert one.call("EXEC") == EXECABORT
        assert plain.exists(KEY, "free") == 0
        nothing_left(plain)
        # The next transaction succeeds.
        assert transact(one, ("SET", KEY, 1))[-1] == b"*1\r\n" + OK


@pytest.mark.parametrize("command", [("RESET", "x"), ("DISCARD", "x"), ("MULTI", "x"), ("WATCH",),
                                     ("UNWATCH", "x"), ("GET",)])
@pytest.mark.parametrize("at_once", [True, False])
def test_wrong_number_of_arguments_aborts_the_transaction(share_hasp, plain, command, at_once):
    hasp = share_hasp(guard())
    commands = [("MULTI",), command, ("SET", KEY, 1), ("EXEC",)]
    with hasp.connect() as one:
        if at_once:
            one.send(b"".join(encode(*c) for c in commands))
            replies = [one.read() for _ in commands]
        else:
            replies = [one.call(*c) for c in commands]
        assert replies[1].startswith(b"-ERR wrong number") and replies[2:] == [QUEUED, EXECABORT]
        assert not plain.exists(KEY)
        assert transact(one, ("SET", KEY, 1))[-1] == b"*1\r\n" + OK
    nothing_left(plain)


@pytest.mark.parametrize("rules", [guard(), rule()], ids=["guard", "lock"])
def test_exec_with_an_argument_ends_the_transaction(share_hasp, plain, rules):
    key = KEY if "guard" in rules else "lock:1"
    with share_hasp(rules).connect() as one:
        assert transact(one, ("SET", key, 1, "NX"), ("EXEC", "x"))[2].startswith(b"-EXECABORT Transaction discarded because")
        one.send(b"".join(encode(*c) for c in [
            ("MULTI",), ("EXEC", "x"), ("SET", key, 1, "NX"), ("EXEC",), ("DEL", key)]))
        replies = [one.read() for _ in range(5)]
        assert replies[2:] == [OK, b"-ERR EXEC without MULTI\r\n", ONE]
    nothing_left(plain)


def test_refusal_in_a_discarded_transaction_is_forgotten(share_hasp, plain):
    hasp = share_hasp(guard())
    with hasp.connect() as one:
        one.send(b"".join(encode(*c) for c in [
            ("MULTI",), ("NOSUCH",), ("DISCARD",), ("MULTI",), ("SET", KEY, 1), ("EXEC",)]))
        replies = [one.read() for _ in range(6)]
        assert replies[1].startswith(b"-ERR unknown") and replies[-1] == b"*1\r\n" + OK
    nothing_left(plain)


def test_transaction_that_is_refused_leaves_no_guard(clients, plain):
    one, = clients(1, guard(lease="60s"))
    assert transact(one, ("SET", KEY, 1), ("NOSUCH",))[-1] == EXECABORT
    nothing_left(plain)


@pytest.mark.parametrize("command", [("EVAL", "return 1", 1, KEY), ("HDEL", KEY, "f")])
def test_transaction_that_does_not_release_leaves_no_guard_that_nobody_has_read_under(clients, plain, command):
    one, = clients(1, guard(lease="60s", release_on="HSET"))
    assert transact(one, command)[-1].startswith(b"*1\r\n:")
    nothing_left(plain)


def test_multi_that_redis_refuses_guards_what_follows(share_hasp, plain):
    """If Redis refuses MULTI, it runs the commands after it at once, so hasp must guard each."""
    hasp = share_hasp(guard(wait="50ms"))
    with held(hasp), hasp.connect() as one:
        one.send(encode("MULTI", "x") + encode("SET", "free", 1) + encode("SET", KEY, "blind"))
        assert one.read().startswith(b"-ERR wrong number") and one.read() == OK
        assert is_locked(one.read())
        assert not plain.exists(KEY)


def test_transaction_that_redis_refused_is_not_carried_out_with_the_next(clients, plain):
    plain.execute_command("ACL", "SETUSER", "default", "-multi")
    one, = clients(1, guard())
    one.send(encode("MULTI") + encode("INCR", "free"))
    assert one.read().startswith(b"-NOPERM") and one.read() == ONE
    plain.execute_command("ACL", "SETUSER", "default", "+multi")
    assert transact(one, ("SET", KEY, 1))[-1] == b"*1\r\n" + OK
    assert plain.get("free") == "1"


@pytest.mark.parametrize("rules", [guard(), rule(), ""], ids=["guard", "lock", "none"])
def test_transaction_reaches_redis_before_multi_is_answered(start_hasp, plain, redis_server, rules):
    """hasp sends a transaction on at once only if none of its keys has a guard or a rule. (A first
    transaction waits for a link of the client's own.)"""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(rules, upstream=relay.address)
        with hasp.connect() as one:
            transact(one, ("SET", "first", 1))
            relay.holds_back = OK
            one.send(b"".join(encode(*c) for c in [("MULTI",), ("SET", "free", 1), ("INCR", "free"), ("EXEC",)]))
            until(lambda: plain.get("free") == "2", "Redis to run the transaction")
            relay.holds_back = None
            assert [one.read() for _ in range(4)] == [OK, QUEUED, QUEUED, b"*2\r\n" + OK + b":2\r\n"]


def test_refused_multi_does_not_end_the_transaction_that_was_sent_after_it(share_hasp, plain):
    plain.execute_command("ACL", "SETUSER", "default", "-multi")
    hasp = share_hasp(guard())
    with hasp.connect() as one:
        one.send(b"".join(encode(*c) for c in [
            ("MULTI",), ("EXEC",), ("ACL", "SETUSER", "default", "+multi"),
            ("MULTI",), ("SET", "free", 1), ("SET", KEY, 1), ("EXEC",)]))
        replies = [one.read() for _ in range(7)]
    assert replies[0].startswith(b"-NOPERM") and replies[1].startswith(b"-ERR EXEC without MULTI")
    assert replies[2:] == [OK, OK, QUEUED, QUEUED, b"*2\r\n" + OK + OK]
    nothing_left(plain)


@pytest.mark.parametrize("command", [("INCR", KEY), ("EVAL", "return 1", 1, KEY)])
def test_watch_is_not_ended_by_a_fenced_command(clients, plain, command):
    one, = clients(1, guard())
    assert one.call("WATCH", "mine") == OK
    reply = one.call(*command)
    plain.set("mine", "changed")
    if not reply.startswith(b"-ERR hasp: "):
        assert reply == ONE
    assert transact(one, ("SET", "free", 1))[-1] == b"*-1\r\n"
    assert not plain.exists("free")
    assert one.call(*command) == ONE


def test_unwatch_that_redis_refuses_watches_on(clients, plain):
    one, = clients(1, guard())
    assert one.call("WATCH", KEY) == OK
    assert one.call("GET", KEY) == NIL
    assert one.call("UNWATCH", "x").startswith(b"-ERR wrong number")
    plain.set(KEY, "changed")
    assert transact(one, ("SET", KEY, 1))[-1] == b"*-1\r\n"
    assert plain.get(KEY) == "changed"


class Queueing(Relay):
    """A relay that passes +QUEUED to hasp only after hasp has sent DISCARD."""

    def __init__(self, target):
        self.discarded = threading.Event()
        super().__init__(target)

    def _pass_on(self, data, source, sink, replies):
        if not replies and b"DISCARD" in data:
            self.discarded.set()
        if replies and QUEUED in data:
            at = data.index(QUEUED)
            sink.sendall(data[:at])
            data = data[at:]
            self.discarded.wait()
        sink.sendall(data)


def test_discard_of_a_refused_transaction_is_not_answered_to_the_client(redis_server, start_hasp):
    with Queueing(redis_server.address) as relay, start_hasp(guard(), upstream=relay.address).connect() as one:
        one.send(b"".join(encode(*command) for command in [
            ("MULTI",), ("SELECT", 1), ("SET", KEY, 1), ("EXEC",), ("CLIENT", "REPLY", "SKIP"), ("PING",),
            ("ECHO", "end")]))
        assert [one.read() for _ in range(3)] == [OK, QUEUED, QUEUED]
        assert one.read().startswith(b"-ERR hasp: nothing was written: a transaction with guarded keys may not")
        assert one.read() == bulk("end")
