# SPDX-License-Identifier: BSD-3-Clause
"""Clients see a Redis Cluster as one server, wherever its keys are or move."""

import contextlib
import os
import re
import socket
import subprocess
import time

import pytest

from harness import encode, until
from harness.cluster import Cluster
from harness.marks import covers
from harness.replies import CROSSSLOT, bulk
from harness.resp import pipeline
from harness.shared_cluster import hasp_of_cluster  # noqa: F401

HASP = os.environ["HASP"]
KEYS = [f"key:{n}" for n in range(60)]


def send_until_full(sock, data):
    """Sends `data` until the socket accepts no more. Returns the number of bytes sent."""
    sent = 0
    try:
        while sent < len(data):
            sent += sock.send(data[sent:sent + 65536])
    except TimeoutError:
        pass
    return sent


def test_keys_are_written_and_read_wherever_they_are(shared_cluster, hasp):
    with hasp.connect() as client:
        for n, key in enumerate(KEYS):
            assert client.call("SET", key, n) == b"+OK\r\n"
        for n, key in enumerate(KEYS):
            assert client.call("GET", key) == bulk(n)
    sizes = [node.ask("DBSIZE") for node in shared_cluster.primaries()]
    assert sum(sizes) == len(KEYS) and min(sizes) > 0


def test_replies_of_a_pipeline_come_in_the_order_of_its_commands(hasp):
    with hasp.connect() as client:
        for _ in range(20):
            assert pipeline(client, *[("SET", key, n) for n, key in enumerate(KEYS)]) == [b"+OK\r\n"] * len(KEYS)
            assert pipeline(client, *[("GET", key) for key in KEYS]) == [bulk(n) for n in range(len(KEYS))]


def test_a_node_that_hangs_holds_up_only_those_who_ask_it(cluster, start_hasp):
    hasp = start_hasp(upstream=cluster.upstream)
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
        assert client.call("RENAME", "a", "b") == CROSSSLOT
        assert client.call("RENAME", "{a}", "{a}b") == b"-ERR no such key\r\n"


def test_reset_ends_silence(hasp):
    with hasp.connect() as client:
        client.send(encode("CLIENT", "REPLY", "OFF") + encode("SET", "k", 1) + encode("RESET") + encode("GET", "k"))
        assert [client.read(), client.read()] == [b"+RESET\r\n", bulk(1)]


def test_values_of_any_size_pass(hasp):
    value = b"x" * 5_000_000
    with hasp.connect() as client:
        assert pipeline(client, ("SET", "big", value), ("GET", "big"), ("GET", "none")) == [
            b"+OK\r\n", bulk(value), b"$-1\r\n"]


def test_a_long_value_waits_for_a_node_that_is_slow_to_take_it(start_hasp):
    request = encode("SET", "big", b"x" * 50_000_000) + encode("STRLEN", "big")
    with Cluster(replicas=0, node_timeout_ms=60_000) as cluster, start_hasp(upstream=cluster.upstream).connect() as client:
        with cluster.owner("big").frozen():
            client.sock.settimeout(1)
            sent = send_until_full(client.sock, request)
        client.sock.settimeout(30)
        client.send(request[sent:])
        assert [client.read(), client.read()] == [b"+OK\r\n", b":50000000\r\n"]


def test_a_long_value_that_the_client_sends_slowly_is_waited_for(shared_cluster, start_hasp):
    limits = "server_check_delay = 200ms\nserver_timeout = 500ms"
    hasp = start_hasp(upstream=f"{shared_cluster.upstream}\n{limits}", pooling="session").is_up(3)
    request = encode("SET", "big", b"x" * 200_000)
    with hasp.connect() as client:
        client.send(request[:150_000])
        time.sleep(2)  # four times server_timeout
        client.send(request[150_000:])
        assert client.read() == b"+OK\r\n"
    assert " link_ended " not in hasp.log


def test_what_a_session_is_holds_at_every_node(hasp):
    with hasp.connect() as client:
        client.call("HELLO", 3)
        assert client.call("CLIENT", "SETNAME", "me") == b"+OK\r\n"
        assert pipeline(client, *[("HSET", key, "f", "v") for key in KEYS]) == [b":1\r\n"] * len(KEYS)
        assert pipeline(client, *[("HGETALL", key) for key in KEYS]) == [b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n"] * len(KEYS)


def test_a_blocked_client_is_answered_by_the_node_of_its_key(hasp):
    with hasp.connect() as one, hasp.connect() as other:
        for key in KEYS[:6]:
            one.send(encode("BLPOP", key, 0))
            until(lambda key=key: other.call("RPUSH", key, "v"), "a push to a blocked client")
            assert one.read() == b"*2\r\n" + bulk(key) + bulk("v")


def test_what_is_pushed_is_not_lost_to_a_blocked_client_that_has_left(shared_cluster, hasp):
    def blocked():
        return sum(node.ask("INFO", "clients")["blocked_clients"] for node in shared_cluster.primaries())

    with hasp.connect() as other:
        for key in KEYS[:6]:
            with hasp.connect() as one:
                one.send(encode("BLPOP", key, 0))
                until(lambda: blocked() == 1, "the client to block")
            until(lambda: blocked() == 0, "Redis to notice that the client has left")
            assert other.call("RPUSH", key, "v") == b":1\r\n"
            assert other.call("LLEN", key) == b":1\r\n"


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


def test_nothing_is_answered_behind_quit(hasp):
    with hasp.connect() as client:
        client.send(encode("SET", "k", 1) + encode("QUIT") + encode("SET", "k", 2) + encode("ECHO", "x"))
        assert [client.read(), client.read()] == [b"+OK\r\n"] * 2
        assert client.at_end()
    with hasp.connect() as client:
        assert client.call("GET", "k") == bulk(1)


def test_what_hangs_up_having_sent_a_pipeline_gets_every_reply(hasp):
    with hasp.connect() as client:
        client.send(b"".join(encode("INCR", key) for key in KEYS))
        client.sock.shutdown(socket.SHUT_WR)
        assert [client.read() for _ in KEYS] == [b":1\r\n"] * len(KEYS)
        assert client.at_end()


def test_the_configuration_is_checked_with_the_cluster(shared_cluster, tmp_path):
    file = tmp_path / "hasp.ini"
    file.write_text(f"[upstream]\n{shared_cluster.upstream}\n[verbs]\n")
    done = subprocess.run([HASP, "-t", "-c", file], capture_output=True, text=True, timeout=60, check=True)
    assert "a node of a Redis Cluster" in done.stdout
    assert "hasp may use the keys hasp:*" in done.stdout
    assert "warning" not in done.stderr


LOCKS = """
[verbs]
[lock jobs]
pattern = job:*
wait = 20s
[guard stock]
pattern = stock:*
acquire_on = GET
"""


def test_locks_and_guards_are_wherever_their_keys_are(shared_cluster, start_hasp):
    hasp = start_hasp(LOCKS, upstream=shared_cluster.upstream)
    with hasp.connect() as one, hasp.connect() as other:
        for n in range(12):
            fence = one.call("LOCK", f"v:{n}")
            assert fence.startswith(b":1")
            assert other.call("LOCK", f"v:{n}") == b"$-1\r\n"
            assert one.call("UNLOCK", f"v:{n}") == b":1\r\n"
            assert one.call("SET", f"job:{n}", 1, "NX", "EX", 100) == b"+OK\r\n"
            other.send(encode("SET", f"job:{n}", 2, "NX", "EX", 100))
            assert one.call("DEL", f"job:{n}") == b":1\r\n"
            assert other.read() == b"+OK\r\n"
            assert one.call("GET", f"stock:{n}") == b"$-1\r\n"
            assert one.call("SET", f"stock:{n}", n) == b"+OK\r\n"
            assert other.call("GET", f"stock:{n}") == bulk(n)
            assert other.call("DEL", f"stock:{n}") == b":1\r\n"


def test_those_who_wait_for_a_lock_get_it_after_a_failover(shared_cluster, start_hasp):
    hasp = start_hasp(LOCKS, upstream=shared_cluster.upstream)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", "l", "PX", 60000).startswith(b":")
        shared_cluster.until_ok()
        other.send(encode("LOCK", "l", "PX", 60000, "WAIT", 60000))
        shared_cluster.failover(shared_cluster.owner("l"))
        assert one.call("UNLOCK", "l") == b":1\r\n"
        assert other.read().startswith(b":")


def test_a_login_holds_at_every_node(cluster, start_hasp):
    hasp = start_hasp(upstream=cluster.upstream)
    for node in cluster.nodes:
        node.ask("ACL", "SETUSER", "app", "on", ">pw", "~app:*", "+@all")
    with hasp.connect() as client:
        assert client.call("AUTH", "app", "wrong").startswith(b"-WRONGPASS")
        assert client.call("AUTH", "app", "pw") == b"+OK\r\n"
        assert pipeline(client, *[("INCR", f"app:{key}") for key in KEYS]) == [b":1\r\n"] * len(KEYS)
        assert all(reply.startswith(b"-NOPERM") for reply in pipeline(client, *[("GET", key) for key in KEYS]))
        assert client.call("RESET") == b"+RESET\r\n"
        assert pipeline(client, *[("GET", key) for key in KEYS]) == [b"$-1\r\n"] * len(KEYS)


@pytest.mark.parametrize("behind", [("QUIT",), ("MONITOR",), ("SET", "k", "x" * 100_000)])
def test_monitor_is_no_end_of_hasp(hasp, behind):
    """hasp stops following the replies of a client that sends MONITOR."""
    for first in [("CLIENT", "REPLY", "OFF")], [("SCRIPT", "DEBUG", "NO")]:
        with hasp.connect() as client:
            client.send(b"".join(encode(*command) for command in [*first, ("MONITOR",), behind, ("QUIT",)]))
            while client.sock.recv(65536):
                pass
    with hasp.connect() as client:
        assert client.call("SET", "k", 1) == b"+OK\r\n"


@pytest.mark.parametrize("command", [("QUIT",), ("RESET",), ("CLUSTER", "INFO"), ("GET", "k")])
def test_after_monitor_hasp_accepts_only_quit(hasp, command):
    with hasp.connect() as client:
        assert client.call("MONITOR") == b"+OK\r\n"
        client.send(encode(*command))
        lines = client.file.read().splitlines()
    replies = [line for line in lines if not re.match(rb"\+\d", line)]  # without the commands that MONITOR shows
    assert replies == ([b"+OK"] if command == ("QUIT",) else [])


@pytest.mark.parametrize("pooling", ["shared", "session"])
def test_without_a_login_hasp_answers_noauth(cluster, start_hasp, pooling):
    """MULTI and CLIENT REPLY, which hasp answers itself, need a login like other commands."""
    for node in cluster.nodes:
        node.ask("CONFIG", "SET", "requirepass", "pw")
    hasp = start_hasp(upstream=f"{cluster.upstream}\npassword = pw")
    commands = [("MULTI",), ("GET", "k"), ("CLIENT", "REPLY", "ON"), ("CLIENT", "REPLY", "OFF"), ("RENAME", "a", "b")]
    with hasp.connect() as client:
        for command in commands:
            assert client.call(*command) == b"-NOAUTH Authentication required.\r\n", command
        assert client.call("EXEC").startswith(b"-EXECABORT")
        assert client.call("AUTH", "pw") == b"+OK\r\n"
        assert client.call("MULTI") == b"+OK\r\n"
        assert client.call("EXEC") == b"*0\r\n"
        assert client.call("RESET") == b"+RESET\r\n"
        assert client.call("MULTI").startswith(b"-NOAUTH")


def forget_others(node):
    """Makes a dead node forget the others, so that it learns of no change when it starts."""
    config = node.dir / "nodes.conf"
    lines = [line for line in config.read_text().splitlines(keepends=True) if "myself" in line or line.startswith("vars")]
    config.write_text("".join(lines))


@covers("cluster_map_failed")
@pytest.mark.parametrize("pooling", ["shared"])
def test_a_node_that_has_been_away_is_not_believed(start_hasp):
    """After a partition, a node still reports its old slot map, and hasp must not believe it just
    because the other nodes do not answer. (Many nodes in hasp's list never answer, so that hasp
    asks no other node before this one is back.)"""
    with Cluster() as cluster, contextlib.ExitStack() as stack:
        old = cluster.owner("k")
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname() for _ in range(100)]
        seeds = "\n ".join([str(old), *("%s:%d" % address for address in silent)])
        hasp = start_hasp(upstream=f"cluster = {seeds}\nserver_check_delay = 100ms\nserver_timeout = 120s\nfailover_wait = 120s")
        client = stack.enter_context(hasp.connect())
        assert client.call("SET", "k", 1) == b"+OK\r\n"
        old.kill()
        new = cluster.until_moved_from(old, "k")
        assert client.call("SET", "k", 2) == b"+OK\r\n"
        forget_others(old)
        others = cluster.living()
        with hasp.frozen():
            for node in others:
                stack.enter_context(node.frozen())
            old.start()
        plain = stack.enter_context(old.client())
        until(lambda: "cmdstat_cluster|slots" in plain.info("commandstats"), "hasp to ask the outdated node")
        hasp.take_turn()
        assert f"cluster_map_failed address={old} reason=" in hasp.log
        for node in others:
            node.thaw()
        assert client.call("GET", "k") == bulk(2)
        assert f"cluster_node_gone address={new}" not in hasp.log
