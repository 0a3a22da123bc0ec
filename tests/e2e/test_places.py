# SPDX-License-Identifier: BSD-3-Clause
"""A client that uses all connections that HTTP or the console allows does not keep others out."""

import contextlib
import os
import re
import resource
import socket
import threading

import pytest
from harness import Connection, until
from harness.marks import covers
from harness.replies import OK, PONG
from harness.resp import encode
from harness.scrape import HTTP, ask, value, where
from harness.wait import readable

PLACES = 64
PART = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


class Drip:
    """Connections that send the beginning of a request, and then a byte each second until the block
    ends."""

    def __init__(self, address, n, part):
        self.sockets = [socket.create_connection(address) for _ in range(n)]
        for s in self.sockets:
            s.sendall(part)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.drip)

    def drip(self):
        while not self.over.wait(1):
            for s in self.sockets:
                with contextlib.suppress(OSError):
                    s.send(b"x", socket.MSG_NOSIGNAL)

    def closed(self):
        return readable(*self.sockets)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        for s in self.sockets:
            s.close()


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("c") / "admin.sock"


@covers("http_full")
def test_http_answers_while_slow_peers_hold_all_its_places(start_hasp):
    hasp = start_hasp(HTTP)
    with Drip(("127.0.0.1", int(where(hasp))), 2 * PLACES, PART):
        assert ask(hasp, "/healthz")[1] == "ok\n"
        assert value(hasp, "hasp_limit_reached_total", limit="http") >= PLACES
    assert "http_full limit=64" in hasp.log


def test_slow_http_request_has_a_deadline(start_hasp):
    hasp = start_hasp(HTTP)
    with Drip(("127.0.0.1", int(where(hasp))), 1, PART) as slow:
        until(slow.closed, "hasp to close the connection")
        assert value(hasp, "hasp_limit_reached_total", limit="http") == 0


@covers("http_accept_failed")
def test_http_answers_when_there_are_descriptors_again(start_hasp):
    hasp = start_hasp(HTTP)
    assert ask(hasp, "/healthz")[1] == "ok\n"
    used = {int(name) for name in os.listdir(f"/proc/{hasp.pid}/fd")}
    soft, hard = resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE)
    free = min(set(range(soft)) - used)
    resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE, (free, hard))
    with socket.create_connection(("127.0.0.1", int(where(hasp))), timeout=60) as s:
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: "http_accept_failed reason=" in hasp.log, "hasp to run out of descriptors")
        resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert s.recv(100).startswith(b"HTTP/1.1 200 ")


@covers("console_full")
def test_console_lets_in_who_can_log_in_while_strangers_hold_all_its_places(start_hasp):
    hasp = start_hasp("[admin]\nlisten = 127.0.0.1:0\npassword = open sesame\n" + HTTP)
    port = int(re.search(r" listening_console address=127\.0\.0\.1:(\d+)", hasp.log).group(1))
    with contextlib.ExitStack() as stack:
        operator = stack.enter_context(Connection(("127.0.0.1", port)))
        assert operator.call("AUTH", "open sesame") == OK
        strangers = [stack.enter_context(Connection(("127.0.0.1", port))) for _ in range(PLACES)]
        for stranger in strangers:
            stranger.send(b"*2\r\n$4\r\nAUTH")
        late = stack.enter_context(Connection(("127.0.0.1", port)))
        assert late.call("AUTH", "open sesame") == OK
        assert operator.call("PING") == PONG
        assert value(hasp, "hasp_limit_reached_total", limit="console") == 2
    assert "console_full limit=64 closed_client=" in hasp.log


@covers("console_full")
def test_console_closes_the_operator_who_is_silent_for_longest(share_hasp, path):
    share_hasp(f"[admin]\nlisten = unix:{path}\n").is_up()
    with contextlib.ExitStack() as stack:
        operators = [stack.enter_context(Connection(str(path))) for _ in range(PLACES)]
        for operator in operators:
            assert operator.call("PING") == PONG
        assert operators[0].call("PING") == PONG
        late = stack.enter_context(Connection(str(path)))
        assert late.call("PING") == PONG
        assert operators[0].call("PING") == PONG
        with pytest.raises((EOFError, ConnectionError)):
            operators[1].call("PING")


@covers("console_full")
def test_console_closes_nobody_who_awaits_an_answer(share_hasp, path):
    hasp = share_hasp(f"[admin]\nlisten = unix:{path}\n").is_up()
    with contextlib.ExitStack() as stack:
        client = stack.enter_context(hasp.connect())
        assert client.call("MULTI") == OK
        operators = [stack.enter_context(Connection(str(path))) for _ in range(PLACES)]
        for operator in operators:
            operator.send(encode("PING") + encode("PAUSE"))
            assert operator.read() == PONG
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(60)
            s.connect(str(path))
            assert s.recv(100).startswith(b"-ERR max number")
        assert client.call("DISCARD") == OK
        for operator in operators:
            assert operator.read() == OK
        assert operators[0].call("RESUME") == OK  # the next test may get the same hasp


@covers("console_full")
def test_console_closes_those_who_hung_up_while_they_awaited_an_answer(share_hasp, path):
    hasp = share_hasp(f"[admin]\nlisten = unix:{path}\n").is_up()
    with hasp.connect() as client:
        assert client.call("MULTI") == OK
        for _ in range(PLACES):
            with Connection(str(path)) as operator:
                operator.send(encode("PING") + encode("PAUSE"))
                assert operator.read() == PONG
                operator.send(encode("PING"))  # hasp does not read this until it has answered PAUSE
        with Connection(str(path)) as late:
            assert late.call("RESUME") == OK
