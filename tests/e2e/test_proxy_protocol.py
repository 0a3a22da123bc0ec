# SPDX-License-Identifier: BSD-3-Clause
"""Clients behind a balancer that speaks the PROXY protocol: hasp sees the client's address, not the
balancer's."""

import signal
import socket
import struct

import pytest
from harness import Connection, encode, until
from harness.marks import covers
from harness.replies import NIL, OK, ONE, PONG
from harness.scrape import HTTP, value
from harness.sections import VERBS, rule
from harness.tls import tls_address

BALANCER = "127.0.0.2"  # only the balancer connects from this address
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def line(host, port=40123):
    return b"PROXY TCP%d %s %s %d 6380\r\n" % (6 if ":" in host else 4, host.encode(), host.encode(), port)


def binary(host, port=40123, more=b""):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = socket.inet_pton(family, host)
    block = address + address + port.to_bytes(2, "big") * 2 + more
    return SIGNATURE + (b"\x21\x21" if ":" in host else b"\x21\x11") + len(block).to_bytes(2, "big") + block


LOCAL = SIGNATURE + b"\x20\0\0\0"
UNSPECIFIED = SIGNATURE + b"\x21\0\0\x03abc"
OF_A_UNIX_SOCKET = SIGNATURE + b"\x21\x31" + (216).to_bytes(2, "big") + bytes(216)
ITS_OWN = [LOCAL, UNSPECIFIED, OF_A_UNIX_SOCKET, b"PROXY UNKNOWN\r\n"]

OWNED = rule(owner="address", lease="1h") + VERBS
BALANCERS = f"10.9.0.0/16 {BALANCER}"


@pytest.fixture
def hasp(share_hasp):
    return share_hasp(OWNED, proxy_protocol=BALANCERS)


def behind(hasp, header):
    """Returns a connection from the balancer's address, after `header` was sent."""
    connection = Connection(hasp.address, source=BALANCER)
    connection.send(header)
    return connection


@pytest.mark.parametrize("header", [line, binary])
@pytest.mark.parametrize("hosts", [("192.0.2.7", "192.0.2.8"), ("2001:db8::7", "2001:db8::8")])
def test_owners_by_address_are_those_behind_the_balancer(hasp, plain, header, hosts):
    with behind(hasp, header(hosts[0])) as c, behind(hasp, header(hosts[0], 1)) as same, \
            behind(hasp, header(hosts[1])) as other:
        assert c.call("SETNX", "lock:1", "x") == ONE
        assert plain.get("hasp:owner:{lock:1}") == f"address:{hosts[0]} x"
        assert other.call("DEL", "lock:1") == b":0\r\n"
        assert same.call("DEL", "lock:1") == ONE


def test_tokens_of_connections_name_those_behind_the_balancer(hasp, plain):
    with behind(hasp, line("192.0.2.7")) as c, behind(hasp, binary("2001:db8::7")) as other:
        for client, key, address in ((c, "a", "192.0.2.7:40123"), (other, "b", "[2001:db8::7]:40123")):
            assert client.call("LOCK", key).startswith(b":")
            (token,) = plain.hkeys(key)
            assert token.startswith(f"connection:{address}/")


def test_what_follows_the_header_at_once_is_served(hasp):
    for header in (line("192.0.2.7"), binary("192.0.2.7", more=bytes(3000)), *ITS_OWN):
        with behind(hasp, header + encode("PING") * 3) as c:
            assert [c.read() for _ in range(3)] == [PONG] * 3


def test_header_may_come_in_single_bytes(hasp):
    for header in (line("192.0.2.7"), binary("192.0.2.7")):
        with behind(hasp, b"") as c:
            c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in header + encode("PING"):
                c.send(bytes([byte]))
                hasp.take_turn()
            assert c.read() == PONG


@pytest.mark.parametrize("header", ITS_OWN)
def test_what_the_balancer_says_of_itself_leaves_its_address(hasp, plain, header):
    with behind(hasp, header) as c:
        assert c.call("SETNX", "lock:1", "x") == ONE
        assert plain.get("hasp:owner:{lock:1}") == f"address:{BALANCER} x"


@covers("proxy_protocol_failed")
@pytest.mark.parametrize("header, reason", [
    (encode("PING"), "there is none"),
    (b"PROXY TCP4 192.0.2.7\r\n", "hasp does not understand its addresses"),
    (b"PROXY UNKNOWN " + b"x" * 100, "its line is too long"),
    (SIGNATURE + b"\x21\x11\xff\xff", "it is too long"),
    (SIGNATURE + b"\x31\x11\0\0", "it has an unknown version"),
    (b"PROXY TCP4", "closed by the other side"),
])
def test_balancer_whose_header_is_not_in_order_is_closed(hasp, header, reason):
    with behind(hasp, header) as c:
        if "closed" in reason:
            c.sock.shutdown(socket.SHUT_WR)
        assert c.at_end()
        address = "{}:{}".format(*c.sock.getsockname())
    line_of_it = f'proxy_protocol_failed address="{address}" listener=127.0.0.1:0 reason="{reason}"'
    until(lambda: line_of_it in hasp.log, line_of_it)


@pytest.mark.parametrize("linger", [(0, 0), (1, 0)])
def test_health_check_that_only_connects_is_no_proxy_protocol_failed(start_hasp, linger):
    """With SO_LINGER and no time, close() resets the connection, as HAProxy's check does."""
    hasp = start_hasp(proxy_protocol=BALANCER)
    for sent, nlines in (b"", 0), (b"PROXY ", 1):
        with behind(hasp, sent) as check:
            hasp.take_turn()  # hasp has accepted it
            check.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", *linger))
        hasp.take_turn()
        assert hasp.log.count("proxy_protocol_failed") == nlines


@covers("proxy_protocol")
def test_header_is_waited_for_no_longer_than_for_a_login(start_hasp):
    hasp = start_hasp(HTTP, proxy_protocol=BALANCER, client_login_timeout="1s")
    with behind(hasp, b"PROXY TCP4 ") as c:
        assert c.at_end()
    assert value(hasp, "hasp_limit_reached_total", limit="client_login_timeout") == 1
    until(lambda: 'reason="no PROXY header came in time"' in hasp.log, "hasp to log that the header is missing")
    with behind(hasp, line("192.0.2.7")) as c:
        assert c.call("PING") == PONG


def test_header_of_anybody_else_is_refused(hasp, plain):
    """hasp passes such a header to Redis, which knows no command PROXY. (A header of version 2
    contains a zero byte: to Redis, its line never ends.)"""
    with Connection(hasp.address) as c:
        c.send(line("192.0.2.7"))
        assert c.read().startswith(b"-ERR unknown command 'PROXY'")
        assert c.call("SETNX", "lock:1", "x") == ONE
        assert plain.get("hasp:owner:{lock:1}") == "address:127.0.0.1 x"


def test_those_whose_header_is_awaited_count_as_clients_and_do_not_keep_hasp(start_hasp):
    hasp = start_hasp(proxy_protocol=BALANCER, max_clients=2)
    with behind(hasp, b"") as waits, behind(hasp, line("192.0.2.7")) as c:
        assert c.call("PING") == PONG
        with Connection(hasp.address) as another:
            assert another.read() == b"-ERR max number of clients reached\r\n"
        assert hasp.stop() is None
        assert waits.at_end()


def test_header_may_follow_while_hasp_drains(start_hasp):
    hasp = start_hasp(proxy_protocol=BALANCER)
    with behind(hasp, b"") as new, behind(hasp, line("192.0.2.7")) as idle:
        assert idle.call("PING") == PONG  # hasp has accepted both
        hasp.signal(signal.SIGTERM)
        assert idle.at_end()
        new.send(line("192.0.2.8") + encode("PING"))
        assert new.read() == PONG
        assert new.at_end()
    until(lambda: not hasp.running(), "hasp to leave")


def test_reload_changes_who_is_a_balancer(start_hasp):
    hasp = start_hasp(OWNED, proxy_protocol=BALANCERS)
    hasp.reload(BALANCERS, "10.9.0.0/16")
    with Connection(hasp.address, source=BALANCER) as c:
        assert c.call("PING") == PONG
    hasp.reload("10.9.0.0/16", "127.0.0.0/8 ::1")
    with Connection(hasp.address) as c:
        c.send(line("192.0.2.7"))
        assert c.call("SETNX", "lock:1", "x") == ONE
        assert c.call("SET", "lock:1", "y", "NX") == NIL
        assert c.call("DEL", "lock:1") == ONE
        c.send(encode("SET", "a", "1"))
        assert c.read() == OK


@pytest.mark.parametrize("header", [line, binary])
def test_header_precedes_the_handshake(tls_hasp, authority, tls_redis, header):
    hasp = tls_hasp(rule(owner="address"), proxy_protocol=BALANCER)
    tls_redis.client().flushall()
    with socket.create_connection(tls_address(hasp), source_address=(BALANCER, 0)) as sock:
        sock.sendall(header("192.0.2.7"))
        with authority.trusting().wrap_socket(sock, server_hostname="localhost") as tls:
            tls.sendall(encode("SETNX", "lock:1", "x"))
            assert tls.recv(100) == ONE
            assert tls_redis.client().get("hasp:owner:{lock:1}") == "address:192.0.2.7 x"
    with socket.create_connection(tls_address(hasp), source_address=(BALANCER, 0)) as sock:
        sock.sendall(header("192.0.2.9") + encode("PING"))
        until(lambda: 'tls_failed address="192.0.2.9:40123"' in hasp.log, "hasp to log the address of the client that does not encrypt")
