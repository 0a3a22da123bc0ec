# SPDX-License-Identifier: BSD-3-Clause
"""hasp's listening sockets: addresses, unix sockets, workers, keepalive."""

import pathlib
import re
import signal
import socket
import stat

import pytest
from harness import Connection, RedisServer, until
from harness.by_hand import config, run
from harness.marks import covers
from harness.network import fill_backlog
from harness.replies import ONE, PONG
from harness.sections import rule

LOCKS = rule()


def test_several_addresses(start_hasp, tmp_path):
    hasp = start_hasp(listen=f"127.0.0.1:0, [::1]:0 unix:{tmp_path}/a\n unix:{tmp_path}/b")
    until(lambda: len(hasp.listening) == 4, "all four addresses to listen")
    for address in hasp.listening:
        host, port = address.rsplit(":", 1)
        where = port if host == "unix" else (host.strip("[]"), int(port))
        with Connection(where) as one:
            assert one.call("PING") == PONG


@covers("listen_failed")
def test_more_addresses_than_it_can_listen_at_are_told(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server,
                  listen="\n ".join(f"unix:{tmp_path}/{n}" for n in range(65)))
    result = run("-c", path)
    assert result.returncode == 1 and f'listen_failed address=unix:{tmp_path}/64 reason="too many addresses"' in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["hasp.ini"]


@covers("listen", "listen_failed")
def test_name_that_stands_for_two_addresses(start_hasp):
    hasp = start_hasp(listen="*:0")
    until(lambda: {address.startswith("[") for address in hasp.listening} == {True, False}, "an IPv4 and an IPv6 address to listen")
    for address in hasp.listening:
        with Connection(("::1" if address.startswith("[") else "127.0.0.1", int(address.rsplit(":", 1)[1]))) as one:
            assert one.call("PING") == PONG


@covers("socket_file_left")
def test_socket_file_that_cannot_be_deleted_is_logged(start_hasp, tmp_path):
    file = tmp_path / "s"
    hasp = start_hasp(listen=f"127.0.0.1:0 unix:{file}")
    file.unlink()
    file.mkdir()
    hasp.signal(signal.SIGTERM)
    until(lambda: f'socket_file_left address=unix:{file} reason="Is a directory"' in hasp.log, "hasp to log that the socket file stays")


@covers("unix_socket_mode")
@pytest.mark.parametrize("mode", ["0700", "0770", "0777"])
def test_unix_socket_has_its_mode(start_hasp, tmp_path, mode):
    start_hasp(listen=f"127.0.0.1:0 unix:{tmp_path}/s", unix_socket_mode=mode)
    status = (tmp_path / "s").stat()
    assert stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == int(mode, 8)


@covers("backlog")
def test_backlog_limits_the_connections_that_are_not_accepted_yet(start_hasp):
    hasp = start_hasp(backlog=1)
    with hasp.frozen():
        waiting = fill_backlog(hasp.address)
        # The kernel queues backlog + 1 connections; the third socket has not connected.
        assert len(waiting) == 3
        for s in waiting:
            s.close()


def test_stale_unix_socket_is_replaced(start_hasp, tmp_path):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/s")
    hasp = start_hasp(listen=f"unix:{tmp_path}/s")
    with hasp.connect() as one:
        assert one.call("PING") == PONG
    hasp.stop()
    assert not (tmp_path / "s").exists()


def test_file_that_is_no_socket_is_left_alone(redis_server, tmp_path):
    (tmp_path / "precious").write_text("data")
    path = config(tmp_path / "hasp.ini", redis_server, listen=f"unix:{tmp_path}/precious")
    result = run("-c", path)
    assert result.returncode == 1 and "Address already in use" in result.stderr
    assert (tmp_path / "precious").read_text() == "data"


def test_socket_of_a_running_hasp_is_left_alone(share_hasp, redis_server, tmp_path):
    hasp = share_hasp(listen=f"unix:{tmp_path}/s")
    path = config(tmp_path / "second.ini", redis_server, listen=f"unix:{tmp_path}/t unix:{tmp_path}/s")
    result = run("-c", path)
    assert result.returncode == 1 and "Address already in use" in result.stderr
    assert not (tmp_path / "t").exists()
    with hasp.connect() as one:
        assert one.call("PING") == PONG


def test_socket_of_a_hasp_that_accepts_no_connection_is_left_alone(start_hasp, redis_server, tmp_path):
    hasp = start_hasp(listen=f"unix:{tmp_path}/s", backlog=1)
    with hasp.frozen():
        waiting = fill_backlog(hasp.address, socket.AF_UNIX)
        result = run("-c", config(tmp_path / "second.ini", redis_server, listen=f"unix:{tmp_path}/s"))
        assert result.returncode == 1 and "Address already in use" in result.stderr
        for s in waiting:
            s.close()


def test_sockets_that_go_with_hasp_are_those_it_made(start_hasp, tmp_path):
    hasp = start_hasp(listen=f"127.0.0.1:0 unix:{tmp_path}/mine")
    with socket.socket(socket.AF_UNIX) as others:
        others.bind(f"{tmp_path}/others")
        hasp.edit(f"{tmp_path}/mine", f"{tmp_path}/others")
        until(lambda: "reloaded" in hasp.log, "the reload")
        hasp.stop()
        assert [p.name for p in tmp_path.iterdir()] == ["others"]


@pytest.mark.parametrize("workers", [1, 2])
def test_port_of_another_hasp_is_an_error(start_hasp, redis_server, tmp_path, workers):
    hasp = start_hasp(workers=workers)
    path = config(tmp_path / "second.ini", redis_server, listen="%s:%d" % hasp.address, workers=workers)
    result = run("-c", path)
    assert result.returncode == 1 and "Address already in use" in result.stderr


@covers("workers")
def test_all_workers_serve(start_hasp, redis_server, tmp_path):
    hasp = start_hasp(LOCKS, workers=4, listen=f"127.0.0.1:0 unix:{tmp_path}/s")
    plain = redis_server.client()
    for address in (hasp.address, str(tmp_path / "s")):
        connections, seen = [], set()
        for n in range(200):
            connections.append(Connection(address))
            assert connections[-1].call("SETNX", f"lock:{n}", "v") == ONE
            seen.add(re.search(r"/(\d)/", plain.get(f"hasp:owner:{{lock:{n}}}")).group(1))
            if len(seen) == 4:
                break
        # Over TCP, clients must reach all workers; over a unix socket, perhaps not all.
        if isinstance(address, tuple):
            assert seen == {"0", "1", "2", "3"}
        for connection in connections:
            connection.close()
        plain.flushall()


def keepalive_timers(port):
    """Returns the sockets to or from `port` on which the kernel runs a keepalive timer."""
    lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
    ends = [(int(line[1].split(":")[1], 16), int(line[2].split(":")[1], 16), line[3], line[5])
            for line in lines]
    return [end for end in ends if port in end[:2] and end[2] == "01" and end[3].startswith("02:")]


def test_peers_that_died_are_found_by_keepalive(start_hasp):
    with RedisServer("--tcp-keepalive", "0") as redis:
        hasp = start_hasp(upstream="%s:%d" % redis.address, tcp_keepalive="60s")
        with hasp.connect() as one:
            assert one.call("PING") == PONG
            (to_client,) = keepalive_timers(hasp.address[1])
            assert to_client[0] == hasp.address[1]
            # The client's connection, and hasp's own one. While bytes are under way, another timer runs.
            until(lambda: len(keepalive_timers(redis.port)) == 2, "both connections to be idle")
            assert all(end[1] == redis.port for end in keepalive_timers(redis.port))


@covers("tcp_keepalive")
def test_keepalive_can_be_off(start_hasp):
    hasp = start_hasp(tcp_keepalive=0)
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        assert keepalive_timers(hasp.address[1]) == []
