# SPDX-License-Identifier: BSD-3-Clause
"""A Redis Cluster is one server to its clients, wherever keys are, and wherever they go."""

import socket

import pytest

from harness import encode, until
from harness.resp import pipeline

KEYS = [f"key:{n}" for n in range(60)]


@pytest.fixture(name="hasp")
def _hasp(cluster, start_hasp):
    return start_hasp(upstream=cluster.upstream)


def bulk(value):
    value = str(value).encode()
    return b"$%d\r\n%s\r\n" % (len(value), value)


def test_keys_are_written_and_read_wherever_they_are(cluster, hasp):
    with hasp.connect() as client:
        for n, key in enumerate(KEYS):
            assert client.call("SET", key, n) == b"+OK\r\n"
        for n, key in enumerate(KEYS):
            assert client.call("GET", key) == bulk(n)
    sizes = [node.ask("DBSIZE") for node in cluster.primaries()]
    assert sum(sizes) == len(KEYS) and min(sizes) > 0


def test_replies_of_a_pipeline_come_in_the_order_of_its_commands(hasp):
    with hasp.connect() as client:
        for _ in range(20):
            assert pipeline(client, *[("SET", key, n) for n, key in enumerate(KEYS)]) == [b"+OK\r\n"] * len(KEYS)
            assert pipeline(client, *[("GET", key) for key in KEYS]) == [bulk(n) for n in range(len(KEYS))]


def test_a_node_that_hangs_holds_up_only_those_who_ask_it(cluster, hasp):
    with hasp.connect() as one, hasp.connect() as other:
        for client in one, other:
            assert pipeline(client, *[("SET", key, 1) for key in KEYS]) == [b"+OK\r\n"] * len(KEYS)
        slow = cluster.owner(KEYS[0])
        elsewhere = next(key for key in KEYS if cluster.owner(key) is not slow)
        with slow.frozen():
            one.send(encode("GET", KEYS[0]) + encode("GET", elsewhere))
            assert other.call("GET", elsewhere) == bulk(1)
        assert [one.read(), one.read()] == [bulk(1), bulk(1)]


def test_keys_in_several_slots_are_refused_in_redis_words(hasp):
    with hasp.connect() as client:
        assert client.call("RENAME", "a", "b") == b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
        assert client.call("RENAME", "{a}", "{a}b") == b"-ERR no such key\r\n"


def test_values_of_any_size_pass(hasp):
    value = b"x" * 5_000_000
    with hasp.connect() as client:
        assert pipeline(client, ("SET", "big", value), ("GET", "big"), ("GET", "none")) == [
            b"+OK\r\n", b"$%d\r\n%s\r\n" % (len(value), value), b"$-1\r\n"]


def test_what_a_session_is_holds_at_every_node(cluster, hasp):
    with hasp.connect() as client:
        client.call("HELLO", 3)
        assert client.call("CLIENT", "SETNAME", "me") == b"+OK\r\n"
        assert pipeline(client, *[("HSET", key, "f", "v") for key in KEYS]) == [b":1\r\n"] * len(KEYS)
        assert pipeline(client, *[("HGETALL", key) for key in KEYS]) == [b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n"] * len(KEYS)


def test_a_blocked_client_is_answered_by_the_node_of_its_key(hasp):
    with hasp.connect() as one, hasp.connect() as other:
        for key in KEYS[:6]:
            one.send(encode("BLPOP", key, 0))
            until(lambda key=key: other.call("RPUSH", key, "v"), "a push")
            assert one.read() == b"*2\r\n" + bulk(key) + bulk("v")


def test_a_client_that_watches_keys_for_changes_hears_of_each(hasp):
    with hasp.connect() as one, hasp.connect() as other:
        one.call("HELLO", 3)
        assert one.call("CLIENT", "TRACKING", "ON") == b"+OK\r\n"
        for key in KEYS[:12]:
            assert one.call("GET", key) == b"_\r\n"
            other.call("SET", key, 1)
            assert one.read() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n" + bulk(key)


def test_the_connection_ends_behind_the_answer_to_quit(hasp):
    with hasp.connect() as client:
        client.send(encode("SET", "k", 1) + encode("SET", "l", 1) + encode("QUIT"))
        assert [client.read() for _ in range(3)] == [b"+OK\r\n"] * 3
        assert client.at_end()


def test_what_hangs_up_having_sent_a_pipeline_gets_every_reply(hasp):
    with hasp.connect() as client:
        client.send(b"".join(encode("INCR", key) for key in KEYS))
        client.sock.shutdown(socket.SHUT_WR)
        assert [client.read() for _ in KEYS] == [b":1\r\n"] * len(KEYS)
        assert client.at_end()
