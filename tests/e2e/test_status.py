# SPDX-License-Identifier: BSD-3-Clause
"""/status.json: which client has which lock, waiters, contended keys, the size of the reply, and
the hosts that may request it."""

import contextlib
import http.client
import json
import re
import threading

import pytest
from harness import until
from harness.marks import covers
from harness.replies import NIL, OK, ONE
from harness.resp import encode
from harness.sections import rule, section, verbs

HTTP = "[http]\nlisten = 127.0.0.1:0\n"
JOBS = section("lock jobs", {"pattern": "job:*", "wait": "60s", "lease": "60s"})
GUARD = section("guard stock", {"pattern": "stock:*", "acquire_on": "GET", "wait": "60s", "lease": "60s"})


def ask(hasp, host=None):
    port = re.search(r"\blistening_http address=127\.0\.0\.1:(\d+)", hasp.log)[1]
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as c:
        c.request("GET", "/status.json", headers={"Host": host} if host else {})
        reply = c.getresponse()
        return reply, reply.read()


def status(hasp):
    reply, text = ask(hasp)
    assert reply.status == 200 and reply.getheader("Content-Type") == "application/json"
    found = json.loads(text)
    assert found["whole"]
    return found


def rows(hasp, what):
    return status(hasp)[what]["rows"]


def name(client, text):
    assert client.call("CLIENT", "SETNAME", text) == OK


def row_of(found, key):
    matching = [row for row in found if row["key"] == key]
    return matching[0] if matching else None


def test_lock_is_there_while_it_is_held(start_hasp):
    hasp = start_hasp(rule(owner="name", renew="yes") + HTTP, workers=2)
    with hasp.connect() as one:
        name(one, "shop")
        assert one.call("SET", "lock:a", "1", "NX") == OK
        (row,) = rows(hasp, "locks")
        assert (row["key"], row["key_bytes"], row["db"]) == ("lock:a", 6, 0)
        assert (row["kind"], row["section"], row["owner"]) == ("lock", "locks", "name:shop")
        assert re.fullmatch(r"127\.0\.0\.1:\d+ shop", row["client"])
        assert row["renewed"] and row["since_ms"] >= 0 and 0 < row["left_ms"] <= 30_000
        assert one.call("DEL", "lock:a") == ONE
        until(lambda: rows(hasp, "locks") == [], "the lock to go")


def test_guards_and_verbs_locks_are_there_as_well(start_hasp):
    hasp = start_hasp(GUARD + verbs() + HTTP).is_up()
    with hasp.connect() as one:
        assert one.call("GET", "stock:a") == NIL
        token = int(one.call("LOCK", "report")[1:])
        found = rows(hasp, "locks")
        assert row_of(found, "stock:a")["kind"] == "guard" and row_of(found, "stock:a")["section"] == "stock"
        assert row_of(found, "report")["kind"] == "verbs" and row_of(found, "report")["fence"] == token
        assert one.call("SET", "stock:a", "1") == OK
        until(lambda: row_of(rows(hasp, "locks"), "stock:a") is None, "the guard to go")


def test_clients_that_wait_are_told_at_both_kinds_of_lock(start_hasp):
    hasp = start_hasp(JOBS + GUARD + HTTP, workers=2).is_up(2)
    with hasp.connect() as one, hasp.connect() as lock_waiter, hasp.connect() as guard_waiter:
        name(lock_waiter, "second")
        assert one.call("SETNX", "job:a", "1") == ONE
        assert one.call("GET", "stock:a") == NIL
        lock_waiter.send(encode("SETNX", "job:a", "2"))
        guard_waiter.send(encode("GET", "stock:a"))
        until(lambda: status(hasp)["waiters"]["total"] == 2, "both clients to wait")
        found = rows(hasp, "waiters")
        row = row_of(found, "job:a")
        assert row["section"] == "jobs" and row["client"].endswith(" second") and 0 < row["left_ms"] <= 60_000
        assert row_of(found, "stock:a")["section"] == "stock"
        assert {row["key"]: row["waiters"] for row in rows(hasp, "locks")} == {"job:a": 1, "stock:a": 1}
        assert one.call("DEL", "job:a") == ONE
        assert lock_waiter.read() == ONE
        until(lambda: [row["key"] for row in rows(hasp, "waiters")] == ["stock:a"], "the lock's waiter to leave the list")
        assert one.call("SET", "stock:a", "1") == OK
        guard_waiter.read()


def test_contended_keys_are_added_up_over_workers_the_worst_first(start_hasp):
    hasp = start_hasp(rule() + GUARD.replace("60s", "0", 1) + HTTP, workers=3)
    with hasp.connect() as one, contextlib.ExitStack() as others:
        assert one.call("SET", "lock:hot", "1", "NX") == OK
        assert one.call("SET", "lock:warm", "1", "NX") == OK
        for _ in range(8):
            other = others.enter_context(hasp.connect())
            assert other.call("SET", "lock:hot", "1", "NX") == NIL
            assert other.call("SET", "lock:hot", "1", "NX") == NIL
        assert other.call("SET", "lock:warm", "1", "NX") == NIL
        found = [(row["key"], row["section"], row["refused"], row["waited"], row["missed"])
                 for row in rows(hasp, "contended")]
    assert found == [("lock:hot", "locks", 16, 0, 0), ("lock:warm", "locks", 1, 0, 0)]


def test_of_many_locks_the_longest_held_are_told_and_all_are_counted(start_hasp):
    hasp = start_hasp(rule(lease="10m") + HTTP, workers=2)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(4)]
        for i in range(1000):
            assert clients[i % 4].call("SET", f"lock:{i}", "1", "NX") == OK
        found = status(hasp)["locks"]
    assert found["total"] == 1000
    assert [row["key"] for row in found["rows"]] == [f"lock:{i}" for i in range(200)]
    ages = [row["since_ms"] for row in found["rows"]]
    assert ages == sorted(ages, reverse=True)


def test_keys_of_any_bytes_and_length_are_json(start_hasp):
    hasp = start_hasp(rule() + HTTP)
    keys = [b"lock:" + bytes(range(256)), b'lock:"}],<script>', b"lock:" + b"\0" * 100_000, "lock:schlüssel-鍵-🔒".encode()]
    with hasp.connect() as one:
        for key in keys:
            assert one.call("SET", key, "1", "NX") == OK
        reply, text = ask(hasp)
    assert len(text) < 20_000
    found = json.loads(text.decode())["locks"]["rows"]
    assert sorted(row["key_bytes"] for row in found) == sorted(map(len, keys))
    assert row_of(found, 'lock:"}],<script>') and row_of(found, "lock:schlüssel-鍵-🔒")


def test_sections_are_there_with_what_became_of_their_locks(start_hasp):
    hasp = start_hasp(rule(mode="observe") + JOBS + HTTP).is_up()
    with hasp.connect() as one:
        assert one.call("SETNX", "job:a", "1") == ONE
        observed, jobs = status(hasp)["sections"]
    assert (observed["mode"], "totals" in observed) == ("observe", False)
    assert (jobs["kind"], jobs["name"], jobs["patterns"], jobs["owner"]) == ("lock", "jobs", ["job:*"], "connection")
    assert jobs["totals"]["acquired"] == 1 and jobs["wait_ms"] == 60_000


def test_reload_changes_the_sections_and_who_may_ask(start_hasp):
    hasp = start_hasp(HTTP)
    assert status(hasp)["sections"] == []
    assert ask(hasp, "hasp.example")[0].status == 421
    hasp.reload(HTTP, HTTP + "allowed_hosts = other.example hasp.example\n" + JOBS)
    assert ask(hasp, "hasp.example")[0].status == 200
    until(lambda: [s["name"] for s in status(hasp)["sections"]] == ["jobs"], "the new section to be listed")


def test_history_grows_and_counts_what_happens(start_hasp):
    hasp = start_hasp(rule() + HTTP)
    with hasp.connect() as one:
        assert one.call("SET", "lock:a", "1", "NX") == OK
        until(lambda: sum(status(hasp)["history"]["acquired"]) > 0, "the lock to be in the history")
        history = status(hasp)["history"]
    assert history["clients"][-1] == 1
    assert len({len(series) for series in history.values() if isinstance(series, list)}) == 1


@covers("allowed_hosts")
@pytest.mark.parametrize("allowed", [True, False])
def test_only_those_hosts_are_answered_that_no_stranger_can_have(start_hasp, allowed):
    hasp = start_hasp(HTTP + "allowed_hosts = hasp.example.com other\n")
    hosts = {True: ["127.0.0.1", "127.0.0.1:9380", "[::1]:9380", "localhost", "LOCALHOST:1", "x.localhost.", "192.0.2.1",
                    "hasp.example.com", "Hasp.Example.Com.:80", "other"],
             False: ["evil.example", "127.0.0.1.evil.example", "hasp.example.com.evil.example", "xlocalhost", "::1", "[x]",
                     "[::1", ".", ":9380", "1.2.3", "evil.example\t127.0.0.1", "127.0.0.1@evil.example"]}
    for host in hosts[allowed]:
        reply, text = ask(hasp, host)
        if allowed:
            assert reply.status == 200, host
        else:
            assert reply.status in (400, 421) and b"version" not in text, (host, reply.status)


@pytest.mark.parametrize("target, status", [
    ("http://127.0.0.1:1/status.json", 200), ("HTTP://LOCALHOST/status.json?x=1", 200), ("http://localhost", 200),
    ("http://evil.example/status.json", 421), ("http://evil@localhost/status.json", 421),
    (f"http://{'x' * 300}.localhost/", 421), ("http://evil.example/metrics", 200), ("http://localhost/x", 404)])
def test_host_of_an_absolute_target_counts(start_hasp, target, status):
    hasp = start_hasp(HTTP)
    port = re.search(r"\blistening_http address=127\.0\.0\.1:(\d+)", hasp.log)[1]
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as c:
        c.request("GET", target, headers={"Host": "evil.example" if status == 200 else "localhost"})
        assert c.getresponse().status == status


def test_replies_are_kept_and_shown_by_nobody_else(start_hasp):
    reply, _ = ask(start_hasp(HTTP))
    assert reply.getheader("Cache-Control") == "no-store"
    assert reply.getheader("X-Content-Type-Options") == "nosniff"
    assert "default-src 'none'" in reply.getheader("Content-Security-Policy")
    assert "frame-ancestors 'none'" in reply.getheader("Content-Security-Policy")


def test_clients_are_served_while_many_ask(start_hasp):
    hasp = start_hasp(rule(lease="10m") + HTTP, workers=2)
    with hasp.connect() as one:
        for i in range(500):
            assert one.call("SET", f"lock:{i}", "1", "NX") == OK
        threads = [threading.Thread(target=lambda: [status(hasp) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            assert one.call("SET", "lock:0", "1", "NX") == NIL
        for thread in threads:
            thread.join()
