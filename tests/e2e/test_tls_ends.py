# SPDX-License-Identifier: BSD-3-Clause
"""Events within a TLS connection: new keys, new handshakes, ends of all kinds."""

import socket

import pytest
from harness import Connection, encode
from harness.encrypted import TlsAddress
from harness.libssl import TLS1_2, Libssl
from harness.replies import OK, PONG
from harness.tls import connect_tls, encrypted, tls_address

MB = 1 << 20


@pytest.fixture
def redis_server(tls_redis):
    tls_redis.client().flushall()
    return tls_redis


def test_keys_change_while_replies_wait(tls_hasp, redis_server):
    """hasp must answer each key update with new keys, after a record that the socket has taken only
    in part. hasp reads requests until 256 KiB of replies wait."""
    value = b"x" * 50_000
    redis_server.client().set("big", value)
    reply = b"$%d\r\n%b\r\n" % (len(value), value)
    hasp = tls_hasp()
    with Libssl(tls_address(hasp), receive_buffer=65536) as c, Connection(hasp.address) as other:
        for _ in range(200):  # 10 MB: more than the kernel takes
            c.write(encode("GET", "big"))
            # hasp has served both clients, so it has read c's GET.
            assert [other.call("GET", "big") for _ in range(2)] == [reply] * 2
            c.update_keys()
        c.write(encode("PING"))
        expected = reply * 200 + PONG
        assert c.read(len(expected)) == expected


def test_keys_change_while_a_request_is_half_sent(tls_hasp, redis_server):
    value = b"y" * 3 * MB
    request = encode("SET", "v", value) + encode("GET", "v")
    with Libssl(tls_address(tls_hasp())) as c:
        for at in range(0, len(request), 100_003):
            c.write(request[at:at + 100_003])
            c.update_keys()
        expected = OK + b"$%d\r\n%b\r\n" % (len(value), value)
        assert c.read(len(expected)) == expected


def test_another_handshake_is_refused(tls_hasp, authority):
    hasp = tls_hasp()
    with Libssl(tls_address(hasp), TLS1_2) as c, connect_tls(tls_address(hasp), authority.trusting()) as other:
        c.write(encode("PING"))
        assert c.read(len(PONG)) == PONG
        assert not c.renegotiate()
        assert other.call("PING") == PONG
    assert hasp.log.count("tls_failed") <= 1


@pytest.mark.parametrize("command", [encode("SET", "k", "v" * 100), encode("SET", "k", "v" * 3 * MB), b"SET k v\r\n"],
                         ids=["short", "long", "inline"])
def test_request_that_is_cut_off_is_no_request(tls_hasp, authority, redis_server, command):
    """The connection ends without TLS' close_notify, as if an attacker had cut it."""
    hasp = tls_hasp()
    for end in command[:-1], command[:len(command) // 2]:
        with Connection(TlsAddress.of(tls_address(hasp), authority.trusting())) as c:
            c.send(encode("PING") + end)
            assert c.read() == PONG
            c.sock.sock.shutdown(socket.SHUT_WR)
            assert c.at_end()
    assert not redis_server.client().exists("k")


def test_large_values_both_ways_to_one_that_reads_slowly(tls_hasp, authority, redis_server):
    value = b"z" * 64 * MB
    upstream = encrypted(redis_server.tls_address, authority, connect_timeout="60s")  # the value keeps Redis busy
    hasp = tls_hasp(upstream=upstream, memory_limit="64mb")
    with Connection(TlsAddress.of(tls_address(hasp), authority.trusting()), receive_buffer=65536) as c:
        assert c.call("SET", "v", value) == OK
        c.send(encode("GET", "v") + encode("PING"))
        with connect_tls(tls_address(hasp), authority.trusting()) as other:
            assert [other.call("PING") for _ in range(50)] == [PONG] * 50
        assert c.read() == b"$%d\r\n%b\r\n" % (len(value), value)
        assert c.read() == PONG
