# SPDX-License-Identifier: BSD-3-Clause
"""After a lost guard: which later reads allow a write again, and which do not.

Whatever goes wrong, no client overwrites a write that it has not read.
"""

import pytest
from harness import encode, until
from harness.guards import GUARD, KEY, QUEUE, guard, is_locked, is_lost, nothing_left, overtake, stands, transact
from harness.relay import Relay
from harness.replies import EXECABORT, NIL, OK, ONE, PONG, WRONGTYPE, bulk

SECOND = "stock:2"


def test_key_that_was_lost_is_not_had_again_by_waiting_for_another(clients, plain):
    one, other, third = clients(3, guard(wait="50ms", lease="60s"))
    assert one.call("GET", KEY) == NIL
    plain.delete(GUARD)
    assert other.call("GET", KEY) == NIL
    assert other.call("SET", KEY, "other") == OK
    assert third.call("GET", SECOND) == NIL
    assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"


def test_guard_that_comes_when_nobody_waits_any_more_makes_nothing_good(clients, plain):
    """Redis grants the guard after the client's wait; hasp must not count that as a read."""
    one, other = clients(2, guard(wait="200ms", lease="60s"))
    assert one.call("GET", KEY) == NIL
    overtake(plain)
    assert other.call("GET", KEY) == bulk("other")
    stands(plain, one, "GET", KEY)
    token = plain.zrange(QUEUE, 0, 0)[0].split(" ")[-1]
    assert is_locked(one.read())
    plain.set(GUARD, token)
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"


def test_wait_in_vain_for_a_second_key_keeps_the_first(clients, plain):
    one, other = clients(2, guard(wait="50ms", lease="60s"))
    assert one.call("GET", KEY) == NIL
    assert other.call("GET", SECOND) == NIL
    assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
    assert one.call("SET", KEY, "one") == OK


def test_outcome_that_is_not_known_is_told_though_more_is_on_its_way(start_hasp, plain, redis_server):
    """hasp releases the guard by plain commands, for another waiter, and awaits their replies,
    too."""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard(), upstream=relay.address).is_up()
        with hasp.connect() as one:
            for key, cut in ((SECOND, False), (KEY, True)):
                plain.set(key, 5)
                plain.zadd(f"hasp:queue:hasp:guard:{{{key}}}:", {"somebody": 1})
                # The relay holds back the reply to the read alone, or also the one before it.
                relay.holds_back = (ONE, ONE + bulk("5")) if cut else None
                one.send(encode("GET", key))
                assert cut or one.read() == bulk("5")
            until(lambda: plain.get(GUARD) and not plain.exists(QUEUE), "Redis to run the release")
            hasp.take_turn()
            relay.cut()
            assert one.read().endswith(b"; whether the command was carried out is not known\r\n")
            relay.holds_back = None


def test_read_in_a_transaction_that_is_refused_makes_nothing_good(clients, plain):
    one, = clients(1, guard(lease="60s"))
    assert one.call("GET", KEY) == NIL
    overtake(plain)
    assert transact(one, ("GET", KEY), ("NOSUCH",))[-1] == EXECABORT
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"
    assert not plain.exists(GUARD)


FAILING = pytest.mark.parametrize("command", [("HGET", KEY, "f"), ("XRANGE", KEY, "-", "+")])


@FAILING
def test_read_that_fails_makes_nothing_good(share_hasp, plain, command):
    hasp = share_hasp(guard(acquire_on="GET HGET XRANGE", wait="60s", lease="60s"))
    other = share_hasp(guard(lease="60s"))
    with hasp.connect() as one, other.connect() as first:
        assert one.call("GET", KEY) == NIL
        plain.delete(GUARD)
        assert first.call("GET", KEY) == NIL
        stands(plain, one, *command)
        assert first.call("SET", KEY, "first") == OK
        assert one.read() == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "first"


@FAILING
def test_read_that_fails_at_once_makes_nothing_good(clients, plain, command):
    one, = clients(1, guard(acquire_on="GET HGET XRANGE", lease="60s"))
    assert one.call("GET", KEY) == NIL
    overtake(plain)
    assert one.call(*command) == WRONGTYPE
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"


@pytest.mark.parametrize("allowed, answer", [("+", WRONGTYPE), ("-", b"-NOPERM ")])
def test_write_that_reads_and_fails_is_answered_in_redis_words(share_hasp, plain, allowed, answer):
    """A script cannot return RESP3 sets, so hasp runs SPOP outside of a script."""
    hasp = share_hasp(guard(acquire_on="SPOP", lease="60s"))
    plain.set(KEY, "no set")
    with hasp.connect() as one:
        one.call("HELLO", 3)
        plain.execute_command("ACL", "SETUSER", "default", f"{allowed}spop")
        assert one.call("SPOP", KEY).startswith(answer)
        until(lambda: not plain.exists(GUARD), "the guard to be released")


@pytest.mark.parametrize("command", [("XRANGE", KEY, "-", "+"), ("MULTI",)])
def test_guard_that_nobody_came_for_makes_nothing_good(clients, plain, command):
    """An earlier attempt of the client got the guard after hasp had given it up. Then a read
    fails."""
    one, = clients(1, guard(acquire_on="GET XRANGE", lease="60s"))
    assert one.call("GET", KEY) == NIL
    token = plain.get(GUARD)
    plain.set(KEY, "other")
    plain.set(GUARD, f"{token} 1-1")
    if command == ("MULTI",):
        assert transact(one, ("GET", KEY), ("NOSUCH",))[-1] == EXECABORT
    else:
        assert one.call(*command) == WRONGTYPE
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"


def test_guard_is_released_by_a_command_that_waited_and_failed(share_hasp, plain):
    hasp = share_hasp(guard(wait="60s", lease="60s"))
    other = share_hasp(guard(lease="60s"))
    with hasp.connect() as one, other.connect() as first:
        assert first.call("GET", KEY) == NIL
        stands(plain, one, "INCR", KEY)
        assert first.call("SET", KEY, "word") == OK
        assert one.read() == b"-ERR value is not an integer or out of range\r\n"
        until(lambda: not plain.exists(GUARD), "the guard to be released")


def test_client_that_gave_up_waiting_for_a_second_key_keeps_no_guard(clients, plain):
    one, other = clients(2, guard(wait="50ms", lease="60s"))
    assert other.call("GET", SECOND) == NIL
    assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
    assert other.call("GET", KEY) == NIL


@pytest.mark.parametrize("command", [("HGETALL", KEY), ("ZSCORE", KEY, "m")])
def test_read_that_fails_behind_its_guard_leaves_none(share_hasp, plain, command):
    hasp = share_hasp(guard(lease="60s"))
    plain.set(KEY, "text")
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call(*command) == WRONGTYPE
        nothing_left(plain)


def test_read_that_fails_behind_its_guard_does_not_make_good_what_was_lost(clients, plain):
    one, = clients(1, guard(lease="60s"))
    one.call("HELLO", 3)
    assert one.call("HGETALL", KEY) == b"%0\r\n"
    overtake(plain)
    assert one.call("HGETALL", KEY) == WRONGTYPE
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"


def test_read_that_fails_behind_its_guard_keeps_what_was_not_lost(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s"))
    plain.set(KEY, "text")
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call("GET", KEY) == bulk("text")
        assert one.call("HGETALL", KEY) == WRONGTYPE
        assert plain.exists(GUARD)
        assert one.call("SET", KEY, "one") == OK
    nothing_left(plain)


def test_read_that_fails_is_no_read(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s"))
    plain.lpush(KEY, 1)
    with hasp.connect() as one:
        assert one.call("GET", KEY) == WRONGTYPE
        assert one.call("DEL", KEY) == ONE
        assert plain.keys("hasp:*") == []


def test_writer_that_reads_is_checked_for_what_it_read_before(share_hasp, plain):
    hasp = share_hasp(guard(acquire_on="BITFIELD"))
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


class Touching(Relay):
    """A relay that changes the guard before it passes a reply to hasp."""

    def __init__(self, target, plain):
        self.plain = plain
        super().__init__(target)

    def _pass_on(self, data, source, sink, replies):
        if replies:
            self.plain.pexpire(GUARD, 3_600_000)
        super()._pass_on(data, source, sink, replies)


def test_transaction_whose_guard_changes_again_and_again_ends_with_an_error(start_hasp, plain, redis_server):
    with Touching(redis_server.address, plain) as relay:
        hasp = start_hasp(guard(), upstream=relay.address).is_up()
        with hasp.connect() as one:
            assert one.call("GET", KEY) == NIL
            *queued, answer = transact(one, ("SET", KEY, "one"))
            assert queued == [OK, b"+QUEUED\r\n"] and is_locked(answer)
            assert not plain.exists(KEY)
            assert one.call("PING") == PONG
