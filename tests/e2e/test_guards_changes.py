# SPDX-License-Identifier: BSD-3-Clause
"""Guards when the rules or the owner change between the read and the write."""

from select import select

import pytest
from harness import encode, until
from harness.guards import (GUARD, KEY, guard, held, is_locked, is_lost, named, nothing_left, overtake, stands,
                            transact)
from harness.relay import Relay
from harness.replies import NIL, OK, ONE, QUEUED, bulk


# --- reloads ---------------------------------------------------------------------


def test_guard_that_comes_during_a_transaction_loses_none_of_its_commands(start_hasp, plain):
    hasp = start_hasp()
    with hasp.connect() as one:
        assert one.call("MULTI") == OK
        assert one.call("SET", "free", 1) == QUEUED
        hasp.reload("[upstream]", guard() + "[upstream]")
        assert one.call("SET", KEY, 1) == QUEUED
        assert one.call("EXEC").startswith(b"-ERR hasp: ")
        assert plain.exists("free", KEY) == 0
        assert transact(one, ("SET", "free", 1), ("SET", KEY, 1))[-1] == b"*2\r\n" + 2 * OK


def test_guard_that_grows_during_a_transaction_concerns_it(start_hasp, plain):
    hasp = start_hasp(guard(pattern="others:*", acquire_on="HGET"))
    with hasp.connect() as one, hasp.connect() as other:
        assert [one.call("MULTI"), one.call("GET", KEY)] == [OK, QUEUED]
        hasp.reload("pattern = others:*\nacquire_on = HGET", "pattern = stock:*\nacquire_on = GET")
        assert one.call("EXEC") == b"*1\r\n" + NIL
        stands(plain, other, "GET", KEY)
        assert one.call("SET", KEY, 1) == OK
        assert other.read() == bulk("1")


def test_owner_that_changes_does_not_make_the_read_forgotten(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        hasp.reload("acquire_on", "owner = address\nacquire_on")
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"
        assert one.call("GET", KEY) == bulk("other")
        assert one.call("SET", KEY, "one") == OK


def test_waiter_is_refused_when_a_rule_comes_in_between(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with held(hasp) as one, hasp.connect() as other:
        stands(plain, other, "MSET", KEY, 1, "lock:1", 1)
        hasp.reload("[upstream]", "[lock l]\npattern = lock:*\n[upstream]")
        assert one.call("SET", KEY, "one") == OK
        assert other.read().startswith(b"-ERR hasp: ")
        assert other.call("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("command", [("GET", KEY), ("SET", KEY, 1), ("INCR", KEY), ("HGETALL", KEY)])
def test_waiter_goes_on_when_there_is_no_guard_any_more(start_hasp, plain, command):
    hasp = start_hasp(guard(lease="60s"))
    with held(hasp), hasp.connect() as other:
        other.call("HELLO", 3)
        stands(plain, other, *command)
        hasp.reload(guard(lease="60s"), "")
        plain.delete(GUARD)
        assert not other.read().startswith(b"-")
        assert other.call("PING") == b"+PONG\r\n"


def test_waiter_stays_in_line_when_its_guard_changes(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with held(hasp) as one, hasp.connect() as other:
        stands(plain, other, "GETEX", KEY)
        hasp.reload("acquire_on = ", "acquire_on = GETEX, ")
        assert one.call("SET", KEY, "one") == OK
        assert other.read() == bulk("one")
        assert other.call("SET", KEY, "two") == OK
    nothing_left(plain)


# --- owners ----------------------------------------------------------------------


def test_new_name_reads_as_itself(start_hasp, plain):
    """What the connection once read as another, that one may have written elsewhere."""
    hasp = start_hasp(guard(owner="name"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "v0") == OK
        assert one.call("CLIENT", "SETNAME", "y") == OK
        assert one.call("GET", KEY) == bulk("v0")
        stands(plain, two, "GET", KEY)
        assert one.call("SET", KEY, "v1") == OK
        assert two.read() == bulk("v1")
        assert two.call("SET", KEY, "v2") == OK
    nothing_left(plain)


def test_new_name_that_waits_in_vain_has_still_read_as_the_old_one(start_hasp, plain):
    hasp = start_hasp(guard(owner="name", wait="50ms"))
    with named(hasp, "x") as one, named(hasp, "z") as other:
        assert one.call("GET", KEY) == NIL
        overtake(plain, value="v1")
        assert one.call("CLIENT", "SETNAME", "y") == OK
        assert other.call("GET", KEY) == bulk("v1")
        assert is_locked(one.call("GET", KEY))
        assert other.call("SET", KEY, "v2") == OK
        assert is_lost(one.call("SET", KEY, "v0"))
        assert one.call("GET", KEY) == bulk("v2")
        assert one.call("SET", KEY, "v3") == OK


def test_name_that_changes_between_read_and_write_is_no_way_into_anothers_work(start_hasp, plain):
    hasp = start_hasp(guard(owner="name"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "v0") == OK
        assert one.call("CLIENT", "SETNAME", "y") == OK
        assert two.call("GET", KEY) == bulk("v0")
        assert is_lost(one.call("SET", KEY, "y's"))
        assert two.call("SET", KEY, "v1") == OK


@pytest.mark.parametrize("write", [(("INCR", KEY),), (("MULTI",), ("SET", KEY, 1), ("EXEC",)),
                                   (("WATCH", "free"), ("GET", KEY), ("MULTI",), ("SET", KEY, 1), ("EXEC",))])
def test_owner_hears_of_its_write_when_its_guard_is_released(start_hasp, plain, redis_server, write):
    """Before that it would read under the guard that is about to be released."""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard(owner="name", lease="60s"), upstream=relay.address)
        plain.set(KEY, 5)
        with named(hasp, "x") as one:
            relay.holds_back = ONE  # the answer to the release
            for command in (("GET", KEY), *write[:-1]):
                one.call(*command)
            one.send(encode(*write[-1]))
            until(lambda: plain.get(KEY) != "5" and not plain.exists(GUARD), "it to be written and released")
            hasp.take_turn()
            assert select([one.sock], [], [], 0)[0] == []
            relay.holds_back = None
            assert one.read()[:1] in b":*"
    nothing_left(plain)


def test_name_that_comes_after_the_read_loses_nothing(start_hasp, plain):
    hasp = start_hasp(guard(owner="name"))
    with hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        assert one.call("CLIENT", "SETNAME", "y") == OK
        assert one.call("SET", KEY, 1) == OK
    nothing_left(plain)


def test_owner_without_a_name_is_its_connection(start_hasp, plain):
    """What it has read its own hasp remembers, and Redis need not."""
    hasp = start_hasp(guard(owner="name"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", KEY) == NIL
        assert plain.keys("hasp:*") == [GUARD]
        stands(plain, other, "GET", KEY)
        assert one.call("SET", KEY, 1) == OK
        assert other.read() == bulk("1")
        overtake(plain)
        assert is_lost(other.call("SET", KEY, 2))
