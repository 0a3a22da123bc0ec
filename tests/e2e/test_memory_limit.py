# SPDX-License-Identifier: BSD-3-Clause
"""Clients that make hasp use much memory: hasp closes the client that uses most, and no other."""

import contextlib
import resource
import selectors
import socket
import time

import pytest
import redis as redis_py
from harness import Connection, encode, until
from harness.cluster import Cluster
from harness.marks import covers
from harness.memory import MB, Growth, memory
from harness.replies import OK, ONE, PONG
from harness.sanitizers import UNLESS_SANITIZED, sanitized
from harness.sections import rule, section, verbs
from harness.wait import PATIENCE

LIMIT = 16 * MB
# Bytes that hasp may take: its limit, those in transit at the limit, the allocator's overhead.
BOUND = 3 * LIMIT

SET_HEAD = b"*3\r\n$3\r\nSET\r\n$6\r\nlock:a\r\n"
TOO_LONG = SET_HEAD + b"$50000000\r\n"  # the announced value of 50 MB follows


@pytest.fixture
def limited(start_hasp):
    """limited(sections) starts a hasp with little memory."""
    def start(sections="", **options):
        return start_hasp(sections, memory_limit=f"{LIMIT}", workers=1, **options)
    return start


def send_at_once(hasp, clients, data, closes=False):
    """Each client sends `data` as far as hasp takes it. Returns the clients that hasp closed.

    `closes`: waits until hasp has closed a client, or no client could send for PATIENCE seconds."""
    left = {one: memoryview(data) for one in clients}
    selector = selectors.PollSelector()
    for one in left:
        selector.register(one, selectors.EVENT_WRITE)  # not for reading, because replies stay unread
    closed, rested = set(), False
    deadline = time.monotonic() + PATIENCE
    while left:
        ready = [key.fileobj for key, _ in selector.select(0.5)]
        if not ready:
            if rested and (closed or not closes or time.monotonic() > deadline):
                break
            hasp.take_turn()
            rested = True
            continue
        rested, deadline = False, time.monotonic() + PATIENCE
        for one in ready:
            try:
                left[one] = left[one][one.sock.send(left[one][:MB], socket.MSG_DONTWAIT):]
            except BlockingIOError:
                continue
            except OSError:
                closed.add(one)
                left[one] = b""
            if not left[one]:
                del left[one]
                selector.unregister(one)
    return closed


def long_command(name, keys):
    """Like encode(), for thousands of keys."""
    bulks = [b"$%d\r\n%s\r\n" % (len(key), key) for key in (name.encode(), *keys)]
    return b"*%d\r\n" % len(bulks) + b"".join(bulks)


@pytest.fixture
def crowd():
    """crowd(hasp, n) opens n connections."""
    with contextlib.ExitStack() as stack:
        def connect(hasp, number):
            clients = [stack.enter_context(hasp.connect(timeout=60)) for _ in range(number)]
            for one in clients:
                one.fileno = one.sock.fileno
            return clients
        yield connect


def test_requests_that_are_not_whole(limited, crowd):
    """hasp buffers a request on a key with a rule until the request is whole."""
    hasp = limited(rule(pattern="lock:*"))
    with hasp.connect() as other:
        assert other.call("SET", "lock:mine", "x" * 100_000) == OK
        other.send(encode("SET", "lock:mine", "x" * 100_000)[:-10])
        growth = Growth(hasp)
        clients = crowd(hasp, 40)
        closed = send_at_once(hasp, clients, TOO_LONG + b"x" * 14 * MB, closes=True)
        until(lambda: "client_over_limit limit=memory_limit" in hasp.log, "the reason in the log")
        assert closed
        growth.check(BOUND)
        other.send(b"x" * 8 + b"\r\n")
        assert other.read() == OK


def test_reload_with_another_number_of_workers_leaves_each_its_share(limited):
    hasp = limited(rule(pattern="lock:*"))
    with hasp.connect() as one:
        one.send(SET_HEAD + b"$1000000\r\n" + b"x" * 900_000)
        hasp.reload("workers = 1", "workers = 64")
        one.send(b"x" * 100_000 + b"\r\n")
        assert one.read() == OK


def test_no_other_is_closed_for_what_one_wants(limited, crowd):
    """The client that reaches the limit is closed, and its memory is freed."""
    hasp = limited(rule(pattern="lock:*"))
    others = crowd(hasp, 6)
    for one in others:  # sends a request of a megabyte without its end
        one.send(SET_HEAD + b"$1000000\r\n" + b"x" * 900_000)
    hasp.take_turn()
    assert send_at_once(hasp, crowd(hasp, 1), TOO_LONG + b"x" * 40 * MB, closes=True)  # more than fits into buffers
    assert hasp.log.count("client_over_limit") == 1
    for one in others:
        one.send(b"x" * 100_000 + b"\r\n")
    assert {one.read() for one in others} <= {OK, b"-LOCKED 'lock:a' is held by another owner\r\n"}


@pytest.mark.parametrize("pooling", ["session"])
def test_replies_that_are_not_read(limited, crowd):
    hasp = limited()
    with hasp.connect() as other:
        other.call("SET", "k", "x" * 1000)
        growth = Growth(hasp)
        send_at_once(hasp, crowd(hasp, 20), encode("GETSET", "k", b"x" * 1000) * 12_000, closes=True)
        until(lambda: "client_over_limit limit=memory_limit" in hasp.log, "the reason in the log")
        growth.check(BOUND)
        assert other.call("PING") == PONG


def test_client_that_reads_outlives_those_that_do_not(limited, plain, tmp_path):
    console, path = tmp_path / "console", tmp_path / "hasp.sock"
    hasp = limited(f"[admin]\nlisten = unix:{console}\n", listen=f"unix:{path}")
    plain.set("small", b"x" * 100_000)
    plain.set("large", b"x" * 6 * MB)

    def since(attackers):
        """Returns the shortest idle time of a client in seconds; false until hasp lists all of
        them."""
        with redis_py.Redis(unix_socket_path=str(console), decode_responses=True) as c:
            rows = [dict(zip(r[::2], r[1::2], strict=True)) for r in c.execute_command("SHOW", "CLIENTS")]
        return len(rows) == len(attackers) and min(int(row["idle_ms"]) / 1000 for row in rows)

    with contextlib.ExitStack() as stack:
        attackers = [stack.enter_context(Connection(str(path))) for _ in range(24)]
        for one in attackers:  # the kernel keeps 200 kB of the replies, hasp the rest in buffers of 512 kB
            one.send(encode("GET", "small") * 5)
        until(lambda: since(attackers) > 10, "all attackers to be idle for ten seconds")
        assert "client_over_limit" not in hasp.log
        honest = stack.enter_context(Connection(str(path)))
        assert honest.call("PING") == PONG
        with hasp.frozen():
            honest.send(encode("GET", "large"))
            attackers[0].send(encode("PING"))  # shares the link, so hasp must read the large reply first
        until(lambda: "client_over_limit limit=memory_limit" in hasp.log, "the limit to be reached")
        assert len(honest.read()) > 6 * MB


def test_requests_that_wait_for_redis(limited, crowd, redis_server):
    hasp = limited()
    until(lambda: "upstream_up" in hasp.log, "hasp to serve")
    clients = crowd(hasp, 200)
    for one in clients:
        assert one.call("WATCH", "k") == OK  # gives each client a link of its own
    growth = Growth(hasp)
    with redis_server.frozen():
        send_at_once(hasp, clients, encode("SET", "k", b"x" * 10_000) * 60)
        growth.check(BOUND)
    with hasp.connect() as other:
        assert other.call("PING") == PONG


@pytest.mark.parametrize("sections", ["", pytest.param(rule(pattern="lock:*"), id="rule")])
def test_a_long_transaction(limited, crowd, sections):
    """hasp remembers each SELECT of the transaction until EXEC."""
    hasp = limited(sections)
    [one] = crowd(hasp, 1)
    assert one.call("MULTI") == OK
    growth = Growth(hasp)
    with pytest.raises(OSError):
        for _ in range(2000):
            one.send(encode("SELECT", 0) * 1000)
            one.file.read(len(b"+QUEUED\r\n") * 1000)
        one.call("PING")
    until(lambda: "client_over_limit limit=memory_limit" in hasp.log, "the reason in the log")
    growth.check(BOUND)
    with hasp.connect() as other:
        assert other.call("PING") == PONG


def test_short_requests_that_become_long_calls(limited, crowd, redis_server):
    """In a transaction, a rewritten command contains the script's text. hasp sends only as many as
    the link takes."""
    hasp = limited(rule(pattern="lock:*"))
    clients = crowd(hasp, 3)
    for one in clients:
        assert one.call("MULTI") == OK
    requests = b"".join(encode("SETNX", f"lock:{n}", "v") for n in range(1000))
    with redis_server.frozen():
        send_at_once(hasp, clients, requests)
    for one in clients:
        assert one.file.read(len(b"+QUEUED\r\n") * 1000) == b"+QUEUED\r\n" * 1000
    assert "client_over_limit" not in hasp.log


def test_scripts_that_redis_lost_while_thousands_of_locks_are_released(limited, plain):
    """Redis answers NOSCRIPT to each release. hasp sends the script's text, of 18 kB, only for the
    first of them."""
    hasp = limited(rule(pattern="lock:*", on_disconnect="release"))
    keys = [f"lock:{n}" for n in range(5000)]
    with hasp.connect() as holder:
        holder.send(b"".join(encode("SETNX", key, "v") for key in keys))
        assert holder.file.read(len(b":1\r\n") * len(keys)) == b":1\r\n" * len(keys)
        growth = Growth(hasp)
        plain.config_resetstat()
        plain.script_flush()
    until(lambda: not plain.exists(*keys), "all locks to be released")
    assert plain.info("commandstats")["cmdstat_eval"]["calls"] < 10
    growth.check(LIMIT)


LONG = b"n" * MB


@pytest.mark.parametrize("command", [
    ("LOCK", LONG), ("LOCK", "m", "AS", LONG), ("LOCK", "m", "PX", 100, "WAIT", 50, "AS", LONG),
    ("UNLOCK", "m", "AS", LONG), ("SETNX", b"lock:" + LONG, "v"), ("GET", b"guard:" + LONG)],
    ids=lambda command: " ".join(str(word)[:8] for word in command))
def test_names_of_a_megabyte(limited, crowd, command):
    """hasp's calls repeat the name, and a waiter, a hold and an undo each keep a copy of it."""
    hasp = limited(rule(pattern="lock:*", on_disconnect="release", wait="200ms") + verbs() +
                   section("guard g", {"pattern": "guard:*", "acquire_on": "GET", "lease": "1s", "wait": "200ms"}))
    growth = Growth(hasp)
    for _ in range(2):
        clients = crowd(hasp, 10)
        send_at_once(hasp, clients, encode(*command) * 5)
        for one in clients:
            with contextlib.suppress(OSError):  # hasp may have closed the client
                one.sock.shutdown(socket.SHUT_WR)
                while one.sock.recv(MB):
                    pass
    growth.check(BOUND)
    with hasp.connect() as other:
        assert other.call("PING") == PONG


def test_long_name_wants_more_memory_than_a_value_of_that_length(limited):
    hasp = limited(rule(pattern="lock:*")).is_up()
    with hasp.connect(timeout=60) as one:
        assert one.call("SET", "lock:a", LONG + LONG, "NX") == OK
    with hasp.connect(timeout=60) as one:
        one.send(encode("SET", b"lock:" + LONG + LONG, "v", "NX"))
        assert one.read() == b"-ERR hasp: there is not enough memory for this request\r\n"


def test_refused_request_leaves_the_link_of_others_alone(limited, plain):
    """hasp decides only when the request is whole, so the client still uses the shared link."""
    hasp = limited(rule(pattern="lock:*", wait="60s")).is_up()
    with hasp.connect() as owner, hasp.connect(timeout=60) as one, contextlib.ExitStack() as stack:
        assert owner.call("SET", "lock:w", "x", "NX") == OK
        one.send(encode("SET", "lock:w", "y", "NX"))
        until(lambda: "subscriber_up" in hasp.log, "the subscription of the waiter")
        links = {link["id"] for link in plain.client_list()}
        # Buffers of other clients, which leave too little memory for the rewritten command.
        for size in (8 * MB, 4 * MB, 2 * MB, MB, MB // 4):
            other = stack.enter_context(hasp.connect())
            other.send(SET_HEAD + b"$9000000\r\n" + b"x" * (size * 3 // 4))
            hasp.take_turn()
        request = encode("SET", b"lock:" + b"n" * 79_000, "y", "NX")
        for part in (request[:62_000], request[62_000:]):
            one.send(part)
            hasp.take_turn()
        assert owner.call("DEL", "lock:w") == ONE
        assert one.read() == OK
        assert one.read() == b"-ERR hasp: there is not enough memory for this request\r\n"
        assert one.at_end()
        assert links <= {link["id"] for link in plain.client_list()}


def test_command_with_many_keys_is_refused_before_it_takes_memory(start_hasp):
    """A script for so many keys would block Redis for too long."""
    hasp = start_hasp(rule(pattern="lock:1"))
    until(lambda: "upstream_up" in hasp.log, "commands to be known")
    growth = Growth(hasp)
    with hasp.connect(timeout=60) as one:
        one.send(long_command("DEL", (b"lock:%d" % n for n in range(700_000))))
        assert one.read().startswith(b"-ERR hasp: the command names too many keys")
        assert one.call("PING") == PONG
        growth.check(BOUND)
        one.send(long_command("DEL", (b"free:%d" % n for n in range(100_000))))
        assert one.read() == b":0\r\n"


@pytest.mark.parametrize("nargs", [
    pytest.param(1_000_000, id="arguments"),
    pytest.param(300_000, id="keys")])
def test_requests_with_more_arguments_than_there_is_memory_for_are_refused(limited, nargs):
    """hasp would record the position of each argument, and the section of each key."""
    hasp = limited(rule(pattern="lock:1"))
    until(lambda: "upstream_up" in hasp.log, "commands to be known")
    growth = Growth(hasp)
    with hasp.connect(timeout=60) as one:
        one.send(b"*%d\r\n$3\r\nDEL\r\n" % nargs + b"$1\r\na\r\n" * 20_000)
        assert one.read().startswith(b"-ERR hasp: a rule may apply to this request, but it has more arguments")
        assert one.at_end()
    growth.check(BOUND)


@pytest.mark.parametrize("sections", [
    pytest.param(rule(pattern="lock:*"), id="rule"),
    pytest.param("[guard g]\npattern = lock:1*\nacquire_on = GET\n", id="guard")])
def test_memory_is_given_back(start_hasp, sections):
    """hasp does not keep a request's memory for the next request."""
    hasp = start_hasp(sections)
    until(lambda: "upstream_up" in hasp.log, "commands to be known")
    growth = Growth(hasp)
    with hasp.connect(timeout=60) as one:
        one.send(long_command("DEL", (b"lock:%d%s" % (n, b"x" * 500) for n in range(16_000))))
        one.read()
        assert sanitized() or growth.peak > 6 * MB
        until(lambda: sanitized() or growth.now < 4 * MB, "hasp to free the request")
        assert one.call("PING") == PONG


@covers("client_over_limit")
@UNLESS_SANITIZED
def test_when_memory_runs_out_the_client_that_takes_most_is_closed(start_hasp, crowd):
    """The kernel refuses memory (RLIMIT_AS) before hasp reaches memory_limit."""
    hasp = start_hasp(rule(pattern="lock:*"))
    with hasp.connect() as other:
        assert other.call("SET", "lock:mine", "x") == OK
        enough = memory(hasp, "VmSize") + 100 * MB
        resource.prlimit(hasp.pid, resource.RLIMIT_AS, (enough, enough))
        clients = crowd(hasp, 15)
        assert send_at_once(hasp, clients, TOO_LONG + b"x" * 20 * MB, closes=True)
        assert "client_over_limit limit=memory " in hasp.log
        assert other.call("SET", "lock:mine", "y") == OK


@UNLESS_SANITIZED
def test_request_for_which_there_is_no_memory_is_refused(start_hasp):
    hasp = start_hasp(rule(pattern="lock:*"))
    until(lambda: "upstream_up" in hasp.log, "commands to be known")
    with hasp.connect(timeout=60) as one:
        assert one.call("PING") == PONG
        enough = memory(hasp, "VmSize") + 100 * MB
        resource.prlimit(hasp.pid, resource.RLIMIT_AS, (enough, enough))
        one.send(encode("SET", "lock:a", b"x" * 20 * MB, "NX"))
        assert one.read() == b"-ERR hasp: there is not enough memory for this request\r\n"
    with hasp.connect() as other:
        assert other.call("SET", "lock:mine", "y", "NX") == OK


@pytest.fixture(scope="module")
def patient_cluster():
    """A cluster without replicas, whose nodes a test may freeze without a failover."""
    with Cluster(replicas=0, node_timeout_ms=60_000) as cluster:
        yield cluster


def test_requests_that_a_node_of_a_cluster_does_not_take_count(start_hasp, patient_cluster):
    hasp = start_hasp(upstream=patient_cluster.upstream, memory_limit="16mb")
    with hasp.connect() as client, hasp.connect() as other:
        # hasp sends this many commands ahead only after it has seen that their replies are short.
        for _ in range(50):
            assert client.call("SET", "k", 1) == OK
        client.fileno = client.sock.fileno
        with patient_cluster.owner("k").frozen():
            assert send_at_once(hasp, [client], encode("SET", "k", bytes(12_000)) * 4000, closes=True)
        assert "client_over_limit limit=memory_limit" in hasp.log
        assert other.call("GET", "k").startswith(b"$")


@pytest.fixture
def spread(start_hasp, patient_cluster):
    """Returns a cluster, hasp in front of it with little memory, and a key of a megabyte for each
    node."""
    hasp = start_hasp(upstream=patient_cluster.upstream, memory_limit=f"{LIMIT}", workers=1)
    keys = [patient_cluster.key(first) for first, *_ in patient_cluster.nodes[0].slots()]
    with hasp.connect() as client:
        for key in keys:
            assert client.call("SET", key, "x" * MB) == OK
    return patient_cluster, hasp, keys


@pytest.mark.parametrize("at_once", [False, True])
def test_replies_that_wait_for_a_slow_node_count(spread, at_once):
    """hasp buffers the fast node's replies, because the slow node's reply must come first."""
    cluster, hasp, (slow, fast, _) = spread
    growth = Growth(hasp)
    with hasp.connect() as client, cluster.owner(slow).frozen():
        if at_once:
            client.send(encode("MGET", slow, *[fast] * 60))
        else:
            client.send(encode("GET", slow) + encode("GET", fast) * 60)
        assert client.at_end()
        growth.check(BOUND)
    with hasp.connect() as other:
        assert len(other.call("GET", fast)) > MB
    assert "client_over_limit limit=memory_limit" in hasp.log


def test_what_a_client_of_monitor_sends_waits_for_its_node(spread):
    cluster, hasp, _ = spread
    growth = Growth(hasp)
    with hasp.connect() as client, contextlib.ExitStack() as stack:
        client.send(encode("MONITOR"))
        assert client.read() == OK
        for node in cluster.nodes:
            stack.enter_context(node.frozen())
        client.fileno = client.sock.fileno
        send_at_once(hasp, [client], encode("PING", b"x" * 10_000) * 6000)
        growth.check(BOUND)
