# SPDX-License-Identifier: BSD-3-Clause
"""SIGTERM: hasp waits for its busy clients, and leaves nothing behind."""

import os
import re
import signal
import time

import pytest
from harness import encode, until
from harness.by_hand import connected
from harness.marks import BOTH, covers
from harness.replies import OK, ONE, PONG
from harness.sections import rule
from harness.tls import UNLESS_ENCRYPTED
from harness.wait import prompt

LOCKS = rule()


def ended(hasp):
    return until(lambda: not hasp.running(), "hasp to leave")


def test_sigterm_closes_the_idle_and_waits_for_the_busy(start_hasp, redis_server):
    hasp = start_hasp(LOCKS)
    idle, silent, blocked, multi, watching = (hasp.connect() for _ in range(5))
    assert idle.call("PING") == PONG and blocked.call("PING") == PONG
    assert multi.call("MULTI") == OK and watching.call("WATCH", "lock:2") == OK
    blocked.send(encode("BLPOP", "list", 0))
    plain = redis_server.client()
    until(lambda: plain.info("clients")["blocked_clients"] == 1, "BLPOP to block")
    hasp.signal(signal.SIGTERM)
    assert idle.at_end() and silent.at_end()
    with pytest.raises(ConnectionRefusedError):
        hasp.connect()
    assert multi.call("SETNX", "lock:1", "v") == b"+QUEUED\r\n"
    assert multi.call("EXEC") == b"*1\r\n:1\r\n"
    assert multi.call("DEL", "lock:1") == ONE
    assert multi.at_end()
    assert watching.call("GET", "lock:2") == b"$-1\r\n" and watching.call("UNWATCH") == OK
    assert watching.at_end()
    assert hasp.running()
    plain.rpush("list", "x")
    assert blocked.read() == b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"
    assert blocked.at_end()
    ended(hasp)


@covers("log_level")
@UNLESS_ENCRYPTED
def test_client_that_was_answered_at_once_is_not_new(start_hasp):
    """A client that has not sent anything is new; hasp gives it five seconds."""
    hasp = start_hasp(log_level="debug")
    began = time.monotonic()
    with hasp.connect() as silent:
        with hasp.frozen():
            quick, quicker = hasp.connect(), hasp.connect()
            quick.send(encode("PING"))
            quicker.send(encode("RESET"))
        with quick, quicker:
            assert (quick.read(), quicker.read()) == (PONG, b"+RESET\r\n")
            hasp.signal(signal.SIGTERM)
            until(lambda: "shutting_down" in hasp.log, "the signal to arrive")
            prompt(time.monotonic() - began, 3)
            assert quick.at_end() and quicker.at_end() and silent.at_end()
    closed = [int(fd) for fd in re.findall(r"client_closed fd=(\d+)", hasp.log)]
    assert len(closed) == 3 and closed[-1] == min(closed), "the silent client, which connected first, was not closed last"


@covers("shutting_down")
@BOTH
def test_sigterm_lets_a_long_reply_end(start_hasp, redis_server):
    redis_server.client().set("big", "x" * 20_000_000)
    hasp = start_hasp()
    with hasp.connect() as one:
        one.send(encode("GET", "big"))
        assert one.sock.recv(1) == b"$"
        hasp.signal(signal.SIGTERM)
        until(lambda: "shutting_down" in hasp.log, "the signal to arrive")
        assert len(one.file.read()) == len("20000000\r\n") + 20_000_002
    ended(hasp)


@BOTH
def test_second_sigterm_leaves_at_once(start_hasp, redis_server):
    hasp = start_hasp()
    with hasp.connect() as blocked, hasp.connect() as idle:
        assert idle.call("PING") == PONG
        blocked.send(encode("BLPOP", "list", 0))
        until(lambda: redis_server.client().info("clients")["blocked_clients"] == 1, "BLPOP to block")
        hasp.signal(signal.SIGTERM)
        assert idle.at_end() and hasp.running()
        hasp.signal(signal.SIGTERM)
        assert blocked.at_end()
        ended(hasp)


def blocked_client(hasp, redis_server):
    """A client that keeps hasp from ending until an element is pushed to `list`."""
    client = hasp.connect()
    client.send(encode("BLPOP", "list", 0))
    until(lambda: redis_server.client().info("clients")["blocked_clients"] == 1, "BLPOP to block")
    return client


@covers("reload_failed")
def test_reload_while_it_leaves_changes_nothing(start_hasp, redis_server):
    hasp = start_hasp(workers=2)
    with blocked_client(hasp, redis_server) as blocked:
        threads = len(os.listdir(f"/proc/{hasp.pid}/task"))
        hasp.signal(signal.SIGTERM)
        until(lambda: len(os.listdir(f"/proc/{hasp.pid}/task")) < threads, "the worker without clients to end")
        hasp.signal(signal.SIGHUP)
        until(lambda: 'reload_failed kept="the old configuration" reason="hasp is shutting down"' in hasp.log, "the reload to be refused")
        redis_server.client().rpush("list", "x")
        assert blocked.read().endswith(b"x\r\n")
    ended(hasp)


def test_files_of_the_next_hasp_stay_when_this_one_has_drained(start_hasp, redis_server, tmp_path):
    options = {"listen": f"unix:{tmp_path}/s"}
    hasp = start_hasp(**options)
    with blocked_client(hasp, redis_server):
        hasp.signal(signal.SIGTERM)
        until(lambda: connected(tmp_path / "s") is None, "hasp to stop listening")
        following = start_hasp(**options)
        redis_server.client().rpush("list", "x")
        ended(hasp)
    with following.connect() as one:
        assert one.call("PING") == PONG


def test_drain_timeout_ends_the_wait(start_hasp):
    hasp = start_hasp(drain_timeout="200ms")
    with hasp.connect() as subscriber, hasp.connect() as multi:
        subscriber.call("SUBSCRIBE", "news")
        multi.call("MULTI")
        hasp.signal(signal.SIGTERM)
        assert subscriber.at_end() and multi.at_end()
        ended(hasp)


def test_sigint_is_sigterm(start_hasp):
    hasp = start_hasp()
    hasp.signal(signal.SIGINT)
    ended(hasp)


def test_sigterm_while_redis_is_down(start_hasp, redis_server):
    hasp = start_hasp(LOCKS)
    redis_server.stop()
    until(lambda: "upstream_down" in hasp.log, "hasp to notice that Redis is down")
    hasp.signal(signal.SIGTERM)
    ended(hasp)
