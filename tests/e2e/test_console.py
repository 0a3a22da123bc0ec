# SPDX-License-Identifier: BSD-3-Clause
"""The console: what any Redis client can see and do there, and what no client can do."""

import contextlib
import json
import os
import re
import resource
import signal
import socket
import stat
import subprocess
import time

import pytest
import redis as redis_py
from harness import Connection, Hasp, until
from harness.guards import guard
from harness.load import Load
from harness.marks import covers
from harness.replies import OK, PONG
from harness.resp import encode, pipeline
from harness.scrape import HTTP, ask
from harness.sections import VERBS, rule, section

ON_A_SOCKET = "[admin]\nlisten = unix:{path}\n"
OVER_TCP = "[admin]\nlisten = 127.0.0.1:0\npassword = open sesame\n"


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("c") / "admin.sock"


@pytest.fixture
def hasp(start_hasp, path):
    return start_hasp(rule() + ON_A_SOCKET.format(path=path)).is_up()


@pytest.fixture
def guarded(start_hasp):
    """A hasp whose console requires a password, and the console's port."""
    hasp = start_hasp(OVER_TCP)
    return hasp, int(re.search(r" listening_console address=127\.0\.0\.1:(\d+)", hasp.log).group(1))


def open_console(path):
    return redis_py.Redis(unix_socket_path=str(path), decode_responses=True)


def show(path, what):
    with open_console(path) as console:
        rows = console.execute_command("SHOW", *what.split())
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]


def test_peer_that_hangs_up_at_once_leaves_nothing(hasp, path):
    def nopen():
        return len(os.listdir(f"/proc/{hasp.pid}/fd"))

    before = nopen()
    for _ in range(3):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(path))
            until(lambda: nopen() > before, "hasp to accept the peer")
        until(lambda: nopen() == before, "hasp to close the peer's connection")


def test_its_socket_is_for_its_owner_only(hasp, path):
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_without_the_section_there_is_none(start_hasp):
    assert " console " not in start_hasp().log


def test_help_names_what_there_is_and_all_of_that_answers(hasp, path):
    commands = [row["command"] for row in show(path, "HELP")]
    shown = [command.removeprefix("SHOW ") for command in commands
             if command.startswith("SHOW ") and command != "SHOW what"]
    assert "VERSION" in shown and "LOCKS" in shown
    shown.remove("DISCOVERED")  # has no rows without --discover
    for what in shown:
        assert isinstance(show(path, what), list), what


def test_a_row_is_a_map_in_resp3_and_flat_in_resp2(hasp, path):
    with Connection(str(path)) as console:
        assert console.call("SHOW", "VERSION").startswith(b"*1\r\n*2\r\n$7\r\nversion\r\n")
        assert console.call("HELLO", "3").startswith(b"%6\r\n$6\r\nserver\r\n$4\r\nhasp\r\n")
        assert console.call("SHOW", "VERSION").startswith(b"*1\r\n%1\r\n$7\r\nversion\r\n")
        assert console.call("HELLO", "4").startswith(b"-NOPROTO")


def test_redis_cli_opens_it(hasp, path):
    for option in [], ["-3"]:
        cli = subprocess.run(["redis-cli", *option, "-s", path], input="PING\nshow version\n", text=True,
                             capture_output=True, check=True)
        assert "PONG" in cli.stdout and "hasp " in cli.stdout, cli


def test_rules_tell_what_became_of_commands(hasp, path):
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SET", "lock:1", "v", "NX", "PX", "60000")
        other.call("SET", "lock:1", "v", "NX", "PX", "60000")

        def counts():
            row, = (row for row in show(path, "RULES") if row["kind"] == "lock")
            return row["acquired"], row["refused"]

        until(lambda: counts() == (1, 1), "both commands to be counted")


def test_memory_tells_how_many_clients_each_worker_has(hasp, path):
    with hasp.connect() as one, hasp.connect() as other:
        one.call("PING")
        other.call("PING")
        assert sum(row["clients"] for row in show(path, "MEMORY")) == 2


def test_locks_are_told_with_who_has_them_and_who_waits(start_hasp, path):
    hasp = start_hasp(rule(owner="name", wait="60s") + VERBS + guard(pattern="stock:*", lease="60s", wait="60s") +
                      ON_A_SOCKET.format(path=path), workers=2)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("CLIENT", "SETNAME", "shop")
        one.call("SET", "lock:1", "v", "NX")
        one.call("GET", "stock:1")
        fence = int(one.call("LOCK", "report", "PX", 60000)[1:])
        other.send(encode("SET", "lock:1", "w", "NX"))
        third.send(encode("GET", "stock:1"))
        until(lambda: len(show(path, "WAITERS")) == 2, "both clients to wait")
        locks = {lock["key"]: lock for lock in show(path, "LOCKS")}
        guarded, = show(path, "GUARDS")
        waiters = {waiter["key"]: waiter for waiter in show(path, "WAITERS")}
        clients = {client["id"]: client for client in show(path, "CLIENTS")}
        lock, report = locks["lock:1"], locks["report"]
        assert len(locks) == 2 and (lock["kind"], lock["rule"], lock["owner"]) == ("lock", "locks", "name:shop")
        assert (lock["db"], lock["renewed"], lock["waiters"], lock["fence"]) == (0, "yes", 1, 0)
        assert lock["client"].endswith(" shop") and clients[lock["client_id"]]["name"] == "shop"
        assert lock["held_ms"] >= 0 and 0 < lock["lease_ms"] <= 30_000
        assert (report["kind"], report["fence"], report["renewed"], report["waiters"]) == ("verbs", fence, "no", 0)
        assert (guarded["key"], guarded["kind"], guarded["waiters"]) == ("stock:1", "guard", 1)
        assert waiters.keys() == {"lock:1", "stock:1"} and clients[waiters["lock:1"]["client_id"]]["state"] == "waiting"
        assert 0 < waiters["lock:1"]["left_ms"] <= 60_000
        one.call("DEL", "lock:1")
        one.call("SET", "stock:1", "1")
        other.read(), third.read()
        until(lambda: show(path, "WAITERS") == [], "no client to wait")


def test_locks_are_unknown_while_redis_does_not_answer(start_hasp, redis_server, path):
    hasp = start_hasp(rule(renew="no") + HTTP + ON_A_SOCKET.format(path=path)).is_up()

    def state():
        return [(lock["key"], lock["state"]) for lock in show(path, "LOCKS")]

    def known():
        return json.loads(ask(hasp, "/status.json")[1])["locks"]["known"]

    until(known, "Redis to answer")
    assert show(path, "LOCKS") == []
    with Connection(path) as console:
        with redis_server.frozen():
            until(lambda: console.call("SHOW", "LOCKS") == b"-ERR unknown: Redis does not answer\r\n", "SHOW LOCKS to fail")
            until(lambda: not known(), "/status.json to report the locks as unknown")
        until(lambda: console.call("SHOW", "LOCKS") == b"*0\r\n", "Redis to answer")
    with hasp.connect() as one:
        assert one.call("SET", "lock:1", "v", "NX", "PX", 600000) == OK
        assert state() == [("lock:1", "held")]
        with redis_server.frozen():
            until(lambda: state() == [("lock:1", "unknown")], "the lock to be unknown")
        until(lambda: state() == [("lock:1", "held")], "the lock to be known again")


def test_locks_are_told_while_others_are_served(start_hasp, path):
    """There are more locks than a worker reports in one step; the console shows each lock once."""
    hasp = start_hasp(VERBS + ON_A_SOCKET.format(path=path), workers=2)
    number = 250
    with hasp.connect() as one, hasp.connect() as other, Load(hasp.address, clients=2) as load:
        for connection, kind in (one, "a"), (other, "b"):
            replies = pipeline(connection, *(("LOCK", f"{kind}{i}", "PX", 600_000) for i in range(number)))
            assert len(set(replies)) == number
        load.goes_on()
        for _ in range(3):
            assert sorted(row["key"] for row in show(path, "LOCKS")) == \
                sorted(f"{kind}{i}" for kind in "ab" for i in range(number))
        load.goes_on()
        load.stop()
        assert load.faults == []


def test_show_locks_lists_all_locks_the_longest_held_first(start_hasp, path):
    hasp = start_hasp(VERBS + guard(pattern="stock:*", lease="60s") + ON_A_SOCKET.format(path=path), workers=2)
    with hasp.connect() as reader, hasp.connect() as one, hasp.connect() as other:
        # The guards have longer leases, but SHOW LOCKS neither lists nor counts them.
        for i in range(10):
            reader.call("GET", f"stock:{i}")
        for i in range(250):
            (one if i % 2 else other).call("LOCK", f"k{i}", "PX", 600_000)
        assert [row["key"] for row in show(path, "LOCKS")] == [f"k{i}" for i in range(250)]
        assert len(show(path, "GUARDS")) == 10


def test_a_word_that_show_does_not_know_is_refused(hasp, path):
    with Connection(str(path)) as console:
        assert console.call("SHOW", "LOCK").startswith(b"-ERR unknown SHOW ")
        for words in ("LOCKS", "some"), ("VERSION", "ALL"):
            assert console.call("SHOW", *words).startswith(b"-ERR wrong number of arguments; expected SHOW what")


def test_stats_sum_up_what_was_done(hasp, path):
    with hasp.connect() as one, hasp.connect() as other:
        one.call("PING")
        one.call("SET", "lock:1", "v", "NX", "PX", "60000")
        other.call("SET", "lock:1", "v", "NX", "PX", "60000")

        def stats():
            row, = show(path, "STATS")
            return row["clients"], row["acquired"], row["refused"], row["held"], row["commands_rewritten"]

        until(lambda: stats() == (2, 1, 1, 1, 2), "all commands to be counted")
        row, = show(path, "STATS")
        assert row["commands_passed"] >= 1 and row["waiting"] == 0


def test_nodes_are_told_with_their_links(hasp, path, redis_server):
    with hasp.connect() as one, hasp.connect() as other:
        one.call("PING")
        other.call("SUBSCRIBE", "news")

        def links():
            return {row["kind"]: row["links"] for row in show(path, "LINKS")}

        until(lambda: links()["shared"] >= 1 and links()["own"] == 1 and links()["hasp"] >= 1, "links of all kinds")
        node, = show(path, "NODES")
        assert node["state"] == "up" and node["links"] == sum(links().values())
    redis_server.stop()
    until(lambda: [row["state"] for row in show(path, "NODES")] == ["down"], "the server to be missed")


def test_clients_are_told_by_what_they_do_and_have(hasp, path):
    with hasp.connect() as holder, hasp.connect() as listener, hasp.connect() as other:
        holder.call("CLIENT", "SETNAME", "payer")
        holder.call("SET", "lock:1", "v", "NX", "PX", "60000")
        listener.call("SUBSCRIBE", "news")
        other.call("SELECT", "3")
        other.call("MULTI")
        clients = {client["address"]: client for client in show(path, "CLIENTS")}
        assert len(clients) == 3 and len({client["id"] for client in clients.values()}) == 3

        def told(connection):
            return clients["{}:{}".format(*connection.sock.getsockname())]

        assert (told(holder)["name"], told(holder)["locks"], told(holder)["state"]) == ("payer", 1, "idle")
        assert (told(listener)["state"], told(listener)["link"]) == ("listening", "own")
        assert (told(other)["db"], told(other)["state"], told(other)["name"]) == (3, "transaction", None)


def test_all_clients_are_told_though_they_come_and_go(start_hasp, path):
    """The console shows each client that stays connected exactly once, in any number of steps."""
    hasp = start_hasp(ON_A_SOCKET.format(path=path), workers=2)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(300)]
        for client in clients:
            client.call("PING")
        for client in clients[::3]:
            client.close()
        more = [stack.enter_context(hasp.connect()) for _ in range(50)]
        for client in more:
            client.call("PING")
        there = [client for i, client in enumerate(clients) if i % 3] + more
        addresses = sorted("{}:{}".format(*client.sock.getsockname()) for client in there)
        until(lambda: sorted(row["address"] for row in show(path, "CLIENTS")) == addresses, "the clients that are connected")


def test_client_is_killed_by_its_id(hasp, path):
    with hasp.connect() as client, hasp.connect() as other, Connection(str(path)) as console:
        client.call("CLIENT", "SETNAME", "stuck")
        other.call("PING")
        number, = (row["id"] for row in show(path, "CLIENTS") if row["name"] == "stuck")
        assert console.call("KILL", "CLIENT", number) == OK
        assert client.at_end()
        assert other.call("PING") == PONG
        for again in number, 0, 2 ** 60:
            assert console.call("KILL", "CLIENT", again).startswith(b"-ERR no client has the id")
        assert console.call("KILL", "CLIENT", "x").startswith(b"-ERR syntax error")
    killed = rf'console command="KILL CLIENT {number}" client="127\.0\.0\.1:\d+ stuck" by="uid \d+ pid \d+"'
    assert re.search(killed, hasp.log)


def test_config_shows_what_is_in_force_but_no_secret(start_hasp, path):
    hasp = start_hasp("[admin]\nlisten = unix:%s\npassword = open sesame\n" % path + rule())
    with Connection(str(path)) as console:
        console.call("AUTH", "open sesame")
        answer = str(console.call("SHOW", "CONFIG"))
        assert "lock:*" in answer and "***" in answer and "sesame" not in answer
        hasp.edit("lock:*", "other:*")
        assert console.call("RELOAD") == OK
        assert "other:*" in str(console.call("SHOW", "CONFIG"))


@covers("restart_needed")
def test_config_shows_what_is_in_force_until_a_restart(start_hasp, path):
    hasp = start_hasp(ON_A_SOCKET.format(path=path) + rule(quorum="q", max_lease="30s")
                      + section("quorum q", {"servers": "unix:/a unix:/b unix:/c", "timeout": "50ms", "password": "one"}))
    before = {(row["section"], row["option"]): row["value"] for row in show(path, "CONFIG")}
    assert before["upstream", "failover_wait"] == "0" and before["quorum q", "restart_delay"] == "30s"
    changes = {"[hasp]\n": "[hasp]\nbacklog = 7\nmax_clients = 8\n", "max_lease = 30s": "max_lease = 60s",
               "timeout = 50ms": "timeout = 60ms", "password = one": "password = two"}
    text = hasp.config_file.read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    hasp.configure(text)
    with open_console(path) as console:
        console.execute_command("RELOAD")
    after = {(row["section"], row["option"]): row["value"] for row in show(path, "CONFIG")}
    assert {key for key in after if after[key] != before[key]} == {("hasp", "max_clients"), ("lock locks", "max_lease")}
    assert re.findall(r"restart_needed reason=\"'(\w+)' in \[(\w+)", hasp.log) == [
        ("backlog", "hasp"), ("password", "quorum"), ("timeout", "quorum"), ("restart_delay", "quorum")]


def test_reload_is_answered_when_it_is_done_and_logged(hasp, path):
    hasp.configure(hasp.config_file.read_text().replace("lock:*", "other:*"))
    with Connection(str(path)) as console:
        assert console.call("RELOAD") == OK
        assert "reloaded rules=1" in hasp.log
        assert "other:*" in str(console.call("SHOW", "CONFIG"))
    assert re.search(r'console command="RELOAD" by="uid \d+ pid \d+"', hasp.log)


def test_reload_that_changed_nothing_is_an_error_with_the_first_fault(hasp, path):
    text = hasp.config_file.read_text()
    hasp.configure(text + "[nonsense]\n[more]\n")
    with Connection(str(path)) as console:
        answer = console.call("RELOAD")
        assert answer.startswith(b"-ERR not reloaded: ") and b"unknown section [nonsense]" in answer, answer
        assert b"[more]" not in answer
        hasp.configure(text)
        assert console.call("RELOAD") == OK


def test_several_reloads_at_once_are_all_answered(hasp, path):
    with contextlib.ExitStack() as stack:
        consoles = [stack.enter_context(Connection(str(path))) for _ in range(10)]
        for console in consoles:
            console.send(encode("RELOAD") + encode("PING"))
        for console in consoles:
            assert console.read() == OK
            assert console.read() == PONG


def test_shutdown_lets_clients_finish(hasp, path):
    with hasp.connect() as client:
        client.call("MULTI")
        with open_console(path) as console:
            console.execute_command("SHUTDOWN")
            until(lambda: "how=draining" in hasp.log, "hasp to drain")
        client.call("EXEC")
        assert hasp.wait(60) == 0
    assert not path.exists()


@covers("lame_duck")
def test_drain_fails_readyz_and_still_accepts_clients(start_hasp, path):
    hasp = start_hasp(f"[admin]\nlisten = unix:{path}\n{HTTP}", lame_duck="1h")
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready")
    with open_console(path) as console:
        assert console.execute_command("DRAIN")
        until(lambda: ask(hasp, "/readyz")[1] == "hasp will shut down soon\n", "hasp not to be ready")
        with hasp.connect() as client:
            assert client.call("PING") == PONG
        assert console.execute_command("SHUTDOWN")
    assert hasp.wait(60) == 0
    assert "how=draining" in hasp.log


def test_repeated_shutdown_still_lets_clients_finish(hasp, path):
    with hasp.connect() as client:
        client.call("MULTI")
        with open_console(path) as console:
            for command in "SHUTDOWN", "SHUTDOWN", "DRAIN":
                assert console.execute_command(command)
                until(lambda: "how=draining" in hasp.log, "hasp to drain")
        assert client.call("EXEC") == b"*0\r\n"
        assert hasp.wait(60) == 0
    assert hasp.log.count("shutting_down ") == 1


@covers("lame_duck")
def test_repeated_drain_does_not_end_lame_duck(start_hasp, path):
    hasp = start_hasp(f"[admin]\nlisten = unix:{path}\n", lame_duck="1h")
    with open_console(path) as console:
        for command in "DRAIN", "DRAIN", "SHUTDOWN":
            assert console.execute_command(command)
            until(lambda: "lame_duck " in hasp.log, "lame_duck to begin")
    assert hasp.wait(60) == 0
    assert hasp.log.count("shutting_down ") == 1


def test_shutdown_now_ends_a_shutdown_that_waits_for_clients(hasp, path):
    with hasp.connect() as client:
        client.call("MULTI")
        with open_console(path) as console:
            assert console.execute_command("SHUTDOWN")
            until(lambda: "how=draining" in hasp.log, "hasp to drain")
        with open_console(path) as console:
            console.execute_command("SHUTDOWN", "NOW")
        assert hasp.wait(60) == 0
    assert not path.exists()
    assert 'how="at once"' in hasp.log


def test_shutdown_now_does_not(hasp, path):
    with hasp.connect() as client:
        client.call("MULTI")
        with open_console(path) as console:
            console.execute_command("SHUTDOWN", "NOW")
        assert hasp.wait(60) == 0
    assert 'how="at once"' in hasp.log


@covers("console", "console_login_failed")
def test_at_a_port_nothing_is_told_before_the_password(guarded):
    hasp, port = guarded
    with Connection(("127.0.0.1", port)) as console:
        for request in ["SHOW", "CONFIG"], ["SHUTDOWN"], ["PING"], ["HELLO", "3"], ["NONSENSE"]:
            assert console.call(*request).startswith(b"-NOAUTH"), request
        assert console.call("AUTH", "open sesamf").startswith(b"-WRONGPASS")
        assert console.call("AUTH", "other", "open sesame").startswith(b"-WRONGPASS")
        assert console.call("AUTH", "default", "open sesame") == OK
        assert console.call("PING") == PONG
    assert "console_login_failed" in hasp.log and "sesam" not in hasp.log


def test_wrong_password_is_answered_late(guarded):
    """hasp delays its answers to wrong passwords, and meanwhile serves other clients."""
    with Connection(("127.0.0.1", guarded[1])) as console, Connection(("127.0.0.1", guarded[1])) as other:
        begin = time.monotonic()
        console.send(encode("AUTH", "wrong") + encode("AUTH", "open sesame"))
        assert other.call("AUTH", "open sesame") == OK
        assert console.read().startswith(b"-WRONGPASS")
        assert time.monotonic() - begin >= 1
        assert console.read() == OK


def test_redis_py_logs_in(guarded):
    with redis_py.Redis(port=guarded[1], password="open sesame") as console:
        assert console.ping()


@covers("restart_needed")
def test_port_needs_its_password_even_after_a_reload_without_the_section(guarded):
    hasp, port = guarded
    hasp.reload(OVER_TCP, "")
    with Connection(("127.0.0.1", port)) as console:
        assert console.call("SHOW", "CONFIG").startswith(b"-NOAUTH")
        assert console.call("AUTH", "open sesame") == OK
    assert "restart_needed reason=\"'password' in [admin]: *** -> none\"" in hasp.log


def test_at_a_port_it_needs_a_password(start_hasp):
    with pytest.raises(RuntimeError, match="without a 'password'"):
        Hasp("[admin]\nlisten = 127.0.0.1:0\n")


@pytest.mark.parametrize("garbage", [
    b"*1\r\n$999999999\r\n", b"*999999\r\n", b"x" * 200_000, b"*2\r\n:1\r\n", b"*1\r\n$-5\r\n", b"\xff" * 9 + b"\r\n",
    b"*2\r\n$4\r\nSHOW\r\n$3\r\n\r\n\"\r\n",
], ids=range(7))
def test_garbage_hurts_nobody(hasp, path, garbage):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(path))
        try:
            s.sendall(garbage)
            assert s.recv(1000).startswith(b"-ERR")
        except (BrokenPipeError, ConnectionResetError):
            pass  # hasp closed the connection before it had read everything
        assert show(path, "VERSION")


def test_requests_come_in_pieces_and_many_at_once(hasp, path):
    with socket.socket(socket.AF_UNIX) as s, open_console(path) as other:
        s.connect(str(path))
        for byte in b"*2\r\n$4\r\nSHOW\r\n$7\r\nVERS":
            s.sendall(bytes([byte]))
            assert other.ping()
        s.sendall(b"ION\r\n" + b"PING\r\n" * 100)
        answer = b""
        while answer.count(b"+PONG\r\n") < 100:
            piece = s.recv(10_000)
            assert piece, "hasp has closed the connection"
            answer += piece
        assert answer.startswith(b"*1\r\n*2\r\n$7\r\nversion\r\n")


def test_console_that_does_not_read_its_answers_is_not_read_from(hasp, path):
    """hasp stops reading from such a console instead of buffering all replies."""
    with socket.socket(socket.AF_UNIX) as s, open_console(path) as other:
        s.connect(str(path))
        s.settimeout(0)
        sent, request = 0, b"SHOW CONFIG\r\n" * 100
        with contextlib.suppress(BlockingIOError):
            while sent < 100_000_000:
                sent += s.send(request)
                assert other.ping()
        assert sent < 10_000_000
        s.settimeout(60)
        assert s.recv(100).startswith(b"*")
        assert other.ping()


@covers("console_accept_failed")
def test_console_is_served_when_there_are_descriptors_again(hasp, path):
    with open_console(path) as before:
        assert before.ping()
        used = {int(name) for name in os.listdir(f"/proc/{hasp.pid}/fd")}
        soft, hard = resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE)
        free = min(set(range(soft)) - used)
        resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE, (free, hard))
        with Connection(str(path)) as late:
            late.send(encode("PING"))
            until(lambda: "console_accept_failed reason=" in hasp.log, "hasp to run out of descriptors")
            assert before.ping()
            resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE, (soft, hard))
            assert late.read() == PONG


def test_a_signal_that_ends_hasp_ends_the_console(hasp, path):
    with open_console(path) as console:
        console.ping()
        hasp.signal(signal.SIGTERM)
        assert hasp.wait(60) == 0
    assert not path.exists()
