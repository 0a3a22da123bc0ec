# SPDX-License-Identifier: BSD-3-Clause
"""UNLOCK ... FORCE at the console: an operator frees a lock that its owner does not release."""

import re
import time

import pytest
from harness import Connection, encode
from harness.guards import guard, stands
from harness.line import stand
from harness.replies import NIL, OK, ONE, ZERO
from harness.sections import VERBS, rule
from harness.threads import stopped, threads_of_workers
from harness.wait import prompt

NO_LOCK = b"-ERR the key holds no lock\r\n"


@pytest.fixture
def hasp(start_hasp, tmp_path):
    return start_hasp(rule(wait="60s") + VERBS + guard(pattern="stock:*", lease="60s", wait="60s") +
                      f"[admin]\nlisten = unix:{tmp_path}/s\n", workers=2).is_up(2)


@pytest.fixture
def console(hasp, tmp_path):
    with Connection(str(tmp_path / "s")) as connection:
        yield connection


def test_lock_of_a_rule_goes_to_the_first_in_line(hasp, console, plain):
    with hasp.connect() as holder, hasp.connect() as waiter:
        assert holder.call("SET", "lock:1", "v", "NX", "PX", 60000) == OK
        stand(plain, waiter, "SET", "lock:1", "w", "NX", "PX", 60000)
        assert console.call("UNLOCK", "lock:1", "FORCE") == ONE
        assert plain.get("lock:1") == "w"  # the waiter got the lock without another client between
        assert waiter.read() == OK
        assert holder.call("DEL", "lock:1") == ZERO
    assert re.search(r'console command="UNLOCK FORCE" key="lock:1" db=0 by="uid \d+ pid \d+"', hasp.log)


def test_lock_of_a_verb_goes_to_the_first_in_line(hasp, console, plain):
    with hasp.connect() as holder, hasp.connect() as waiter:
        first = holder.call("LOCK", "k", "PX", 60000)
        assert holder.call("LOCK", "k", "PX", 60000) == first
        stand(plain, waiter, "LOCK", "k", "PX", 60000, "WAIT", 60000)
        assert console.call("UNLOCK", "k", "FORCE") == ONE
        assert plain.exists("k")
        assert int(waiter.read()[1:]) > int(first[1:])
        assert holder.call("UNLOCK", "k") == ZERO
        assert waiter.call("UNLOCK", "k") == ONE


def test_guard_is_freed_and_the_value_stays(hasp, console, plain):
    plain.set("stock:1", "7")
    with hasp.connect() as reader, hasp.connect() as other:
        assert reader.call("GET", "stock:1") == b"$1\r\n7\r\n"
        stands(plain, other, "GET", "stock:1")
        assert console.call("UNLOCK", "stock:1", "FORCE") == ONE
        assert other.read() == b"$1\r\n7\r\n"
        assert reader.call("SET", "stock:1", "8").startswith(b"-LOCKLOST")
        assert other.call("SET", "stock:1", "6") == OK


def test_lock_in_another_database(hasp, console):
    with hasp.connect() as holder:
        holder.call("SELECT", 3)
        assert holder.call("SET", "lock:1", "v", "NX", "PX", 60000) == OK
        assert console.call("UNLOCK", "lock:1", "FORCE") == ZERO
        assert console.call("UNLOCK", "lock:1", "DB", 3, "FORCE") == ONE
        assert holder.call("GET", "lock:1") == NIL


def test_what_is_no_lock_stays(hasp, console, plain):
    plain.set("user:1", "Anna")
    plain.hset("cart:1", "book", 2)
    plain.lpush("lock:list", "x")
    for key in "user:1", "cart:1", "lock:list":
        assert console.call("UNLOCK", key, "FORCE") == NO_LOCK
        assert plain.exists(key)
    assert console.call("UNLOCK", "nothing", "FORCE") == ZERO
    assert console.call("UNLOCK", "hasp:fence", "FORCE").startswith(b"-ERR no rule, guard or verb")


@pytest.mark.parametrize("request_", ["UNLOCK k", "UNLOCK k NOW", "UNLOCK k DB x FORCE", "UNLOCK k DB -1 FORCE",
                                      "UNLOCK k DB FORCE", "UNLOCK k DB 1 2 FORCE"])
def test_anything_else_is_an_error(console, request_):
    assert console.call(*request_.split()).startswith(b"-ERR ")


def test_redis_that_is_away_is_told(hasp, console, redis_server):
    redis_server.stop()
    assert console.call("UNLOCK", "lock:1", "FORCE").startswith(b"-ERR Redis does not answer")


def test_worker_that_stands_still_holds_up_no_other_console(hasp, console, tmp_path):
    with (stopped(threads_of_workers(hasp)[0]), Connection(str(tmp_path / "s")) as killing,
          Connection(str(tmp_path / "s")) as other):
        began = time.monotonic()
        console.send(encode("UNLOCK", "lock:1", "FORCE"))
        killing.send(encode("KILL", "CLIENT", "9"))
        assert b"version" in other.call("SHOW", "VERSION")
        prompt(time.monotonic() - began, 5)  # hasp gives the request up after ten seconds
        assert b"answer" in console.read() and b"answer" in killing.read()
    assert console.call("UNLOCK", "lock:1", "FORCE") == ZERO
