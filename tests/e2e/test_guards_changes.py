# SPDX-License-Identifier: BSD-3-Clause
"""Guards when the rules change between the read and the write."""

import pytest
from harness.guards import GUARD, KEY, guard, held, nothing_left, stands, transact
from harness.replies import NIL, OK, QUEUED, bulk


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
