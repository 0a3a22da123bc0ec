# SPDX-License-Identifier: BSD-3-Clause
"""Limits: clients, idle time, descriptors, buffered bytes."""

import os
import re
import resource
import time

from harness import encode, until
from harness.marks import BOTH, covers
from harness.replies import FULL, OK, ONE, PONG
from harness.scrape import HTTP, ask, value
from harness.sections import rule

LOCKS = rule()


# --- limits ----------------------------------------------------------------------


@covers("max_clients")
def test_max_clients(start_hasp):
    hasp = start_hasp(max_clients=2, workers=2)
    with hasp.connect() as one:
        with hasp.connect() as two:
            assert one.call("PING") == PONG and two.call("PING") == PONG
            with hasp.connect() as three:
                assert three.file.read() == FULL

        def let_in():
            with hasp.connect() as next_one:
                next_one.send(encode("PING"))
                return next_one.file.readline() == PONG
        until(let_in, "hasp to accept another client")
    assert "max_clients limit=2" in hasp.log


def test_idle_clients_are_closed_but_none_that_waits(start_hasp, redis_server):
    hasp = start_hasp(client_idle_timeout="4s")
    plain = redis_server.client()
    subscriber, pattern, blocked, monitor, multi, silent = (hasp.connect() for _ in range(6))
    subscriber.call("SUBSCRIBE", "news")
    pattern.call("HELLO", 3)
    pattern.call("PSUBSCRIBE", "n*")
    monitor.call("MONITOR")
    multi.call("MULTI")
    blocked.send(encode("BLPOP", "list", 0))
    idle = hasp.connect()
    assert idle.call("PING") == PONG
    assert idle.at_end() and silent.at_end()
    plain.publish("news", "hello")
    assert subscriber.read().endswith(b"$5\r\nhello\r\n") and pattern.read().endswith(b"$5\r\nhello\r\n")
    assert multi.call("DISCARD") == OK
    until(lambda: b'"PING"' in monitor.read(), "the PING of `idle`")
    plain.rpush("list", "x")
    assert blocked.read().endswith(b"x\r\n")


def test_client_is_not_idle_when_it_was_just_answered(share_hasp, redis_server):
    hasp = share_hasp(client_idle_timeout="4s")
    with hasp.connect() as blocked, hasp.connect() as idle:
        blocked.send(encode("BLPOP", "list", 0))
        assert idle.call("PING") == PONG
        assert idle.at_end()  # so `blocked` has been silent for 4 s, too
        before = time.monotonic()
        redis_server.client().rpush("list", "x")
        assert blocked.read().endswith(b"x\r\n")
        assert blocked.at_end()
        assert time.monotonic() - before > 3.95


def refused(hasp):
    """Connects a new client. Returns true if hasp refused it."""
    with hasp.connect() as one:
        one.send(encode("PING"))
        return one.file.readline() == FULL


@covers("accept_failed")
@BOTH
def test_descriptors_are_kept_for_hasp_itself_while_clients_take_all_others(start_hasp):
    hasp = start_hasp(HTTP).is_up()
    resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE, (128, 128))
    crowd = [hasp.connect() for _ in range(200)]
    until(lambda: refused(hasp), "hasp to run out of descriptors")
    assert "accept_failed" in hasp.log
    answers = [one.call("MULTI") for one in crowd[:20]]
    assert answers[0] == OK
    assert answers[-1] == b"-ERR hasp: upstream %s: Too many open files\r\n" % \
        hasp.config_file.read_text().split("address = ")[1].split("\n")[0].encode()
    assert crowd[0].call("DISCARD") == OK
    assert crowd[-1].file.read() == FULL
    assert ask(hasp, "/readyz")[1] == "ok\n"
    assert value(hasp, "hasp_limit_reached_total", limit="descriptors") >= 104
    for connection in crowd:
        connection.close()
    until(lambda: not refused(hasp), "hasp to have free descriptors again")


@covers("max_clients")
def test_reload_with_more_clients_raises_the_limit_of_descriptors(start_hasp):
    hasp = start_hasp(max_clients=10)
    _, hard = resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE, (2 * 10 + 512, hard))
    hasp.reload("max_clients = 10", "max_clients = 100")
    assert resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE) == (2 * 100 + 512, hard)


# --- listeners -------------------------------------------------------------------


@BOTH
def test_hasp_needs_no_descriptor_that_it_does_not_use(start_hasp):
    """The lock, MULTI and connection of a client that has left leave no descriptor open."""
    hasp = start_hasp(LOCKS)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    before = len(os.listdir(f"/proc/{hasp.pid}/fd"))
    for n in range(100):
        with hasp.connect() as one:
            assert one.call("SETNX", f"lock:{n}", "v") == ONE
            assert one.call("MULTI") == OK
    until(lambda: len(os.listdir(f"/proc/{hasp.pid}/fd")) <= before + 1, "all descriptors but a shared link's to be closed")


@covers("client_closing")
def test_client_that_fills_its_limit_of_held_bytes_is_refused(start_hasp):
    """hasp buffers a request on a key with a rule, up to max_request."""
    hasp = start_hasp(LOCKS, max_request="64kb", log_level="debug")
    with hasp.connect() as one:
        one.send(b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$100000\r\n" + b"x" * 100000)
        assert one.read().startswith(b"-ERR hasp: a rule may apply to this request")
        assert one.at_end()
    assert re.search(r" debug client_closing fd=\d+ reason=", hasp.log)


def test_request_longer_than_max_request_is_refused_by_an_error_in_multi(share_hasp):
    """Redis would queue the call that returns the error, and the client would see only +QUEUED."""
    hasp = share_hasp(LOCKS, max_request="64kb")
    with hasp.connect() as one:
        assert one.call("MULTI") == OK
        one.send(b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$100000\r\n" + b"x" * 100000)
        assert one.read().startswith(b"-ERR hasp: a rule may apply to this request")
        assert one.at_end()
