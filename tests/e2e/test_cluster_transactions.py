# SPDX-License-Identifier: BSD-3-Clause
"""Transactions in front of a cluster: with all keys in one slot they work as in a single Redis;
others are refused."""

import threading

import pytest

from harness.replies import CROSSSLOT, EXECABORT, OK, QUEUED
from harness.resp import pipeline
from harness.shared_cluster import hasp_of_cluster  # noqa: F401


BLOCKS = [
    "MULTI; SET {a}1 x; GET {a}1; EXEC",
    "MULTI; EXEC",
    "MULTI; PING; ECHO x; EXEC",
    "MULTI; PING; SET {a}1 x; PUBLISH c m; EXEC; GET {a}1",
    "MULTI; SET {a}1 x; DISCARD; GET {a}1",
    "MULTI; DISCARD; EXEC; DISCARD",
    "MULTI; GET; SET {a}1 x; EXEC; GET {a}1",
    "MULTI; SET {a}1 x; NOSUCH; EXEC; GET {a}1",
    "MULTI; MULTI; WATCH {a}1; SET {a}1 x; EXEC",
    "MULTI; SET {a}1 x; LPUSH {a}1 y; EXEC",
    "MULTI; EXEC x; EXEC",
    "MULTI; DISCARD x; EXEC",
    "WATCH {a}1 {a}2; SET {a}1 y; MULTI; SET {a}2 x; EXEC; GET {a}2",
    "WATCH {a}1; MULTI; SET {a}2 x; EXEC; GET {a}2",
    "WATCH {a}1; SET {a}1 y; UNWATCH; MULTI; SET {a}2 x; EXEC",
    "WATCH {a}1; SET {a}1 y; MULTI; DISCARD; MULTI; SET {a}2 x; EXEC",
    "WATCH {a}1; MULTI; UNWATCH; SET {a}1 x; EXEC",
    "MULTI; SET {a}1 x; RESET; GET {a}1; EXEC",
    "MULTI; INCR {a}n; EVAL return{KEYS[1],redis.call('INCR',KEYS[1])} 1 {a}n; EXEC",
    "MULTI; MGET {a}1 {a}2; MSET {a}1 x {a}2 y; DEL {a}1 {a}2; EXEC",
    "WATCH; MULTI; WATCH; EXEC",
]


@pytest.mark.parametrize("version", [2, 3])
def test_transactions_on_one_slot_are_redis_own(hasp, redis_server, version):
    for line in BLOCKS:
        replies = []
        for server in hasp, redis_server:
            with server.connect() as client:
                client.call("FLUSHALL")
                client.call("HELLO", version)
                commands = [command.split() for command in line.split("; ")]
                replies.append((pipeline(client, *commands), client.call("DEL", "{a}1", "{a}2", "{a}n")))
                one_by_one = [client.call(*command) for command in commands]
                replies[-1] += (one_by_one,)
        assert replies[0] == replies[1], line


def test_what_is_changed_by_others_meanwhile_fails(hasp):
    with hasp.connect() as one, hasp.connect() as other:
        for key in "abcdef":
            assert one.call("WATCH", key) == OK
            assert other.call("SET", key, 1) == OK
            assert pipeline(one, ("MULTI",), ("SET", key, 2), ("EXEC",)) == [OK, QUEUED, b"*-1\r\n"]
            assert one.call("GET", key) == b"$1\r\n1\r\n"


def test_keys_in_several_slots_abort_it(hasp):
    with hasp.connect() as client:
        assert pipeline(client, ("MULTI",), ("SET", "a", 1), ("SET", "b", 1), ("SET", "a", 2), ("EXEC",)) == [
            OK, QUEUED, CROSSSLOT, QUEUED, EXECABORT]
        assert pipeline(client, ("MULTI",), ("MSET", "a", 1, "b", 1), ("EXEC",)) == [OK, CROSSSLOT, EXECABORT]
        assert pipeline(client, ("WATCH", "a"), ("WATCH", "b"), ("MULTI",), ("GET", "b"), ("EXEC",)) == [
            OK, CROSSSLOT, OK, CROSSSLOT, EXECABORT]
        assert pipeline(client, ("GET", "a"), ("GET", "b")) == [b"$-1\r\n"] * 2


def test_commands_on_all_nodes_abort_it(hasp):
    with hasp.connect() as client:
        for line in "FLUSHALL", "DBSIZE", "KEYS *", "SCAN 0", "SCRIPT FLUSH", "SUBSCRIBE c", "HELLO 3", "CLUSTER INFO":
            first, second, third = pipeline(client, ("MULTI",), line.split(), ("EXEC",))
            assert (first, second[:1], third) == (OK, b"-", EXECABORT), line
        assert client.call("PING") == b"+PONG\r\n"


def test_its_slot_may_move_between_its_commands(shared_cluster, hasp):
    slot, key = shared_cluster.slot("{moving}"), "{moving}"
    for when in range(4):
        to = shared_cluster.other_than(slot)
        with hasp.connect() as client:
            client.call("SET", key, "old")
            steps = [("MULTI",), ("APPEND", key, 1), ("APPEND", key, 2), ("EXEC",)]
            expected = [OK, QUEUED, QUEUED, b"*2\r\n:4\r\n:5\r\n"]
            for n, (step, reply) in enumerate(zip(steps, expected)):
                if n == when:
                    shared_cluster.migrate(slot, to)
                assert client.call(*step) == reply, (when, step)
            assert client.call("GET", key) == b"$5\r\nold12\r\n"


def test_its_slot_may_be_on_its_way(shared_cluster, hasp):
    """The source has no key of the slot any more, but the slot still belongs to it."""
    slot = shared_cluster.slot("{moving}")
    to = shared_cluster.other_than(slot)
    with hasp.connect() as client:
        client.call("MSET", "{moving}1", 1, "{moving}2", 2)
        source = shared_cluster.begin_migration(slot, to)
        shared_cluster.move_keys(slot, source, to)
        client.call("MULTI")
        assert pipeline(client, ("INCR", "{moving}1"), ("INCR", "{moving}2")) == [QUEUED] * 2
        end = threading.Timer(0.2, shared_cluster.end_migration, (slot, source, to))
        end.start()
        assert client.call("EXEC") == b"*2\r\n:2\r\n:3\r\n"
        end.join()


def test_watched_keys_that_move_count_as_changed(shared_cluster, hasp):
    slot = shared_cluster.slot("{moving}")
    to = shared_cluster.other_than(slot)
    with hasp.connect() as client:
        assert client.call("WATCH", "{moving}") == OK
        shared_cluster.migrate(slot, to)
        assert pipeline(client, ("MULTI",), ("SET", "{moving}", 1), ("EXEC",)) == [OK, QUEUED, b"*-1\r\n"]
        assert pipeline(client, ("WATCH", "{moving}"), ("MULTI",), ("SET", "{moving}", 1), ("EXEC",)) == [
            OK, OK, QUEUED, b"*1\r\n+OK\r\n"]


def test_counting_by_transactions_loses_nothing_while_slots_move(shared_cluster, hasp):
    """redis-py's transaction() repeats WATCH, GET, MULTI, SET, EXEC until EXEC succeeds."""
    slot, done, counted = shared_cluster.slot("{moving}"), threading.Event(), []

    def count():
        n = 0
        with hasp.client() as client:
            while not done.is_set() or n == 0:
                client.transaction(increment, "{moving}")
                n += 1
        counted.append(n)

    def increment(pipe):
        value = int(pipe.get("{moving}") or 0)
        pipe.multi()
        pipe.set("{moving}", value + 1)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        shared_cluster.migrate(slot, shared_cluster.other_than(slot))
    done.set()
    for thread in threads:
        thread.join()
    with hasp.client() as client:
        assert len(counted) == 4 and int(client.get("{moving}")) == sum(counted)
