# SPDX-License-Identifier: BSD-3-Clause
"""/metrics is true: about commands, locks, waiters, guards, servers, links, memory and limits."""

import contextlib
import http.client
import subprocess

import pytest
from harness import until
from harness.failover import until_followed
from harness.marks import covers
from harness.replies import OK, ONE
from harness.resp import encode
from harness.scrape import HTTP, ask, metrics, of, value, where
from harness.sections import VERBS, rule, section

GUARD = section("guard stock", {"pattern": "stock:*", "acquire_on": "GET", "wait": "60s"})
WAITING = section("lock jobs", {"pattern": "job:*", "wait": "60s", "lease": "60s"})
OWN_KEYS = "hasp:fence"


def outcomes(hasp):
    return {labels[0][1]: n for (name, labels), n in metrics(hasp).items() if name == "hasp_commands_total"}


def links(hasp, node):
    return {kind: value(hasp, "hasp_links", node=node, kind=kind) for kind in ("shared", "private", "own")}


@contextlib.contextmanager
def connections(hasp, n):
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(hasp.connect()) for _ in range(n)]


# --- the format ---------------------------------------------------------------------------


def test_promtool_finds_nothing_wrong(start_hasp):
    hasp = start_hasp(rule() + GUARD + VERBS + HTTP, workers=2).is_up(2)
    with hasp.connect() as one:
        assert one.call("SET", "lock:a", "1", "NX") == OK
        assert one.call("LOCK", "a")[:1] == b":"
        told = subprocess.run(["promtool", "check", "metrics"], input=ask(hasp, "/metrics")[1],
                              capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")


def test_one_connection_serves_scrape_after_scrape(start_hasp):
    """Prometheus sends many scrapes over one connection."""
    hasp = start_hasp(HTTP).is_up()
    asking = {"Accept": "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
              "Accept-Encoding": "gzip", "User-Agent": "Prometheus/2.42.0", "X-Prometheus-Scrape-Timeout-Seconds": "10"}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", where(hasp), timeout=60)) as c:
        for _ in range(5):
            c.request("GET", "/metrics", headers=asking)
            reply = c.getresponse()
            assert reply.status == 200 and not reply.will_close
            assert b"\nhasp_workers 1\n" in reply.read()


# --- commands -----------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["shared", "session"])
def test_each_command_is_counted_by_what_was_done_with_it(start_hasp, pooling):
    hasp = start_hasp(rule() + GUARD + HTTP, pooling=pooling, workers=2).is_up(2)
    with connections(hasp, 10) as all_of_them:
        for c in all_of_them:
            c.send(encode("GET", "k") * 7)
            for _ in range(7):
                c.read()
            assert c.call("SET", "k", "x" * 1_000_000) == OK  # hasp streams a long value, without buffering it
        assert outcomes(hasp) == {"passed": 80, "rewritten": 0, "guarded": 0, "refused": 0}
        one = all_of_them[0]
        for command in ("MULTI",), ("GET", "k"), ("EXEC",):
            one.call(*command)
        assert one.call("SET", "lock:a", "1", "NX") == OK and one.call("DEL", "lock:a") == ONE
        one.call("GET", "stock:a")
        assert one.call("SET", "stock:a", "1") == OK
        assert one.call("SET", OWN_KEYS, "1").startswith(b"-NOPERM hasp: ")
        assert outcomes(hasp) == {"passed": 83, "rewritten": 2, "guarded": 2, "refused": 1}


@pytest.mark.parametrize("pooling", ["shared", "session"])
def test_bytes_of_clients_and_of_the_upstream_are_counted(start_hasp, pooling):
    hasp = start_hasp(rule() + HTTP, pooling=pooling, workers=2).is_up(2)
    big, small = 1_000_000, 1_000

    def moved():
        return [value(hasp, "hasp_bytes_total", peer=peer, direction=direction)
                for peer in ("client", "upstream") for direction in ("read", "written")]

    with connections(hasp, 4) as all_of_them:
        for c in all_of_them:
            assert c.call("PING") == b"+PONG\r\n"
        before = moved()
        sent = received = 0
        for c in all_of_them:
            for n in small, big:
                requests = [("SET", "k", "x" * n), ("GET", "k"), ("SET", "lock:a", "1", "NX"), ("DEL", "lock:a")]
                sent += sum(len(encode(*r)) for r in requests)
                received += sum(len(c.call(*r)) for r in requests)
        read, written, answered, asked = (now - then for now, then in zip(moved(), before, strict=True))
        assert (read, written) == (sent, received)
        values = 4 * (big + small)
        assert answered > values and asked > values


# --- locks and guards ---------------------------------------------------------------------


def test_observed_rules_count_what_enforce_would_have_prevented(start_hasp, plain):
    observe = {"mode": "observe"}
    hasp = start_hasp(rule(**observe) + section("guard stock", {"pattern": "stock:*", "acquire_on": "GET", **observe})
                      + HTTP, workers=2).is_up(2)

    def seen():
        return {(dict(labels)["rule"], dict(labels)["event"]): n for (name, labels), n in metrics(hasp).items()
                if name == "hasp_observed_total"}

    names = ["without_expiry", "of_another_deleted", "of_another_changed", "outlived_lease", "lost"]
    events = {("locks", f"lock_{name}"): 0 for name in names} | {("stock", "lost_update"): 0}
    assert seen() == events
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX", "PX", "60000") == OK
        assert other.call("SET", "lock:a", "2", "PX", "60000") == OK
        events["locks", "lock_of_another_changed"] += 1
        assert seen() == events
        assert one.call("SET", "lock:b", "1", "NX", "PX", "60000") == OK and plain.delete("lock:b") == 1
        one.call("GET", "lock:b")
        events["locks", "lock_lost"] += 1
        assert seen() == events
        assert one.call("SETNX", "lock:c", "1") == ONE
        events["locks", "lock_without_expiry"] += 1
        one.call("GET", "stock:a")
        for c in other, one:
            assert c.call("SET", "stock:a", "1") == OK
        events["stock", "lost_update"] += 1
        assert seen() == events


def test_locks_that_are_held_are_counted_over_all_workers_and_connections(start_hasp):
    hasp = start_hasp(rule(lease="60s") + VERBS + HTTP, workers=2).is_up(2)
    with connections(hasp, 8) as all_of_them:
        for i, c in enumerate(all_of_them):
            for j in range(5):
                assert c.call("SET", f"lock:{i}:{j}", "1", "NX") == OK
            assert c.call("SET", f"lock:{i}:0", "1", "XX") == OK  # takes the lock that the client has already
        assert all_of_them[0].call("LOCK", "a")[:1] == b":"
        assert of(hasp, "hasp_locks_held", "locks") == 40
        assert of(hasp, "hasp_locks_held", "LOCK", "verbs") == 1
        assert value(hasp, "hasp_memory_bytes", what="holds") > 41 * 100
        assert all_of_them[0].call("DEL", "lock:0:1") == ONE
        assert of(hasp, "hasp_locks_held", "locks") == 39
        all_of_them[1].close()
        until(lambda: of(hasp, "hasp_locks_held", "locks") == 34, "the closed connection's locks to be released")
    until(lambda: of(hasp, "hasp_locks_held", "locks") == 0, "all locks to be released")
    assert value(hasp, "hasp_memory_bytes", what="holds") == 0


@pytest.mark.parametrize("owner", ["connection", "value"])
def test_lock_whose_lease_is_over_is_not_held(start_hasp, owner):
    hasp = start_hasp(rule(owner=owner, lease="2s", renew="no") + HTTP).is_up()
    with hasp.connect() as one:
        assert one.call("SETNX", "lock:a", "mine") == ONE
        until(lambda: of(hasp, "hasp_locks_held", "locks") == 0, "the lease to end")
        assert of(hasp, "hasp_lock_acquired_total", "locks") == 1


def test_who_waits_is_counted_until_it_has_the_lock_or_gives_up(start_hasp):
    hasp = start_hasp(WAITING + HTTP, workers=2).is_up(2)
    with hasp.connect() as holder, connections(hasp, 6) as others:
        assert holder.call("SETNX", "job:a", "1") == ONE
        for c in others:
            c.send(encode("SETNX", "job:a", "1"))
        until(lambda: of(hasp, "hasp_lock_waiters", "jobs") == 6, "six clients to wait")
        assert value(hasp, "hasp_memory_bytes", what="waiters") > 6 * 100
        assert of(hasp, "hasp_locks_held", "jobs") == 1
        others.pop().close()
        until(lambda: of(hasp, "hasp_lock_waiters", "jobs") == 5, "the closed waiter to leave the queue")
        assert holder.call("DEL", "job:a") == ONE
        until(lambda: of(hasp, "hasp_lock_waiters", "jobs") == 4, "one waiter to get the lock")
        assert of(hasp, "hasp_lock_handed_over_total", "jobs") == 1
    until(lambda: of(hasp, "hasp_lock_waiters", "jobs") == 0, "no client to wait")
    until(lambda: value(hasp, "hasp_memory_bytes", what="waiters") == 0, "the waiters' memory to be freed")


def test_guard_is_held_from_the_read_to_the_write(start_hasp):
    hasp = start_hasp(GUARD + HTTP).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        one.call("GET", "stock:a")
        other.send(encode("GET", "stock:a"))
        until(lambda: of(hasp, "hasp_guard_waiters", "stock", "guard") == 1, "the second client to wait")
        assert of(hasp, "hasp_guard_hold_seconds_count", "stock", "guard") == 0
        assert one.call("SET", "stock:a", "1") == OK
        assert other.read() == b"$1\r\n1\r\n"
        assert of(hasp, "hasp_guard_waiters", "stock", "guard") == 0
        assert of(hasp, "hasp_guard_hold_seconds_count", "stock", "guard") == 1
        assert of(hasp, "hasp_guard_hold_seconds_sum", "stock", "guard") > 0
    until(lambda: of(hasp, "hasp_guard_hold_seconds_count", "stock", "guard") == 2, "the second client's guard to end")


# --- servers and links --------------------------------------------------------------------


def test_server_is_up_while_it_can_be_reached(start_hasp, redis_server):
    hasp = start_hasp(HTTP, workers=2).is_up(2)
    node = f"unix:{redis_server.unix}"
    until(lambda: value(hasp, "hasp_upstream_up", node=node) == 1, "both workers to be connected")
    redis_server.stop()
    until(lambda: value(hasp, "hasp_upstream_up", node=node) == 0, "hasp to report that Redis is down")
    redis_server.start()
    until(lambda: value(hasp, "hasp_upstream_up", node=node) == 1, "hasp to report that Redis is up")


@covers("server_check_delay")
def test_how_long_the_server_took_to_answer_is_measured_all_the_time(start_hasp, redis_server):
    node = f"unix:{redis_server.unix}"
    hasp = start_hasp(HTTP, workers=2, upstream=f"address = {node}\nserver_check_delay = 50ms\nserver_timeout = 1s").is_up(2)

    def told(suffix, **labels):
        return value(hasp, "hasp_upstream_latency_seconds" + suffix, node=node, **labels)

    until(lambda: told("_count") >= 10, "ten measured answers")
    samples = metrics(hasp)
    labels = ("node", node),
    n = samples["hasp_upstream_latency_seconds_count", labels]
    assert samples["hasp_upstream_latency_seconds_bucket", (*labels, ("le", "+Inf"))] == n
    assert 0 < samples["hasp_upstream_latency_seconds_sum", labels] < 60 * n
    with redis_server.frozen():
        before = told("_count")
        until(lambda: value(hasp, "hasp_upstream_up", node=node) == 0, "hasp to give up the unanswered checks")
        assert told("_count") <= before + 2  # each worker awaits at most one answer, which may have been on its way
    until(lambda: told("_count") > before + 2, "further measured answers")


@covers("links_per_worker")
def test_links_are_told_by_whose_they_are(start_hasp, redis_server):
    node = f"unix:{redis_server.unix}"
    hasp = start_hasp(HTTP, upstream=f"address = {node}\nlinks_per_worker = 2").is_up()
    with connections(hasp, 5) as all_of_them:
        for c in all_of_them:
            c.call("GET", "k")
        until(lambda: links(hasp, node)["shared"] == 2, "both shared links")
        told = links(hasp, node)
        assert told["private"] == 0 and told["own"] >= 1
        for c in all_of_them[:3]:
            assert c.call("SUBSCRIBE", "a")[:1] == b"*"
        assert links(hasp, node)["private"] == 3
    until(lambda: links(hasp, node)["private"] == 0, "the private links to close")


@covers("pooling")
@pytest.mark.parametrize("pooling", ["session"])
def test_without_pooling_each_client_has_a_link(start_hasp, redis_server, pooling):
    hasp = start_hasp(HTTP, pooling=pooling)
    with connections(hasp, 4) as all_of_them:
        for c in all_of_them:
            c.call("GET", "k")
        told = links(hasp, f"unix:{redis_server.unix}")
        assert (told["shared"], told["private"]) == (0, 4)


def test_primary_that_sentinels_name_is_the_node(start_hasp, sentinels):
    hasp = start_hasp(HTTP, upstream=sentinels.upstream).is_up()
    old, new = sentinels.failover()
    until_followed(hasp, new)
    up = {labels[0][1]: n for (name, labels), n in metrics(hasp).items() if name == "hasp_upstream_up"}
    assert up == {"%s:%d" % new.address: 1} and old.address != new.address


def test_each_primary_of_a_cluster_is_a_node(start_hasp, cluster):
    hasp = start_hasp(HTTP, upstream=cluster.upstream, workers=2)
    with hasp.connect() as c:
        for i in range(50):
            assert c.call("SET", f"k{i}", "v") == OK
        expected = {"%s:%d" % primary.address for primary in cluster.primaries()}
        until(lambda: all(value(hasp, "hasp_upstream_up", node=node) == 1 for node in expected), "hasp to know all nodes")
        samples = metrics(hasp)
        for family in "hasp_upstream_up", "hasp_upstream_latency_seconds_count":
            assert {labels[0][1] for name, labels in samples if name == family} == expected
        assert all(links(hasp, node)["shared"] >= 1 for node in expected)
        assert outcomes(hasp)["passed"] == 50


# --- memory and limits --------------------------------------------------------------------


def limit(hasp, name):
    return value(hasp, "hasp_limit_reached_total", limit=name)


def test_replies_that_are_not_read_are_memory_of_clients(start_hasp, plain):
    plain.set("big", "x" * 1_000_000)
    hasp = start_hasp(HTTP).is_up()
    with hasp.connect() as one:
        assert value(hasp, "hasp_memory_bytes", what="clients") == 0
        one.send(encode("GET", "big") * 20)
        until(lambda: value(hasp, "hasp_memory_bytes", what="clients") > 2_000_000, "hasp to buffer replies")
    until(lambda: value(hasp, "hasp_memory_bytes", what="clients") == 0, "hasp to free the replies")


def test_clients_that_are_too_many_are_counted(start_hasp):
    hasp = start_hasp(HTTP, max_clients=2)
    with connections(hasp, 2) as (one, _):
        one.call("PING")
        with hasp.connect() as third:
            assert third.read() == b"-ERR max number of clients reached\r\n"
        assert (limit(hasp, "max_clients"), value(hasp, "hasp_clients")) == (1, 2)


def test_client_that_reads_no_replies_is_counted_when_it_is_closed(start_hasp):
    hasp = start_hasp(HTTP, client_output_limit="1mb").is_up()
    with hasp.connect() as one:
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            while True:
                one.send(encode("GETSET", "k", "x" * 10_000) * 100)
    until(lambda: limit(hasp, "client_output_limit") == 1, "hasp to close the client")
    assert limit(hasp, "memory_limit") == 0


def test_clients_for_which_there_is_no_memory_are_counted(start_hasp):
    """hasp buffers a whole SET on a key with a rule before it decides about it."""
    hasp = start_hasp(rule() + HTTP, memory_limit="16mb").is_up()
    with connections(hasp, 20) as all_of_them:
        for c in all_of_them:
            with contextlib.suppress(ConnectionError):
                c.send(encode("SET", "lock:a", "x" * 1_000_000)[:900_000])
        until(lambda: limit(hasp, "memory_limit") >= 1, "hasp to close a client")
    assert limit(hasp, "client_output_limit") == 0


@covers("max_request")
def test_request_that_is_too_long_is_counted(start_hasp):
    hasp = start_hasp(rule() + HTTP, max_request="1mb")
    with hasp.connect() as one:
        one.send(encode("SET", "lock:a", "x" * 3_000_000)[:2_000_000])
        assert b"max_request" in one.read()
    assert limit(hasp, "max_request") == 1
    assert outcomes(hasp)["refused"] == 1


@pytest.mark.parametrize("pooling", ["session"])
def test_links_that_are_too_many_are_counted(start_hasp, redis_server, pooling):
    hasp = start_hasp(HTTP, upstream=f"address = unix:{redis_server.unix}\nlinks_max = 1", pooling=pooling)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("PING") == b"+PONG\r\n"
        assert b"links_max" in other.call("PING")
        assert limit(hasp, "links_max") == 1


def test_client_that_is_idle_for_too_long_is_counted(start_hasp):
    hasp = start_hasp(HTTP, client_idle_timeout="1s")
    with hasp.connect():
        until(lambda: limit(hasp, "client_idle_timeout") == 1, "hasp to close the client")


def test_client_that_does_not_log_in_is_counted(start_hasp, plain):
    plain.config_set("requirepass", "secret")
    hasp = start_hasp(HTTP, client_login_timeout="4s")
    with hasp.connect() as one:
        assert one.call("PING").startswith(b"-NOAUTH")
        until(lambda: limit(hasp, "client_login_timeout") == 1, "hasp to close the client")
