# SPDX-License-Identifier: BSD-3-Clause
"""Each kind of command gets the same reply in front of a cluster as from a single Redis."""

import contextlib
import re

import pytest

from harness import encode, until
from harness.marks import covers
from harness.replies import CROSSSLOT, OK, bulk
from harness.resp import pipeline
from harness.shared_cluster import hasp_of_cluster  # noqa: F401

KEYS = [f"key:{n}" for n in range(40)]
DISABLED = b"-ERR This instance has cluster support disabled\r\n"


@pytest.fixture(name="both")
def _both(hasp, redis_server):
    """both(COMMAND ...) checks that hasp and a single Redis give the same reply, and returns it."""
    with hasp.connect() as ours, redis_server.connect() as theirs:
        def call(*args, key=lambda reply: reply):
            one, other = ours.call(*args), theirs.call(*args)
            assert key(one) == key(other), (args, one, other)
            return one
        yield call


def words(reply):
    """Returns the elements of an array of strings, sorted."""
    return sorted(reply.split(b"\r\n")[2:-1:2])


@pytest.mark.parametrize("version", [2, 3])
def test_commands_on_keys_anywhere_are_split_and_merged(both, version):
    both("HELLO", version, key=lambda reply: reply[:1])
    assert both("MSET", *[word for n, key in enumerate(KEYS) for word in (key, n)]) == OK
    both("LPUSH", "list", 1)
    both("MGET", KEYS[3], "none", *KEYS, "list", KEYS[3])
    both("MGET", KEYS[0])
    assert both("EXISTS", *KEYS, "none", KEYS[0]) == b":41\r\n"
    assert both("TOUCH", *KEYS, "none") == b":40\r\n"
    assert both("DEL", *KEYS[:10], KEYS[0], "none") == b":10\r\n"
    assert both("UNLINK", *KEYS[5:20]) == b":10\r\n"
    both("MGET", *KEYS)


def test_migrate_takes_its_keys_from_their_node(hasp, redis_server, plain):
    with hasp.connect() as one:
        for key in KEYS[:6]:
            assert pipeline(one, ("SET", key, 1), ("SET", f"{{{key}}}", 2)) == [OK, OK]
            target = (redis_server.host, redis_server.port)
            assert one.call("MIGRATE", *target, key, 0, 5000) == OK
            assert one.call("MIGRATE", *target, "", 0, 5000, "COPY", "KEYS", key, f"{{{key}}}") == OK
            assert (plain.get(key), plain.get(f"{{{key}}}"), one.call("EXISTS", key)) == ("1", "2", b":0\r\n")
        assert one.call("MIGRATE", *target, "", 0, 5000, "KEYS", "a", "b") == CROSSSLOT


REFUSED = ["MGET", "MSET", "MSET a", "MSET a 1 b", "MSET a 1 b 2 c", "DEL", "EXISTS", "TOUCH", "UNLINK",
           "KEYS", "DBSIZE x", "RANDOMKEY x", "SCAN", "SCAN x", "SCAN 0 COUNT x", "SCAN 0 MATCH",
           "FLUSHALL x", "SCRIPT", "SCRIPT EXISTS", "SCRIPT LOAD", "SCRIPT NOSUCH",
           "FUNCTION LOAD x", "FUNCTION DELETE x", "FUNCTION", "CLUSTER", "READONLY x", "NOSUCH a b",
           "EVAL x", "EVAL x y", "EVAL x -1", "EVAL x 5 a", "WAIT x 0", "XREAD STREAMS a b 0",
           "GET", "GET a b", "EXEC", "DISCARD", "WATCH", "SUBSCRIBE"]


def test_what_redis_refuses_is_refused_in_its_words(both):
    for line in REFUSED:
        assert both(*line.split()).startswith(b"-"), line


def test_commands_on_all_keys_concern_those_of_all_nodes(both):
    both("MSET", *[word for key in KEYS for word in (key, 1)])
    assert both("DBSIZE") == b":40\r\n"
    both("KEYS", "key:1*", key=words)
    both("KEYS", "none*")
    assert both("FLUSHALL") == OK
    assert both("DBSIZE") == b":0\r\n"
    assert both("RANDOMKEY") == b"$-1\r\n"
    both("SET", "only", 1)
    assert both("RANDOMKEY") == bulk("only")
    assert both("FLUSHDB", "ASYNC") == OK
    assert both("KEYS", "*") == b"*0\r\n"


@pytest.mark.parametrize("count", [1, 7, 1000])
def test_a_scan_finds_each_key(hasp, count):
    names = {f"scan:{n}" for n in range(300)}
    with hasp.client() as client:
        client.mset(dict.fromkeys(names, 1))
        assert set(client.scan_iter(count=count)) == names
        assert set(client.scan_iter(match="scan:1*", count=count)) == {name for name in names if name.startswith("scan:1")}


def test_a_scan_goes_on_when_replicas_take_over(shared_cluster, hasp):
    names = {f"scan:{n}" for n in range(300)}
    with hasp.client() as client:
        client.mset(dict.fromkeys(names, 1))
        found, cursor, first = set(), 0, shared_cluster.primaries()[0]
        cursor, some = client.scan(cursor, count=5)
        found.update(some)
        shared_cluster.failover(first)
        while cursor:
            cursor, some = client.scan(cursor, count=5)
            found.update(some)
        assert found == names


def test_a_scan_visits_a_primary_that_gets_lower_slots(shared_cluster, start_hasp):
    """The last primary gets a slot of the first one, while the scan is at the second one."""
    hasp = start_hasp(upstream=shared_cluster.upstream, workers=1)
    first, second, last = shared_cluster.primaries()
    slots = first.slots()
    slot = next(end for _, end, owner in slots if owner == first.id)
    seconds = {slot for begin, end, owner in slots if owner == second.id for slot in range(begin, end + 1)}
    with hasp.client() as client:
        names = {f"scan:{n}" for n in range(300)} - {shared_cluster.key(slot)}
        client.mset(dict.fromkeys(names, 1))
        found, cursor = set(), 0
        while not any(shared_cluster.slot(name) in seconds for name in found):
            cursor, some = client.scan(cursor, count=5)
            found.update(some)
        shared_cluster.migrate(slot, last)
        client.get(shared_cluster.key(slot))
        while cursor:
            cursor, some = client.scan(cursor, count=5)
            found.update(some)
        assert found >= {name for name in names if shared_cluster.slot(name) != slot}
        # The first slot moves, too: a scan still visits each primary once.
        shared_cluster.migrate(0, last)
        client.get(shared_cluster.key(0))
        found = []
        for _ in range(3):
            cursor, some = client.scan(cursor, count=1000)
            found += some
        assert cursor == 0 and len(found) == len(set(found)) == client.dbsize()


def test_scripts_and_functions_are_at_every_node(shared_cluster, both):
    text = "return redis.call('GET', KEYS[1])"
    sha = both("SCRIPT", "LOAD", text).split(b"\r\n")[1]
    for key in KEYS[:12]:
        both("SET", key, key)
        assert both("EVALSHA", sha, 1, key) == bulk(key)
    assert both("SCRIPT", "EXISTS", sha, "0" * 40) == b"*2\r\n:1\r\n:0\r\n"
    primary = shared_cluster.primaries()[0]
    primary.ask("SCRIPT", "FLUSH")
    library = "#!lua name=lib\nredis.register_function('f', function(keys) return redis.call('GET', keys[1]) end)"
    assert both("FUNCTION", "LOAD", library) == bulk("lib")
    assert both("FUNCTION", "LOAD", library).startswith(b"-ERR Library 'lib' already exists")
    for key in KEYS[:12]:
        assert both("FCALL", "f", 1, key) == bulk(key)
    assert both("FUNCTION", "DELETE", "lib") == OK
    both("FCALL", "f", 1, KEYS[0])
    assert both("SCRIPT", "FLUSH") == OK
    assert both("EVALSHA", sha, 1, KEYS[0]).startswith(b"-NOSCRIPT")
    assert both("SCRIPT", "KILL").startswith(b"-NOTBUSY")


def test_a_script_that_one_node_does_not_have_is_not_there(shared_cluster, hasp):
    with hasp.connect() as client:
        sha = client.call("SCRIPT", "LOAD", "return 1").split(b"\r\n")[1]
        assert client.call("SCRIPT", "EXISTS", sha) == b"*1\r\n:1\r\n"
        shared_cluster.primaries()[-1].ask("SCRIPT", "FLUSH")
        assert client.call("SCRIPT", "EXISTS", sha) == b"*1\r\n:0\r\n"


@pytest.fixture(name="impatient")
def _impatient(shared_cluster):
    """Makes nodes answer -BUSY as soon as a script runs."""
    for node in shared_cluster.nodes:
        node.ask("CONFIG", "SET", "busy-reply-threshold", 1)
    yield
    for node in shared_cluster.nodes:
        node.ask("CONFIG", "SET", "busy-reply-threshold", 5000)


@pytest.mark.usefixtures("impatient")
def test_a_script_that_runs_for_too_long_is_found_and_killed(hasp):
    for key in KEYS[:5]:
        with hasp.connect() as one, hasp.connect() as other:
            one.send(encode("EVAL", "while true do end", 1, key))
            until(lambda other=other: other.call("SCRIPT", "KILL") == OK, "the script to be killed")
            assert b"killed by user" in one.read()


def test_keys_in_several_slots_are_refused(hasp):
    with hasp.connect() as client:
        for line in ["RENAME a b", "MSETNX a 1 b 2", "SINTERSTORE {a}d {a}a b", "EVAL return 2 a b", "BLPOP a b 1",
                     "XREAD STREAMS a b 0 0", "PFCOUNT a b", "WATCH a b", "SSUBSCRIBE a b"]:
            assert client.call(*line.split()) == CROSSSLOT, line


def test_client_tracking_with_bcast_is_refused(hasp):
    with hasp.connect() as client:
        assert b"CLIENT TRACKING with BCAST" in client.call("CLIENT", "TRACKING", "ON", "BCAST")


def test_the_cluster_itself_is_not_shown(both):
    for line in ["CLUSTER SLOTS", "CLUSTER NODES", "CLUSTER INFO", "ASKING"]:
        assert both(*line.split()) == DISABLED, line
    for line in ["READONLY", "READWRITE"]:
        assert both(line) in (DISABLED, OK), line  # OK on Valkey


def test_it_says_of_itself_that_it_is_one_server(hasp, both):
    assert b"standalone" in both("HELLO", 2, key=lambda reply: reply[:4])
    assert b"standalone" in both("HELLO", 3, key=lambda reply: reply[:4])
    with hasp.client() as client:
        info = client.info()
        assert info.get("redis_mode", info.get("server_mode")) == "standalone"  # server_mode on Valkey
        assert client.info("cluster")["cluster_enabled"] == 0
        assert client.ping()


def _id_in(reply):
    """Returns the id in a reply to CLIENT ID, CLIENT INFO or HELLO."""
    return int(re.search(rb"(?:^:|id=|\$2\r\nid\r\n:)(\d+)", reply)[1])


@covers("cluster")
def test_client_id_is_no_nodes_and_every_clients_own(hasp):
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(6)]
        ids = [_id_in(client.call("CLIENT", "ID")) for client in clients]
        assert len(set(ids)) == len(ids)
        for client, own in zip(clients, ids):
            assert 2**52 <= own < 2**53
            for command in ("HELLO", 3), ("CLIENT", "INFO"), ("HELLO", 2), ("CLIENT", "INFO"), ("CLIENT", "ID"):
                assert _id_in(client.call(*command)) == own, command
            assert client.call("CLIENT", "ID", "x").startswith(b"-ERR ")
            assert client.call("MULTI") == OK
            assert client.call("CLIENT", "ID").startswith(b"-ERR hasp: ")
            assert client.call("DISCARD") == OK


@covers("cluster")
def test_client_kill_id_reaches_nobody(shared_cluster, hasp):
    """hasp sends CLIENT KILL ID to no node, because each node may have another client with the
    id."""
    with hasp.connect() as client, contextlib.ExitStack() as stack:
        for node in shared_cluster.nodes:
            direct = stack.enter_context(node.connect())
            victim = str(_id_in(direct.call("CLIENT", "ID")))
            for words in ("KILL", "ID", victim), ("kill", "skipme", "no", "id", victim), ("UNBLOCK", victim), ("KILL", "NOT-ID", "1"):
                refusal = client.call("CLIENT", *words)
                assert refusal.startswith(b"-ERR hasp: in front of a cluster, CLIENT KILL and UNBLOCK"), words
                assert client.call("MULTI") == OK
                assert client.call("CLIENT", *words).startswith(b"-ERR hasp: "), words
                assert client.call("EXEC").startswith(b"-EXECABORT"), words
            assert direct.call("PING") == b"+PONG\r\n"
        assert b"hasp" not in client.call("CLIENT", "KILL", "USER", "id")


@covers("cluster")
def test_other_databases_are_refused_as_by_any_cluster(hasp, shared_cluster):
    with hasp.connect() as client, shared_cluster.nodes[0].connect() as node:
        assert client.call("SELECT", 0) == OK
        assert client.call("SELECT", 1) == node.call("SELECT", 1)
        assert client.call("SET", "a", 1) == OK


def test_wait_speaks_of_every_node(hasp):
    with hasp.connect() as client:
        assert pipeline(client, *[("SET", key, 1) for key in KEYS]) == [OK] * len(KEYS)
        until(lambda: client.call("WAIT", 1, 1000) == b":1\r\n", "all replicas to have the keys")


def test_keys_that_stand_behind_words_are_found(both):
    for key in KEYS[:8]:
        both("XADD", key, "1-1", "f", "v")
        both("XREAD", "COUNT", 1, "STREAMS", key, 0)
        both("OBJECT", "ENCODING", key)
        both("XGROUP", "CREATE", key, "g", 0)
        both("XREADGROUP", "GROUP", "g", "me", "STREAMS", key, ">")
        both("EVAL_RO", "return redis.call('XLEN', KEYS[1])", 1, key)
