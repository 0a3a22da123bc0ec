# SPDX-License-Identifier: BSD-3-Clause
"""SYNC, PSYNC and MONITOR. If Redis accepts them, no ordinary replies may follow."""

import pytest
from harness import encode, until
from harness.poolings import pooling  # noqa: F401
from harness.replies import OK, ONE, PONG, ZERO
from harness.sections import rule

KEY = "lock:1"


def served(hasp):
    """Returns a client that has used a shared link, if links are shared."""
    hasp.is_up()
    connection = hasp.connect()
    assert connection.call("PING") == PONG
    return connection


@pytest.fixture
def limited(plain):
    """Creates a user that may not run SYNC, PSYNC and MONITOR. Returns the command that logs in."""
    plain.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all",
                          "-sync", "-psync", "-monitor")
    return ("AUTH", "limited", "pw")


@pytest.mark.parametrize("command", [("SYNC",), ("PSYNC", "?", -1)])
def test_sync_is_the_first_command_on_its_link(start_hasp, plain, command):
    plain.config_set("repl-diskless-sync-delay", 0)
    plain.set("k", "v")
    hasp = start_hasp()
    with served(hasp) as one:
        one.send(encode(*command))
        first = one.file.readline().lstrip(b"\n") or one.file.readline()
        assert first.startswith((b"+FULLRESYNC ", b"$")), first
        plain.set("after", "1")
        until(lambda: b"after" in one.file.read1(), "the write to be replicated")


def test_what_a_replica_sends_before_the_stream_begins_reaches_redis(start_hasp, plain):
    plain.config_set("repl-diskless-sync-delay", 0)
    with start_hasp().connect() as one:
        assert one.call("REPLCONF", "listening-port", 6999) == OK
        assert one.call("REPLCONF", "capa", "psync2") == OK
        one.send(encode("PSYNC", "?", -1) + encode("REPLCONF", "ACK", 4711))
        assert one.file.readline().startswith(b"+FULLRESYNC ")
        until(lambda: plain.info("replication").get("slave0", {}).get("port") == 6999, "the replica's port in INFO")
        until(lambda: plain.info("replication")["slave0"]["offset"] == 4711, "the acknowledged offset in INFO")


@pytest.mark.parametrize("command", [("SYNC",), ("PSYNC", "?", -1), ("MONITOR",), ("PSYNC",),
                                     ("SYNC", "x")])
def test_refused_stream_leaves_the_rules_in_force(share_hasp, plain, limited, command):
    hasp = share_hasp(rule())
    with served(hasp) as one, hasp.connect() as other:
        assert one.call(*limited) == OK
        assert other.call("SETNX", KEY, "v") == ONE
        one.send(encode(*command) + encode("DEL", KEY) + encode("SETNX", "lock:2", "v"))
        assert one.read().startswith((b"-NOPERM", b"-ERR wrong number"))
        assert one.read() == ZERO
        assert one.read() == ONE
        assert plain.ttl("lock:2") > 0


@pytest.mark.parametrize("command", [("SYNC",), ("PSYNC", "?", -1), ("MONITOR",)])
@pytest.mark.parametrize("proto", [2, 3])
def test_message_before_the_refusal_is_no_stream(start_hasp, plain, limited, command, proto):
    hasp = start_hasp(rule())
    with served(hasp) as one, hasp.connect() as other:
        one.call("HELLO", proto)
        assert one.call(*limited) == OK
        assert one.call("SUBSCRIBE", "news")
        assert other.call("SETNX", KEY, "v") == ONE
        with hasp.frozen():  # so that Redis gets the command before the message
            one.send(encode(*command) + encode("UNSUBSCRIBE") + encode("DEL", KEY))
            plain.publish("news", "x")
        assert b"message" in one.read()
        assert one.read().startswith((b"-NOPERM", b"-ERR Can't execute"))
        assert b"unsubscribe" in one.read()
        assert one.read() == ZERO


def test_refused_stream_in_a_transaction_changes_nothing(share_hasp):
    with served(share_hasp(rule())) as one:
        assert one.call("MULTI") == OK
        assert one.call("SYNC").startswith(b"-ERR Command not allowed inside a transaction")
        assert one.call("EXEC").startswith(b"-EXECABORT")
        assert one.call("SETNX", KEY, "v") == ONE


def test_monitor_shows_what_comes_and_nothing_of_hasps_own(start_hasp, plain):
    hasp = start_hasp()
    with served(hasp) as one, served(hasp) as other:
        assert one.call("MONITOR") == OK
        assert other.call("MULTI") == OK
        assert other.call("DISCARD") == OK
        names = iter(lambda: one.read().split(b'"')[1].lower(), b"discard")
        # MONITOR may also show SCRIPT LOAD, which hasp sends when it starts.
        assert [name for name in names if name != b"script"] == [b"multi"]


def test_wait_counts_what_was_written_on_shared_links(start_hasp, redis_server, plain):
    """No replica has the write. WAIT on a connection that has written nothing would count all
    replicas."""
    plain.config_set("repl-diskless-sync-delay", 0)
    hasp = start_hasp()
    with hasp.connect() as replica, served(hasp) as one:
        replica.send(encode("SYNC"))
        until(lambda: plain.info("replication")["connected_slaves"] == 1, "Redis to count the replica")
        until(lambda: plain.info("replication")["slave0"]["state"] == "online"
              or replica.file.read1() is None, "the replica to be synchronised")
        assert one.call("SET", "k", "v") == OK
        assert one.call("WAIT", 1, 100) == ZERO
