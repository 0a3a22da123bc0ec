# SPDX-License-Identifier: BSD-3-Clause
"""PAUSE and RESUME of the console: Redis restarts, and clients notice only a delay."""

import contextlib
import re
import signal
import threading
from http.client import HTTPConnection

import pytest
from harness import Connection, RedisServer, encode, until
from harness.cluster import Cluster
from harness.guards import KEY, guard, stands
from harness.line import stand
from harness.marks import covers
from harness.processes import ProtectedRedis
from harness.relay import Relay
from harness.replies import FENCE, NIL, OK, ONE, PONG, QUEUED, ZERO, bulk
from harness.sections import rule, verbs

KEPT = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def kept():
    """A Redis whose data survives a restart."""
    with RedisServer(*KEPT) as server:
        yield server


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("c") / "admin.sock"


@pytest.fixture
def start(start_hasp, path):
    def start(server, rules="", workers=1, **options):
        where = f"address = {server.address[0]}:{server.address[1]}" if isinstance(server.address, tuple) else \
            f"address = {server.address}"
        return start_hasp(rules + f"[admin]\nlisten = unix:{path}\n", upstream=where, workers=workers,
                          **options).is_up(workers)

    return start


@pytest.fixture
def console(path):
    """console() opens a connection to hasp's console."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(Connection(str(path), timeout=60))


def restart(server):
    server.stop()
    server.start()


class User(threading.Thread):
    """A client that calls `turn` in a loop. `fault`: the first fault that it saw."""

    def __init__(self, hasp, number, turn):
        super().__init__()
        self.hasp, self.number, self.turn = hasp, number, turn
        self.done, self.stopping, self.fault = 0, False, None

    def run(self):
        try:
            with self.hasp.connect(timeout=60) as c:
                while not self.stopping:
                    self.turn(self, c)
                    self.done += 1
        except (OSError, EOFError, AssertionError, ValueError) as fault:
            self.fault = repr(fault)


def counts(user, c):
    assert c.call("INCR", f"n:{user.number}") == b":%d\r\n" % (user.done + 1)


def counts_in_a_database_of_its_own(user, c):
    if user.done == 0:
        assert c.call("SELECT", 1) == OK
    counts(user, c)


def counts_in_a_transaction(user, c):
    c.send(encode("MULTI") + encode("INCR", f"n:{user.number}"))
    assert c.read() == OK and c.read() == QUEUED
    assert c.call("EXEC") == b"*1\r\n:%d\r\n" % (user.done + 1)


def watches(user, c):
    key, value = f"n:{user.number}", b"%d" % user.done
    assert c.call("WATCH", key) == OK
    assert c.call("GET", key) == (b"$%d\r\n%s\r\n" % (len(value), value) if user.done else NIL)
    assert c.call("MULTI") == OK and c.call("SET", key, user.done + 1) == QUEUED and c.call("EXEC") == b"*1\r\n+OK\r\n"


def updates_what_others_do(_, c):
    value = c.call("GET", KEY)
    count = int(value.split(b"\r\n")[1]) if value != NIL else 0
    assert c.call("SET", KEY, count + 1) == OK


def locks(_, c):
    assert c.call("LOCK", "mutex", "WAIT", 60000) == FENCE
    assert c.call("UNLOCK", "mutex") == ONE


def pipelines(user, c):
    c.send(encode("INCR", f"n:{user.number}") * 20)
    assert [c.read() for _ in range(20)] == [b":%d\r\n" % (20 * user.done + n + 1) for n in range(20)]


TURNS = (counts, counts_in_a_database_of_its_own, counts_in_a_transaction, watches, updates_what_others_do,
         updates_what_others_do, locks, locks, pipelines)


@covers("paused", "resumed")
def test_redis_restarts_under_load_and_nobody_sees_an_error(start, kept, console):
    hasp = start(kept, guard() + verbs(lease="60s"), workers=2)
    users = [User(hasp, n, turn) for n, turn in enumerate(TURNS)]
    with hasp.connect() as holder, hasp.connect() as waiter:
        assert holder.call("LOCK", "held") == FENCE
        waiter.send(encode("LOCK", "held", "WAIT", 120000))
        for user in users:
            user.start()
        try:
            for _ in range(2):
                before = [user.done for user in users]
                until(lambda before=before: all(u.fault or u.done > n + 2 for u, n in zip(users, before, strict=True)),
                      "three more turns of each client")
                assert console().call("PAUSE") == OK
                restart(kept)
                assert console().call("RESUME") == OK
            before = [user.done for user in users]
            until(lambda: all(u.fault or u.done > n + 2 for u, n in zip(users, before, strict=True)), "three more turns of each client")
        finally:
            for user in users:
                user.stopping = True
            for user in users:
                user.join()
        assert [user.fault for user in users] == [None] * len(users)
        assert holder.call("UNLOCK", "held") == ONE and waiter.read() == FENCE
    updates = sum(user.done for user in users if user.turn is updates_what_others_do)
    assert int(kept.client().get(KEY)) == updates
    assert hasp.log.count(" paused ") == hasp.log.count(" resumed") == 2


def test_what_was_begun_is_ended_first_and_nothing_else(start, redis_server, console):
    hasp = start(redis_server, guard())
    with hasp.connect() as transaction, hasp.connect() as reader, hasp.connect() as other:
        assert transaction.call("MULTI") == OK and transaction.call("INCR", "n") == QUEUED
        assert reader.call("GET", KEY) == NIL and other.call("PING") == PONG
        admin = console()
        admin.send(encode("PAUSE"))
        until(lambda: 'command="PAUSE"' in hasp.log, "PAUSE to begin")
        other.send(encode("SET", "k", "v"))
        hasp.take_turn()
        assert transaction.call("EXEC") == b"*1\r\n:1\r\n"
        assert reader.call("SET", KEY, 1) == OK and admin.read() == OK
        assert not redis_server.client().exists("k")
        assert console().call("RESUME") == OK and other.read() == OK


def test_those_who_wait_for_a_guard_have_their_turn_first(start, kept, console):
    hasp = start(kept, guard())
    with hasp.connect() as reader, hasp.connect() as waiter:
        assert reader.call("GET", KEY) == NIL
        waiter.send(encode("GET", KEY))
        until(lambda: kept.client().keys("hasp:queue:*"), "the waiter to enter the queue")
        admin = console()
        admin.send(encode("PAUSE"))
        until(lambda: 'command="PAUSE"' in hasp.log, "PAUSE to begin")
        assert reader.call("SET", KEY, 1) == OK and waiter.read() == b"$1\r\n1\r\n"
        assert waiter.call("SET", KEY, 2) == OK and admin.read() == OK
        restart(kept)
        assert console().call("RESUME") == OK


def test_a_reload_changes_nothing_of_it(start, redis_server, console):
    hasp = start(redis_server)
    with RedisServer() as other, hasp.connect() as c:
        assert c.call("PING") == PONG and console().call("PAUSE") == OK
        c.send(encode("SET", "k", "v"))
        hasp.reload(f"address = {redis_server.address[0]}:{redis_server.address[1]}",
                    f"address = {other.address[0]}:{other.address[1]}")
        hasp.take_turn()
        assert not other.client().exists("k")
        assert console().call("RESUME") == OK and c.read() == OK
        assert other.client().get("k") == "v" and not redis_server.client().exists("k")


class Loading(Relay):
    """A relay to a Redis that, while `loads`, answers PING as if it was loading its data."""

    loads = False

    def _pass_on(self, data, source, sink, replies):
        if replies and self.loads:
            data = data.replace(b"+PONG\r\n", b"-LOADING Redis is loading the dataset in memory\r\n")
        sink.sendall(data)


def test_requests_go_on_when_redis_has_loaded_its_data(start, redis_server, console):
    with Loading(redis_server.address) as relay:
        hasp = start(relay)
        with hasp.connect() as c:
            assert c.call("INCR", "n") == ONE and console().call("PAUSE") == OK
            relay.loads = True
            c.send(encode("INCR", "n"))
            admin, pings = console(), redis_server.client().info("commandstats")["cmdstat_ping"]["calls"]
            admin.send(encode("RESUME"))
            until(lambda: redis_server.client().info("commandstats")["cmdstat_ping"]["calls"] > pings + 3, "hasp to send PING repeatedly")
            assert redis_server.client().get("n") == "1"
            relay.loads = False
            assert admin.read() == OK and c.read() == b":2\r\n"


def test_a_redis_that_does_not_come_back_need_not_be_waited_for(start, redis_server, console):
    hasp = start(redis_server)
    with hasp.connect() as c:
        assert c.call("PING") == PONG and console().call("PAUSE") == OK
        redis_server.stop()
        c.send(encode("PING"))
        waits, again = console(), console()
        waits.send(encode("RESUME"))
        until(lambda: 'command="RESUME"' in hasp.log, "RESUME to begin")
        again.send(encode("PAUSE"))
        assert waits.read() == b"-ERR another client has sent PAUSE\r\n" and again.read() == OK
        assert console().call("RESUME", "NOW") == OK
        assert c.read().startswith(b"-ERR hasp: upstream ")
    redis_server.start()


def test_connections_that_end_with_redis_are_told_of(start, redis_server, console):
    hasp = start(redis_server)
    with hasp.connect() as listener, hasp.connect() as blocked:
        assert b"subscribe" in listener.call("SUBSCRIBE", "news")
        blocked.send(encode("BLPOP", "list", 0))
        until(lambda: redis_server.client().info("clients")["blocked_clients"] == 1, "BLPOP to block")
        assert console().call("PAUSE").startswith(b"+OK, but 2 connections ")
        assert console().call("RESUME") == OK
        with hasp.connect() as c:
            assert c.call("RPUSH", "list", "x") == ONE and b"x" in blocked.read()
            assert c.call("PUBLISH", "news", "x") == ONE and b"message" in listener.read()


def test_hasp_that_ends_serves_those_it_held_back(start, redis_server, console):
    hasp = start(redis_server, drain_timeout="60s")
    with hasp.connect() as c:
        admin = console()
        assert c.call("PING") == PONG and admin.call("PAUSE") == OK
        c.send(encode("SET", "k", "v"))
        hasp.take_turn()
        hasp.signal(signal.SIGUSR2)
        until(lambda: 'upgrade_refused reason="hasp is paused"' in hasp.log, "hasp to refuse the upgrade")
        hasp.signal(signal.SIGTERM)
        until(lambda: " shutting_down " in hasp.log, "hasp to drain")
        admin.send(encode("RESUME"))
        assert c.read() == OK and c.at_end()


@pytest.mark.parametrize("pooling", ["shared", "session"])
def test_hasp_that_ends_does_not_wait_for_clients_that_hung_up(start, redis_server, console, pooling):
    hasp = start(redis_server, drain_timeout="600s", pooling=pooling)
    assert console().call("PAUSE") == OK
    with hasp.connect() as before, hasp.connect() as after:
        for c in before, after:
            c.send(encode("SET", "k", "v"))
        hasp.take_turn()
        before.close()
        hasp.signal(signal.SIGTERM)
        until(lambda: " shutting_down " in hasp.log, "hasp to drain")
    until(lambda: not hasp.running(), "hasp to leave")
    assert not redis_server.client().exists("k")


@pytest.mark.parametrize("pooling", ["shared", "session"])
def test_requests_of_clients_that_hang_up_are_dropped(start, redis_server, console, pooling):
    hasp = start(redis_server, pooling=pooling)
    with hasp.connect() as idle, console() as admin:
        assert admin.call("PAUSE") == OK
        with hasp.connect() as c:
            c.send(encode("SET", "k", "v"))
            until(lambda: admin.call("SHOW", "CLIENTS").startswith(b"*2\r\n"), "hasp to have both clients")
        until(lambda: admin.call("SHOW", "CLIENTS").startswith(b"*1\r\n"), "hasp to close the client")
        assert admin.call("RESUME") == OK
        assert idle.call("EXISTS", "k") == ZERO


@pytest.mark.parametrize("pooling", ["shared", "session"])
@pytest.mark.parametrize("first", [("GET", "a"), ("SETNX", "lock:1", "v")])
def test_requests_of_clients_that_hang_up_before_a_reply_are_dropped(start, redis_server, console, pooling, first):
    hasp = start(redis_server, rule(), pooling=pooling)
    with hasp.connect() as idle, console() as admin, console() as waits:
        with hasp.connect() as c:
            assert c.call("PING") == PONG
            with redis_server.frozen():
                c.send(encode(*first))
                hasp.take_turn()
                waits.send(encode("PAUSE"))
                until(lambda: 'command="PAUSE"' in hasp.log, "PAUSE to begin")
                c.send(encode("SET", "k", "v"))
                hasp.take_turn()
                c.close()
                hasp.take_turn()
        assert waits.read() == OK
        until(lambda: admin.call("SHOW", "CLIENTS").startswith(b"*1\r\n"), "hasp to close the client")
        assert admin.call("RESUME") == OK
        assert idle.call("EXISTS", "k") == ZERO


def test_it_is_not_ready_meanwhile(start, redis_server, console):
    hasp = start(redis_server, "[http]\nlisten = 127.0.0.1:0\n")
    where = re.search(r" listening_http address=(\S+)", hasp.log).group(1)

    def ready():
        http = HTTPConnection(where, timeout=60)
        http.request("GET", "/readyz")
        reply = http.getresponse()
        return reply.status, reply.read()

    until(lambda: ready()[0] == 200, "hasp to be ready")
    assert console().call("PAUSE") == OK
    assert ready() == (503, b"hasp is paused\n")
    assert console().call("RESUME") == OK
    assert ready()[0] == 200


@pytest.mark.parametrize("command", [("RESUME", "LATER"), ("RESUME", "NOW", "x"), ("PAUSE", "x"), ("RECONNECT", "x")])
def test_words_that_are_none_change_nothing(start, redis_server, console, command):
    hasp = start(redis_server)
    assert console().call(*command).startswith(b"-ERR ")
    assert not console().call(*command).endswith(b" \r\n")
    with hasp.connect() as c:
        assert c.call("PING") == PONG and console().call("RESUME") == OK


def test_reconnect_goes_to_new_connections_when_nothing_is_under_way(start, redis_server, console):
    hasp, plain = start(redis_server), redis_server.client()

    def links():
        return {client["addr"] for client in plain.client_list()}

    with hasp.connect() as shared, hasp.connect() as own, hasp.connect() as transaction:
        assert shared.call("INCR", "n") == ONE
        assert own.call("SELECT", 1) == OK and own.call("INCR", "n") == ONE
        assert transaction.call("MULTI") == OK and transaction.call("INCR", "m") == QUEUED
        old = links()
        assert console().call("RECONNECT") == OK
        until(lambda: hasp.log.count("upstream_up") >= 2, "hasp's new own connection")
        assert 'reason="hasp uses new connections"' in hasp.log
        with redis_server.client().monitor() as monitor:
            assert shared.call("INCR", "n") == own.call("INCR", "n") == b":2\r\n"
            assert transaction.call("EXEC") == b"*1\r\n:1\r\n" and transaction.call("INCR", "o") == ONE
            by = {}
            while len(by) < 5:
                seen = monitor.next_command()
                if seen["command"].startswith(("INCR", "EXEC")):
                    address = f"{seen['client_address']}:{seen['client_port']}"
                    by[seen["command"], seen["db"]] = address in old
    assert by.pop(("INCR m", 0))  # the old link runs it, as a part of the transaction
    assert by == {("INCR n", 0): False, ("INCR n", 1): False, ("EXEC", 0): True, ("INCR o", 0): False}


@pytest.mark.parametrize("pooling", ["session"])
@pytest.mark.parametrize("sections, command", [
    ("", ("SET", "k", "v" * 20_000)), ("", ("SET", "k" * 20_000, "v")), ("", ("X" * 16_384,)), ("", ("X" * 20_000,)),
    (verbs(), ("LOCK", "k" * 20_000)),
])
def test_long_request_does_not_keep_a_client_from_following_reconnect(start, redis_server, console, pooling, sections,
                                                                      command):
    hasp = start(redis_server, sections)
    request = encode(*command)
    with hasp.connect() as long:
        # hasp already decides about the part of the request that it has.
        long.send(request[:-2])
        hasp.take_turn()
        long.send(request[-2:])
        assert long.read()[:1] in b"+:-"
        assert console().call("RECONNECT") == OK
        until(lambda: hasp.log.count("upstream_up") >= 2, "hasp's new own connection")
        assert long.call("PING") == PONG


def test_clients_that_have_logged_in_come_back(start_hasp, path, console):
    """Redis refuses only deleted users; while it restarts, hasp closes no client."""
    with ProtectedRedis(*KEPT) as server:
        upstream = f"address = {server.address[0]}:{server.address[1]}\npassword = secret"
        hasp = start_hasp(f"[admin]\nlisten = unix:{path}\n", upstream=upstream).is_up()
        with hasp.connect() as idle, hasp.connect() as busy:
            for c in (idle, busy):
                assert c.call("AUTH", "secret") == OK and c.call("INCR", "n")[:1] == b":"
            assert console().call("PAUSE") == OK
            busy.send(encode("INCR", "n"))
            hasp.take_turn()
            server.stop()
            until(lambda: hasp.log.count("upstream_down") >= 1, "hasp to notice that Redis is down")
            hasp.take_turn()
            server.start()
            assert console().call("RESUME") == OK
            assert busy.read() == b":3\r\n" and idle.call("INCR", "n") == b":4\r\n"


# --- in front of a cluster -----------------------------------------------------------------------


@pytest.fixture
def start_at_cluster(start_hasp, path):
    def start(cluster, rules=""):
        return start_hasp(f"{rules}[admin]\nlisten = unix:{path}\n", upstream=f"{cluster.upstream}\nserver_check_delay = 100ms").is_up(3)

    return start


@pytest.fixture(scope="module")
def three():
    with Cluster(replicas=0, node_timeout_ms=120_000) as cluster:
        yield cluster


def keys_at_each(cluster):
    """Returns one key for each primary."""
    keys = {cluster.owner(f"k:{n}"): f"k:{n}" for n in range(60)}
    assert len(keys) == 3
    return list(keys.values())


def connections(cluster):
    return [{client["addr"] for client in node.client().client_list()} for node in cluster.nodes]


def test_a_cluster_is_held_back_as_a_whole_and_goes_on(start_at_cluster, three, console):
    hasp, keys = start_at_cluster(three, verbs(on_disconnect="release") + guard()), keys_at_each(three)
    with contextlib.ExitStack() as stack:
        plain, several, transaction, reader, writer, holder, waiter = [stack.enter_context(hasp.connect()) for _ in range(7)]
        assert plain.call("FLUSHALL") == plain.call("SET", keys[0], 1) == OK
        assert transaction.call("MULTI") == OK and transaction.call("INCR", keys[0]) == QUEUED
        assert reader.call("GET", KEY) == NIL and FENCE == holder.call("LOCK", "l")
        stands(three.owner(KEY).client(), writer, "GET", KEY)
        stand(three.owner("l").client(), waiter, "LOCK", "l", "WAIT", 120_000)
        admin = console()
        admin.send(encode("PAUSE"))
        until(lambda: 'command="PAUSE"' in hasp.log, "PAUSE to begin")
        plain.send(encode("INCR", keys[0]))
        several.send(encode("MSET", *(word for key in keys[1:] for word in (key, 5))) + encode("DBSIZE"))
        holder.send(encode("UNLOCK", "l"))
        hasp.take_turn()
        # A client can still end a transaction or a guard, at any node.
        assert transaction.call("EXEC") == b"*1\r\n:2\r\n"
        assert reader.call("SET", KEY, 1) == OK and writer.read() == bulk(1)
        assert writer.call("SET", KEY, 2) == OK and admin.read() == OK
        assert three.owner(keys[0]).ask("GET", keys[0]) == "2" and three.owner("l").ask("EXISTS", "l") == 1
        assert [three.owner(key).ask("EXISTS", key) for key in keys[1:]] == [0, 0]
        assert console().call("RESUME") == OK
        assert plain.read() == b":3\r\n" and several.read() == OK and several.read()[:1] == b":"
        assert holder.read() == ONE and FENCE == waiter.read()


def test_reconnect_goes_to_new_connections_at_each_node(start_at_cluster, three, console):
    hasp, keys = start_at_cluster(three), keys_at_each(three)
    with contextlib.ExitStack() as stack:
        shared, own, transaction, subscriber = [stack.enter_context(hasp.connect()) for _ in range(4)]
        assert own.call("CLIENT", "NO-EVICT", "OFF") == OK
        for key in keys:
            assert shared.call("SET", key, 1) == own.call("SET", key, 1) == OK
        assert transaction.call("MULTI") == OK and transaction.call("INCR", keys[0]) == QUEUED
        assert subscriber.call("SUBSCRIBE", "c").startswith(b"*3")
        old = connections(three)
        assert console().call("RECONNECT") == OK
        until(lambda: hasp.log.count("upstream_up") >= 6, "hasp's new own connections")
        assert subscriber.at_end()
        with contextlib.ExitStack() as watched:
            monitors = [watched.enter_context(node.client().monitor()) for node in three.nodes]
            for one in (shared, own):
                for key in keys:
                    assert one.call("GET", key) == b"$1\r\n1\r\n"
            assert transaction.call("EXEC") == b"*1\r\n:2\r\n" and transaction.call("DEL", *keys) == b":3\r\n"
            for monitor, addresses in zip(monitors, old):
                seen = None
                while not seen or not seen["command"].startswith("DEL"):
                    seen = monitor.next_command()
                    is_old = f"{seen['client_address']}:{seen['client_port']}" in addresses
                    if seen["command"].startswith(("GET", "EXEC", "DEL")):
                        assert is_old == (seen["command"] == "EXEC"), seen
