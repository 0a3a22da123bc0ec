# SPDX-License-Identifier: BSD-3-Clause
"""client_idle_timeout and client_login_timeout: clients that send nothing, or too little."""

import contextlib
import threading
import time

import pytest
from harness import Hasp, encode
from harness.marks import BOTH, covers
from harness.processes import ProtectedRedis
from harness.relay import Relay
from harness.replies import OK, PONG
from harness.wait import prompt, readable


@pytest.fixture
def with_login():
    """start(option=value ...) starts a hasp in front of a Redis that requires a password. A busy
    machine may need a second for a login."""
    with contextlib.ExitStack() as things:
        redis = things.enter_context(ProtectedRedis())

        def start(upstream=f"unix:{redis.unix}", **options):
            hasp = Hasp("\n".join(["[hasp]", "listen = 127.0.0.1:0",
                                   *(f"{name} = {value}" for name, value in options.items()),
                                   "[upstream]", f"address = {upstream}", "password = secret", ""]))
            things.callback(hasp.remove)
            things.callback(lambda: stopped(hasp))
            return hasp.is_up()

        def stopped(hasp):
            fault = hasp.stop()
            print(hasp.log)
            assert not fault, fault

        start.redis = redis
        yield start


# --- silence ---------------------------------------------------------------------

PARTS = [b"*", b"PI", b"*2\r\n$3\r\nGET\r\n$1\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n" + 100000 * b"x"]


@covers("client_idle_timeout")
@BOTH
def test_part_of_a_request_does_not_keep_a_client_from_being_idle(share_hasp):
    hasp = share_hasp(client_idle_timeout="4s")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect(timeout=30)) for _ in PARTS]
        for client, part in zip(clients, PARTS):
            assert client.call("PING") == PONG
            client.send(part)
        assert [part[:40] for client, part in zip(clients, PARTS) if not client.at_end()] == []


@BOTH
def test_client_that_sends_its_request_slowly_is_not_idle(share_hasp):
    hasp = share_hasp(client_idle_timeout="2s")
    with hasp.connect() as one, hasp.connect(timeout=30) as idle:
        one.send(b"*2\r\n$4\r\nECHO\r\n$1000\r\n")
        left, sent, pause = 1000, time.monotonic(), 0
        while not readable(idle.sock, timeout=0.05):
            with contextlib.suppress(ConnectionError):
                one.send(b"x")
            left, pause, sent = left - 1, max(pause, time.monotonic() - sent), time.monotonic()
        prompt(pause, 1)  # after a pause of more than a second, hasp might have closed the client as idle
        assert idle.at_end()
        one.send(left * b"x" + b"\r\n")
        assert one.read() == b"$1000\r\n" + 1000 * b"x" + b"\r\n"


# --- login -----------------------------------------------------------------------


def trickle(connection, data):
    """Sends `data` byte by byte until hasp closes the connection. Returns whether hasp did."""
    with contextlib.suppress(ConnectionError):
        for byte in data:
            connection.send(bytes([byte]))
            if readable(connection.sock, timeout=0.1):
                break
    return connection.at_end()


def refused(connection):
    assert connection.call("PING").startswith(b"-NOAUTH")


def refused_to_log_in(connection):
    assert connection.call("AUTH", "wrong").startswith(b"-WRONGPASS")


def reset(connection):
    assert connection.call("RESET") == b"+RESET\r\n"


@covers("client_login_timeout")
def test_client_that_does_not_log_in_is_closed(with_login):
    hasp = with_login(client_login_timeout="4s")
    with contextlib.ExitStack() as stack:
        silent = stack.enter_context(hasp.connect(timeout=30))
        clients = {begin: stack.enter_context(hasp.connect(timeout=30)) for begin in (refused, refused_to_log_in, reset)}
        for begin, client in clients.items():
            begin(client)
        assert silent.at_end()
        assert [begin.__name__ for begin, client in clients.items() if not client.at_end()] == []


@pytest.mark.parametrize("reset_first", [False, True])
def test_login_that_is_sent_byte_by_byte_ends(with_login, reset_first):
    hasp = with_login(client_login_timeout="4s")
    with hasp.connect(timeout=30) as one:
        if reset_first:
            reset(one)
        assert trickle(one, b"*2\r\n$4\r\nAUTH\r\n$1000\r\n" + 1000 * b"x")


class Cutter(Relay):
    """A relay that sends Redis' -NOAUTH replies in two pieces, the second one when the event `rest`
    is set."""

    rest = None

    def _pass_on(self, data, source, sink, replies):
        if replies and self.rest and data.startswith(b"-NOAUTH"):
            sink.sendall(data[:3])
            self.rest.wait()
            data = data[3:]
        super()._pass_on(data, source, sink, replies)


def test_refusal_that_comes_in_two_pieces_lets_nobody_in(with_login):
    redis = with_login.redis
    with Cutter(redis.address) as relay:
        hasp = with_login(upstream=relay.address, client_login_timeout="4s")
        with hasp.connect(timeout=30) as one:
            refused(one)
            relay.rest = threading.Event()
            one.send(encode("PING"))
            assert one.file.read(3) == b"-NO"
            relay.rest.set()
            assert one.file.readline().startswith(b"AUTH")
            assert one.at_end()


def test_client_that_has_logged_in_stays(with_login):
    hasp = with_login(client_login_timeout="4s")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("AUTH", "secret") == OK
        assert other.call("HELLO", 3, "AUTH", "default", "secret").startswith(b"%")
        with hasp.connect(timeout=30) as late:
            assert late.at_end()
        assert one.call("PING") == other.call("PING") == PONG


def test_client_that_logs_out_may_log_in_again(with_login):
    hasp = with_login(client_login_timeout="4s")
    with hasp.connect(timeout=30) as one:
        assert one.call("AUTH", "secret") == OK
        with hasp.connect(timeout=30) as other:
            assert other.at_end()  # so `one` has been connected for client_login_timeout, too
        reset(one)
        assert one.call("AUTH", "secret") == OK
        reset(one)
        assert one.at_end()


def test_without_a_password_only_a_login_that_was_begun_must_end(share_hasp):
    hasp = share_hasp(client_login_timeout="1s")
    with hasp.connect() as silent, hasp.connect() as pinging:
        assert pinging.call("PING") == PONG
        with hasp.connect(timeout=30) as one:
            assert trickle(one, b"*2\r\n$4\r\nAUTH\r\n$1000\r\n" + 1000 * b"x")
        with hasp.connect(timeout=30) as one:
            assert trickle(one, b"*" + 1000 * b"0")
        assert silent.call("PING") == pinging.call("PING") == PONG


def test_first_request_that_is_no_login_may_take_its_time(share_hasp):
    hasp = share_hasp(client_login_timeout="1s")
    with hasp.connect() as one:
        one.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000\r\n")
        with hasp.connect(timeout=30) as other:
            assert trickle(other, b"*" + 1000 * b"0")
        one.send(1000 * b"x" + b"\r\n")
        assert one.read() == OK


def test_login_is_not_timed_with_0(with_login):
    hasp = with_login(client_login_timeout=0)
    with hasp.connect() as one:
        refused(one)
        hasp.reload("client_login_timeout = 0", "client_login_timeout = 1s")
        assert one.at_end()
