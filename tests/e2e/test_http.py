# SPDX-License-Identifier: BSD-3-Clause
"""hasp over HTTP: metrics that Prometheus can read, health checks, and refusals of malformed
requests."""

import contextlib
import re
import socket

import pytest
from harness import until
from harness.by_hand import config, run
from harness.marks import covers
from harness.processes import free_port
from harness.replies import NIL, OK, ONE, PONG, ZERO
from harness.resp import encode
from harness.scrape import HTTP, ask, metrics, of, value, where
from harness.sections import rule, section

GUARD = section("guard stock", {"pattern": "stock:*", "acquire_on": "GET", "wait": "0"})


def send(hasp, text):
    """Sends `text` to hasp's HTTP port. Returns all bytes until hasp closes the connection."""
    with socket.create_connection(("127.0.0.1", int(where(hasp))), timeout=60) as s:
        with contextlib.suppress(ConnectionError):
            s.sendall(text)
            with contextlib.suppress(OSError):  # hasp may have reset the connection by now
                s.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: s.recv(65536), b""))
    return b""


def test_nothing_listens_unless_the_file_says_so(start_hasp):
    assert "listening_http" not in start_hasp().log


def test_process_that_is_there_is_healthy(start_hasp):
    reply, text = ask(start_hasp(HTTP), "/healthz")
    assert (reply.status, text) == (200, "ok\n")
    assert reply.getheader("Cache-Control") == "no-store"


def test_it_is_ready_while_redis_can_be_reached(start_hasp, redis_server):
    hasp = start_hasp(HTTP, workers=2)
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready")
    redis_server.stop()
    until(lambda: ask(hasp, "/readyz")[0].status == 503, "hasp to report that Redis is down")
    assert ask(hasp, "/readyz")[1] == "Redis cannot be reached\n"
    assert ask(hasp, "/healthz")[0].status == 200
    redis_server.start()
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready again")


@covers("server_check_delay")
def test_redis_that_hangs_makes_hasp_unready(start_hasp, redis_server):
    hasp = start_hasp(HTTP, workers=2, upstream=f"address = unix:{redis_server.unix}\nserver_timeout = 1h").is_up(2)
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready")
    with redis_server.frozen():
        until(lambda: ask(hasp, "/readyz")[0].status == 503, "hasp to report that Redis is down")
        assert ask(hasp, "/readyz")[1] == "Redis does not answer\n"
        assert value(hasp, "hasp_upstream_up", node=f"unix:{redis_server.unix}") == 0
        assert ask(hasp, "/healthz")[0].status == 200
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready again")
    assert value(hasp, "hasp_upstream_up", node=f"unix:{redis_server.unix}") == 1
    assert hasp.log.count("upstream_silent") == 2 == hasp.log.count("upstream_answers")


def test_hasp_that_leaves_is_not_ready(start_hasp):
    hasp = start_hasp(rule() + HTTP)
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready")
    with hasp.connect() as holder:
        assert holder.call("SET", "lock:a", "1", "NX") == OK
        hasp.signal(15)
        until(lambda: ask(hasp, "/readyz")[1] == "hasp is shutting down\n", "hasp to exit")
        assert holder.call("DEL", "lock:a") == ONE


def test_what_became_of_locks_is_counted_by_rule(start_hasp):
    hasp = start_hasp(rule() + GUARD + HTTP)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX") == OK
        assert other.call("SET", "lock:a", "1", "NX") == NIL
        assert other.call("SET", "lock:a", "1", "NX") == NIL
        assert one.call("GET", "stock:a") == NIL
        assert other.call("GET", "stock:a").startswith(b"-LOCKED ")
        assert metrics(hasp)["hasp_clients", ()] == 2
        assert one.call("DEL", "lock:a") == ONE
        assert of(hasp, "hasp_lock_acquired_total", "locks") == 1
        assert of(hasp, "hasp_lock_refused_total", "locks") == 2
        assert of(hasp, "hasp_lock_released_total", "locks") == 1
        assert of(hasp, "hasp_lock_lost_total", "locks") == 0
        assert of(hasp, "hasp_guard_acquired_total", "stock", "guard") == 1
        assert of(hasp, "hasp_guard_refused_total", "stock", "guard") == 1
        assert of(hasp, "hasp_lock_hold_seconds_count", "locks") == 1


def test_each_wait_is_counted_once_whatever_came_of_it(start_hasp):
    hasp = start_hasp(section("lock jobs", {"pattern": "job:*", "wait": "300ms"}) + HTTP).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "job:a", "1") == ONE
        assert other.call("SETNX", "job:a", "1") == ZERO
        assert of(hasp, "hasp_lock_wait_timed_out_total", "jobs") == 1
        assert of(hasp, "hasp_lock_wait_seconds_count", "jobs") == 1
        assert of(hasp, "hasp_lock_wait_seconds_bucket", "jobs", le="0.25") == 0
        assert of(hasp, "hasp_lock_wait_seconds_bucket", "jobs", le="+Inf") == 1
        assert of(hasp, "hasp_lock_wait_seconds_sum", "jobs") >= 0.25


def test_wait_that_ends_by_the_lock_is_counted_once(start_hasp):
    hasp = start_hasp(section("lock jobs", {"pattern": "job:*", "wait": "60s"}) + HTTP).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "job:a", "1") == ONE
        other.send(encode("SETNX", "job:a", "1"))
        until(lambda: of(hasp, "hasp_lock_queued_total", "jobs") == 1, "the second client to wait")
        assert of(hasp, "hasp_lock_wait_seconds_count", "jobs") == 0
        assert one.call("DEL", "job:a") == ONE
        assert other.read() == ONE
        assert of(hasp, "hasp_lock_handed_over_total", "jobs") == 1
        assert of(hasp, "hasp_lock_wait_seconds_count", "jobs") == 1


def test_no_key_and_no_value_is_told(start_hasp):
    hasp = start_hasp(rule() + HTTP)
    with hasp.connect() as one:
        assert one.call("SET", "lock:hidden", "secret", "NX") == OK
        text = ask(hasp, "/metrics")[1]
    assert "hidden" not in text and "secret" not in text


def test_nothing_can_be_changed(start_hasp):
    hasp = start_hasp(HTTP)
    for method in "POST", "PUT", "DELETE", "OPTIONS", "TRACE":
        reply, _ = ask(hasp, "/metrics", method, body="x" * 100)
        assert reply.status == 405 and reply.getheader("Allow") == "GET, HEAD"
    reply, text = ask(hasp, "/metrics", "HEAD")
    assert (reply.status, text) == (200, "")


@pytest.mark.parametrize("path", ["/other", "/metrics/", "/../metrics", "//metrics", "/metrics%00", "/%s%n"])
def test_other_paths_are_not_there(start_hasp, path):
    assert ask(start_hasp(HTTP), path)[0].status == 404


@pytest.mark.parametrize("request_text", [
    b"\0" * 1000, b"\r\n" * 1000, b"GET\r\n\r\n", b"GET /metrics HTTP/9.9\r\n\r\n", b"*1\r\n$4\r\nPING\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /metrics HTTP/1.1\r\n" + b"".join(b"h%d: x\r\n" % i for i in range(10_000)) + b"\r\n",
    b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\nx",
    b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
], ids=["zeros", "blank", "no path", "version", "resp", "long path", "headers", "length", "chunk"])
def test_request_that_makes_no_sense_gets_no_metrics_and_harms_nobody(start_hasp, request_text):
    hasp = start_hasp(HTTP)
    assert b"hasp_clients" not in send(hasp, request_text)
    assert ask(hasp, "/healthz")[0].status == 200
    with hasp.connect() as client:
        assert client.call("PING") == PONG


def test_connections_that_say_nothing_do_not_keep_clients_waiting(start_hasp):
    hasp = start_hasp(HTTP)
    with contextlib.ExitStack() as silent, hasp.connect() as client:
        for _ in range(100):
            silent.enter_context(socket.create_connection(("127.0.0.1", int(where(hasp)))))
        assert client.call("PING") == PONG

    def answers():
        """Until hasp notices that the silent connections have closed, it closes new HTTP
        connections above its limit."""
        try:
            return ask(hasp, "/healthz")[0].status == 200
        except ConnectionError:
            return False

    until(answers, "hasp to answer HTTP requests again")


def test_address_that_is_taken_is_told_and_hasp_does_not_start(tmp_path, redis_server):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        text = f"[http]\nlisten = 127.0.0.1:{taken.getsockname()[1]}\n"
        result = run("-c", config(tmp_path / "hasp.ini", redis_server, text))
    assert result.returncode == 1
    assert re.search(r"event=listen_failed address=127\.0\.0\.1:\d+ reason=", result.stderr)


def test_other_address_needs_a_restart(start_hasp):
    hasp = start_hasp(HTTP)
    hasp.reload("[http]\nlisten = 127.0.0.1:0", f"[http]\nlisten = 127.0.0.1:{free_port()}")
    assert re.search(r"restart_needed reason=\"'listen' in \[http\]: ", hasp.log)
    assert ask(hasp, "/healthz")[0].status == 200
