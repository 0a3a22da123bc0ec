# SPDX-License-Identifier: BSD-3-Clause
"""Reading again what was lost: what makes a later write good, and what does not.

Whatever goes wrong: no client overwrites what another one has written and it has not read.
"""

import select
import signal
import socket

import pytest
from harness import encode, until
from harness.gates import Releases
from harness.guards import (GUARD, KEY, QUEUE, guard, is_locked, is_lost, named, nothing_left, overtake, stands,
                            transact)
from harness.relay import Relay
from harness.replies import EXECABORT, NIL, OK, ONE, WRONGTYPE, bulk
from harness.sections import TRUSTED

SECOND = "stock:2"
# Connections of one address or user share a guard as those of one name do.
ANY = pytest.mark.parametrize("owner", ["connection", "name"])


def unread(connection):
    """What has come for it, and was not read yet."""
    there = select.select([connection.sock], [], [], 0)[0]
    return connection.sock.recv(4096, socket.MSG_PEEK) if there else b""


@ANY
def test_key_that_was_lost_is_not_had_again_by_waiting_for_another(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, wait="50ms", lease="60s"))
    with named(hasp, "a") as one, named(hasp, "b") as other, named(hasp, "c") as third:
        assert one.call("GET", KEY) == NIL
        plain.delete(GUARD)
        assert other.call("GET", KEY) == NIL
        assert other.call("SET", KEY, "other") == OK
        assert third.call("GET", SECOND) == NIL
        assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@ANY
def test_guard_that_comes_when_nobody_waits_any_more_makes_nothing_good(start_hasp, plain, owner):
    """It was granted to a client that had left the line, as far as that client knows."""
    hasp = start_hasp(guard(owner=owner, wait="200ms", lease="60s"))
    with named(hasp, "a") as one, named(hasp, "b") as other:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        assert other.call("GET", KEY) == bulk("other")
        stands(plain, one, "GET", KEY)
        token = plain.zrange(QUEUE, 0, 0)[0].split(" ")[-1]
        assert is_locked(one.read())
        plain.set(GUARD, token)
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@ANY
def test_wait_in_vain_for_a_second_key_keeps_the_first(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, wait="50ms", lease="60s"))
    with named(hasp, "a") as one, named(hasp, "b") as other:
        assert one.call("GET", KEY) == NIL
        assert other.call("GET", SECOND) == NIL
        assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
        assert one.call("SET", KEY, "one") == OK


def test_guard_that_is_handed_to_a_waiter_that_has_given_up_makes_nothing_good(start_hasp, plain):
    """Twice: by the first one its owner reads, by the second one it has the guard again."""
    settings = guard(owner="name", wait="60s", lease="60s")
    hasp, gone, other = (start_hasp(file, **TRUSTED) for file in (settings, settings, guard(wait="60s", lease="60s")))
    with other.connect() as first, other.connect() as second, named(hasp, "x") as one, \
            named(gone, "x") as two, named(gone, "x") as three:
        assert first.call("GET", KEY) == NIL
        stands(plain, two, "GET", KEY)
        stands(plain, second, "GET", KEY)
        stands(plain, three, "GET", KEY)
        gone.freeze()
        try:
            assert first.call("SET", KEY, "first") == OK
            assert one.call("GET", KEY) == bulk("first")
            plain.delete(GUARD)
            assert second.read() == bulk("first")
            assert second.call("SET", KEY, "second") == OK
            assert plain.zcard(QUEUE) == 0 and plain.exists(GUARD)
            assert is_lost(one.call("SET", KEY, "one"))
            assert plain.get(KEY) == "second"
        finally:
            gone.signal(signal.SIGCONT)


def test_outcome_that_is_not_known_is_told_though_more_is_on_its_way(start_hasp, plain, redis_server):
    """What the read had taken by plain commands, when somebody stood in line, is being released."""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard(), upstream=relay.address).is_up()
        with hasp.connect() as one:
            for key, cut in ((SECOND, False), (KEY, True)):
                plain.set(key, 5)
                plain.zadd(f"hasp:queue:hasp:guard:{{{key}}}:", {"somebody": 1})
                # In one piece or two.
                relay.holds_back = (ONE, ONE + bulk("5")) if cut else None
                one.send(encode("GET", key))
                assert cut or one.read() == bulk("5")
            until(lambda: plain.get(GUARD) and not plain.exists(QUEUE), "its script to be carried out")
            hasp.take_turn()
            relay.cut()
            assert one.read().endswith(b"; whether the command was carried out is not known\r\n")
            relay.holds_back = None


@pytest.mark.parametrize("reads_itself", [True, False])
def test_read_in_a_transaction_that_is_refused_makes_nothing_good(start_hasp, plain, reads_itself):
    hasp = start_hasp(guard(owner="name", lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        assert transact(one if reads_itself else two, ("GET", KEY), ("NOSUCH",))[-1] == EXECABORT
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"
        assert not plain.exists(GUARD)


FAILING = pytest.mark.parametrize("command", [("HGET", KEY, "f"), ("XRANGE", KEY, "-", "+")])


@FAILING
def test_read_that_fails_makes_nothing_good(start_hasp, plain, command):
    hasp = start_hasp(guard(owner="name", acquire_on="GET HGET XRANGE", wait="60s", lease="60s"))
    other = start_hasp(guard(lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two, other.connect() as first:
        assert one.call("GET", KEY) == NIL
        plain.delete(GUARD)
        assert first.call("GET", KEY) == NIL
        stands(plain, two, *command)
        assert first.call("SET", KEY, "first") == OK
        assert two.read() == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "first"


@FAILING
def test_read_that_fails_at_once_makes_nothing_good(start_hasp, plain, command):
    hasp = start_hasp(guard(owner="name", acquire_on="GET HGET XRANGE", lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        assert two.call(*command) == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@pytest.mark.parametrize("commands, answer", [
    ([("XRANGE", KEY, "-", "+")], WRONGTYPE),
    ([("MULTI",), ("GET", KEY), ("NOSUCH",), ("EXEC",)], EXECABORT)])
def test_read_that_fails_is_answered_when_its_guard_is_released(start_hasp, redis_server, plain, commands, answer):
    """What another connection of the owner writes then goes over another link, and may be faster."""
    with Releases(redis_server.address) as relay:
        hasp = start_hasp(guard(owner="name", acquire_on="GET XRANGE", lease="60s"), upstream=relay.address)
        with named(hasp, "x") as one, named(hasp, "x") as two:
            assert one.call("GET", KEY) == NIL
            overtake(plain)
            relay.shut(requests={"release"})
            two.send(b"".join(encode(*command) for command in commands))
            until(lambda: relay.waiting, "the guard to be about to be released")
            hasp.take_turn()
            assert answer not in unread(two)
            relay.open()
            assert [two.read() for _ in commands][-1] == answer
            assert is_lost(one.call("SET", KEY, "one"))
            assert plain.get(KEY) == "other"


@pytest.mark.parametrize("allowed, answer", [("+", WRONGTYPE), ("-", b"-NOPERM ")])
def test_write_that_reads_and_fails_is_answered_in_redis_words(start_hasp, plain, allowed, answer):
    """No script can run it: RESP3 has sets."""
    hasp = start_hasp(guard(owner="name", acquire_on="SPOP"))
    plain.set(KEY, "no set")
    with named(hasp, "x") as one:
        one.call("HELLO", 3)
        plain.execute_command("ACL", "SETUSER", "default", f"{allowed}spop")
        assert one.call("SPOP", KEY).startswith(answer)
        assert not plain.exists(GUARD)


@pytest.mark.parametrize("command", [("XRANGE", KEY, "-", "+"), ("MULTI",)])
def test_guard_that_nobody_came_for_makes_nothing_good(start_hasp, plain, command):
    """It was handed to a try that had been given up; then a read of the same owner fails."""
    hasp = start_hasp(guard(owner="name", acquire_on="GET XRANGE", lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        token = plain.get(GUARD)
        plain.set(KEY, "other")
        plain.set(GUARD, f"{token} 1-1")
        if command == ("MULTI",):
            assert transact(two, ("GET", KEY), ("NOSUCH",))[-1] == EXECABORT
        else:
            assert two.call(*command) == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


def test_guard_is_released_by_a_command_that_waited_and_failed(start_hasp, plain):
    hasp = start_hasp(guard(owner="name", wait="60s", lease="60s"))
    other = start_hasp(guard(lease="60s"))
    with named(hasp, "x") as one, other.connect() as first:
        assert first.call("GET", KEY) == NIL
        stands(plain, one, "INCR", KEY)
        assert first.call("SET", KEY, "word") == OK
        assert one.read() == b"-ERR value is not an integer or out of range\r\n"
        until(lambda: not plain.exists(GUARD), "the guard to be released")


@ANY
def test_client_that_gave_up_waiting_for_a_second_key_keeps_no_guard(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, wait="50ms", lease="60s"))
    with named(hasp, "a") as one, named(hasp, "b") as other:
        assert other.call("GET", SECOND) == NIL
        assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
        assert other.call("GET", KEY) == NIL


def test_read_that_still_waits_for_a_second_key_makes_nothing_good(start_hasp, plain):
    """Its owner has the first key's guard again, and what was read of it before is still old."""
    hasp = start_hasp(guard(owner="name", wait="10s", lease="60s"))
    other = start_hasp(guard(wait="10s", lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two, other.connect() as first, other.connect() as second:
        assert one.call("GET", KEY) == NIL
        plain.delete(GUARD)
        assert first.call("GET", KEY) == NIL
        assert second.call("GET", SECOND) == NIL
        stands(plain, two, "MGET", KEY, SECOND)
        assert first.call("SET", KEY, "first") == OK
        until(lambda: plain.zcard("hasp:queue:hasp:guard:{stock:2}:"), "it to wait for the second key")
        assert is_lost(one.call("SET", KEY, "one"))
        assert second.call("SET", SECOND, "second") == OK
        assert two.read() == b"*2\r\n" + bulk("first") + bulk("second")
        assert one.call("SET", KEY, "two") == OK


@pytest.mark.parametrize("command", [("HGETALL", KEY), ("ZSCORE", KEY, "m")])
def test_read_that_fails_behind_its_guard_leaves_none(start_hasp, plain, command):
    hasp = start_hasp(guard(lease="60s"))
    plain.set(KEY, "text")
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call(*command) == WRONGTYPE
        nothing_left(plain)


def test_read_that_fails_behind_its_guard_does_not_make_good_what_was_lost(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call("HGETALL", KEY) == b"%0\r\n"
        overtake(plain)
        assert one.call("HGETALL", KEY) == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


def test_read_that_fails_behind_its_guard_keeps_what_was_not_lost(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    plain.set(KEY, "text")
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call("GET", KEY) == bulk("text")
        assert one.call("HGETALL", KEY) == WRONGTYPE
        assert plain.exists(GUARD)
        assert one.call("SET", KEY, "one") == OK
    nothing_left(plain)


def test_read_that_fails_is_no_read_of_its_owner(start_hasp, plain):
    hasp = start_hasp(guard(owner="name", lease="60s"))
    plain.lpush(KEY, 1)
    with named(hasp, "a") as one:
        assert one.call("GET", KEY) == WRONGTYPE
        assert one.call("DEL", KEY) == ONE
        assert plain.keys("hasp:*") == []


@pytest.mark.parametrize("command", [("SET", KEY, "two"), ("EVAL", "return 1", 1, KEY)])
def test_transaction_over_another_connection_does_not_have_again_what_was_lost(start_hasp, plain, command):
    hasp = start_hasp(guard(owner="name"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        assert is_lost(transact(two, command)[-1])
        assert plain.get(KEY) == "other"


def test_read_in_a_transaction_counts_also_where_another_connection_has_written_since(start_hasp, plain):
    """The connection that reads has read before, and knows nothing of that write."""
    hasp = start_hasp(guard(owner="name"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "two") == OK
        assert transact(one, ("GET", KEY))[-1] == b"*1\r\n" + bulk("two")
        assert plain.exists(GUARD)
        overtake(plain)
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@pytest.mark.parametrize("more, answer", [((), b""), ((("LPUSH", "text", 1),), WRONGTYPE)])
def test_read_where_the_application_watches_counts_also_where_another_connection_has_written_since(
        start_hasp, plain, more, answer):
    hasp = start_hasp(guard(owner="name"))
    plain.set("text", 1)
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "two") == OK
        assert one.call("WATCH", "other") == OK
        assert transact(one, ("GET", KEY), *more)[-1] == b"*%d\r\n" % (1 + len(more)) + bulk("two") + answer
        overtake(plain)
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


def test_writer_that_reads_is_checked_for_what_its_owner_read(start_hasp, plain):
    hasp = start_hasp(guard(owner="name", acquire_on="BITFIELD"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("BITFIELD", KEY, "GET", "u8", 0) == b"*1\r\n:0\r\n"
        overtake(plain, value="\x07")
        assert is_lost(two.call("BITFIELD", KEY, "SET", "u8", 0, 1))
        assert two.call("BITFIELD", KEY, "GET", "u8", 0) == b"*1\r\n:7\r\n"
        assert one.call("SET", KEY, "x") == OK
    nothing_left(plain)


def test_writer_that_reads_is_checked_for_what_it_read_before(start_hasp, plain):
    hasp = start_hasp(guard(acquire_on="BITFIELD"))
    with hasp.connect() as one:
        assert one.call("BITFIELD", KEY, "GET", "u8", 0) == b"*1\r\n:0\r\n"
        overtake(plain, value="\x07")
        assert is_lost(one.call("BITFIELD", KEY, "SET", "u8", 0, 1))
        assert plain.get(KEY) == "\x07"
        assert one.call("BITFIELD", KEY, "GET", "u8", 0) == b"*1\r\n:7\r\n"
        assert one.call("BITFIELD", KEY, "SET", "u8", 0, 1) == b"*1\r\n:7\r\n"
        assert plain.exists(GUARD)
        assert one.call("SET", KEY, "x") == OK
    nothing_left(plain)
