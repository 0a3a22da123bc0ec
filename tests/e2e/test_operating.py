# SPDX-License-Identifier: BSD-3-Clause
"""hasp as its operator meets it: options, files, signals, limits, listeners."""

import contextlib
import os
import pathlib
import pwd
import re
import resource
import signal
import socket
import stat
import subprocess
import time

import pytest

from harness import TOP, Connection, Hasp, RedisServer, encode, until

HASP = os.environ.get("HASP", str(TOP / "hasp"))
OK, PONG, ONE, ZERO = b"+OK\r\n", b"+PONG\r\n", b":1\r\n", b":0\r\n"
LOCKS = "[lock locks]\npattern = lock:*\n"
FULL = b"-ERR max number of clients reached\r\n"


BOTH = pytest.mark.parametrize("pooling", ["shared", "session"])


@pytest.fixture
def pooling():
    """Hardly anything here depends on it; what does is marked BOTH."""
    return "shared"


def run(*args):
    return subprocess.run([HASP, *map(str, args)], capture_output=True, text=True, timeout=10,
                          stdin=subprocess.DEVNULL, check=False)


@contextlib.contextmanager
def running(log, *args):
    """hasp in the foreground, its standard error in the file `log`; ends well by SIGTERM."""
    with log.open("w") as stderr:
        child = subprocess.Popen([HASP, *map(str, args)], stderr=stderr, stdin=subprocess.DEVNULL)
    try:
        yield child
        child.terminate()
        assert child.wait(5) == 0
    finally:
        child.kill()
        child.wait()


def config(path, redis, rules="", **options):
    """Writes a file that hasp can be started with."""
    lines = [f"{name} = {value}" for name, value in {"listen": "127.0.0.1:0", **options}.items()]
    path.write_text("\n".join(["[hasp]", *lines, "[upstream]", f"address = unix:{redis.unix}", rules, ""]))
    return path


def change(hasp, old, new):
    """Edits hasp's file and has it read again."""
    text = hasp.config_file.read_text()
    assert old in text
    hasp.configure(text.replace(old, new))
    hasp.signal(signal.SIGHUP)


def ended(hasp):
    return until(lambda: not hasp.running(), "hasp to leave", timeout=5)


def alive(pid):
    """A child of nobody's that has ended may stay a zombie, where no init collects it."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# --- options and the file --------------------------------------------------------


def test_version():
    result = run("-V")
    assert result.returncode == 0 and re.fullmatch(r"hasp \d+\.\d+\.\d+\n", result.stdout)


def test_help():
    result = run("-h")
    assert result.returncode == 0 and result.stdout.startswith("usage: hasp ") and not result.stderr


@pytest.mark.parametrize("args", [["-x"], ["-c"], ["hasp.ini"], ["-t", "more"]])
def test_wrong_options_are_told_with_the_usage(args):
    result = run(*args)
    assert result.returncode == 2 and "usage: hasp " in result.stderr and not result.stdout


def test_check_of_a_good_file(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server, LOCKS)
    result = run("-t", "-c", path)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{path}: ok\n", "")


@pytest.mark.parametrize("path", ["config/hasp.ini", "config/examples/minimal.ini"])
def test_files_that_come_with_hasp_are_good(path):
    assert run("-t", "-c", TOP / path).returncode == 0


def test_check_tells_every_fault_by_file_and_line(tmp_path):
    path = tmp_path / "hasp.ini"
    path.write_text("[hasp]\nlisten = nowhere\nworkers = 0\n[lock a]\npattern = a:*\nleese = 5s\n[lok b]\n")
    result = run("-t", "-c", path)
    assert result.returncode == 1 and result.stdout == ""
    lines = [line.split(":", 2)[:2] for line in result.stderr.splitlines()]
    assert lines == [[str(path), number] for number in ("2", "3", "6", "7")]
    assert "did you mean 'lease'?" in result.stderr


def test_faulty_file_does_not_start(tmp_path):
    path = tmp_path / "hasp.ini"
    path.write_text("[hasp]\nlisten\n")
    result = run("-c", path)
    assert result.returncode == 1 and f"{path}:2: " in result.stderr


def test_missing_file_is_told(tmp_path):
    result = run("-c", tmp_path / "none.ini")
    assert result.returncode == 1 and "No such file or directory" in result.stderr


def test_verbose_logs_more(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server)
    log = tmp_path / "log"
    with running(log, "-v", "-c", path):
        listening = until(lambda: re.search(r"listening address=(\S+):(\d+)", log.read_text()), "hasp to listen")
        Connection((listening.group(1), int(listening.group(2)))).close()
        until(lambda: " debug client_closed" in log.read_text(), "a debug line")


# --- the background --------------------------------------------------------------


@pytest.fixture
def daemon(redis_server, tmp_path):
    """start(**options): hasp -d; returns its pid, and that of a dead one when it did not start."""
    pids = []

    def start(rules="", **options):
        path = config(tmp_path / "hasp.ini", redis_server, rules, pid_file=tmp_path / "pid",
                      log=tmp_path / "log", **options)
        result = run("-d", "-c", path)
        assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
        pids.append(int((tmp_path / "pid").read_text()))
        return pids[-1]

    yield start
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGTERM)
            until(lambda: not alive(pid), "the daemon to leave")
    print((tmp_path / "log").read_text())


def test_background_serves_and_cleans_up(daemon, tmp_path):
    pid = daemon(listen=f"unix:{tmp_path}/s")
    assert os.getsid(pid) == pid
    with Connection(tmp_path / "s") as one:
        assert one.call("PING") == PONG
    os.kill(pid, signal.SIGTERM)
    until(lambda: not alive(pid), "hasp to leave")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hasp.ini", "log"]
    assert "leaving signal=15" in (tmp_path / "log").read_text()


def test_background_listens_before_it_returns(daemon, tmp_path):
    for _ in range(3):
        pid = daemon(listen=f"unix:{tmp_path}/s")
        with Connection(tmp_path / "s") as one:
            assert one.call("PING") == PONG
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid), "it to be gone")  # and leaves a stale socket and pid file


def test_background_that_cannot_start_says_so(redis_server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = config(tmp_path / "hasp.ini", redis_server, log=tmp_path / "log", pid_file=tmp_path / "pid",
                      listen="127.0.0.1:%d" % taken.getsockname()[1])
        result = run("-d", "-c", path)
    assert result.returncode == 1
    assert f"{tmp_path}/log" in result.stderr
    assert "Address already in use" in (tmp_path / "log").read_text()
    assert not (tmp_path / "pid").exists()


def test_log_that_was_moved_away_is_opened_anew_by_sighup(daemon, tmp_path):
    pid = daemon()
    (tmp_path / "log").rename(tmp_path / "log.1")
    os.kill(pid, signal.SIGHUP)
    until(lambda: (tmp_path / "log").exists() and "reloaded" in (tmp_path / "log").read_text(), "the new log")
    assert "started" in (tmp_path / "log.1").read_text()


def test_log_to_syslog(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server, LOCKS, listen=f"unix:{tmp_path}/s", log="syslog")
    with running(tmp_path / "log", "-v", "-c", path) as child:
        with until(lambda: connected(tmp_path / "s"), "hasp to listen") as one:
            assert one.call("SETNX", "lock:1", "v") == ONE
        child.send_signal(signal.SIGHUP)
    assert (tmp_path / "log").read_text() == ""


def connected(path):
    try:
        return Connection(path)
    except (FileNotFoundError, ConnectionRefusedError):  # there, but not listened to yet
        return None


def someone():
    """A user that hasp can become."""
    return "nobody" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def test_user_is_who_hasp_becomes(start_hasp, redis_server, tmp_path):
    user = pwd.getpwnam(someone())
    for path in (tmp_path, *tmp_path.parents[:2], redis_server.dir):
        path.chmod(path.stat().st_mode | 0o711)
    redis_server.unix.chmod(0o777)
    hasp = start_hasp(LOCKS, user=user.pw_name, listen=f"127.0.0.1:0 unix:{tmp_path}/s",
                      unix_socket_mode="0600")
    until(lambda: " started " in hasp.log, "hasp to be ready")
    status = pathlib.Path(f"/proc/{hasp.pid}/status").read_text()
    for field, number in (("Uid", user.pw_uid), ("Gid", user.pw_gid)):
        assert re.search(rf"^{field}:(\s+{number}){{4}}$", status, re.MULTILINE)
    assert (tmp_path / "s").stat().st_uid == user.pw_uid
    with hasp.connect() as one:
        assert one.call("SETNX", "lock:1", "v") == ONE


def test_user_that_does_not_exist_is_told(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server, user="no-such-user", pid_file=tmp_path / "pid",
                  listen=f"unix:{tmp_path}/s")
    result = run("-c", path)
    assert result.returncode == 1 and "user no-such-user: no such user" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["hasp.ini"]


# --- reload ----------------------------------------------------------------------


def test_reload_brings_new_rules_to_connections_that_are_open(start_hasp):
    hasp = start_hasp()
    with hasp.connect() as one, hasp.connect() as other, hasp.client() as client:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert client.ttl("lock:1") == -1
        change(hasp, "[upstream]", LOCKS + "[upstream]")
        until(lambda: "reloaded rules=1" in hasp.log, "the reload")
        assert until(lambda: one.call("SETNX", "lock:2", "v") == ONE and client.ttl("lock:2") > 0
                     or client.delete("lock:2") and False, "the rule")
        assert other.call("DEL", "lock:2") == ZERO


def test_reload_takes_rules_away(start_hasp):
    hasp = start_hasp(LOCKS)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert other.call("DEL", "lock:1") == ZERO
        change(hasp, "lock:*", "other:*")
        until(lambda: other.call("DEL", "lock:1") == ONE, "the rule to go")


@pytest.mark.parametrize("fault", ["pattern = lock:*\npattern = b:*", "patern = lock:*", "pattern = "])
def test_reload_of_a_faulty_file_keeps_the_old_rules(start_hasp, fault):
    hasp = start_hasp(LOCKS)
    change(hasp, "pattern = lock:*", fault)
    until(lambda: 'reload kept=old' in hasp.log, "the reload to fail")
    assert re.search(rf"error {hasp.config_file}:\d+: ", hasp.log)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert other.call("DEL", "lock:1") == ZERO


def test_reload_after_the_file_is_gone_keeps_the_old_rules(start_hasp):
    hasp = start_hasp(LOCKS)
    hasp.config_file.rename(hasp.dir / "gone")
    hasp.signal(signal.SIGHUP)
    until(lambda: "reload kept=old" in hasp.log, "the reload to fail")
    (hasp.dir / "gone").rename(hasp.config_file)
    with hasp.connect() as one:
        assert one.call("PING") == PONG


def test_reload_to_a_log_that_cannot_be_opened_keeps_everything_old(start_hasp, tmp_path):
    hasp = start_hasp(LOCKS)
    change(hasp, "[upstream]", f"log = {tmp_path}/nowhere/hasp.log\nlog_level = debug\n[upstream]")
    until(lambda: "reload kept=old" in hasp.log, "the reload to fail")
    change(hasp, "lock:*", "other:*")
    until(lambda: hasp.log.count("reload kept=old") == 2, "the second reload to fail")
    assert f"{tmp_path}/nowhere/hasp.log" in hasp.log and "reloaded" not in hasp.log
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert other.call("DEL", "lock:1") == ZERO
    change(hasp, f"log = {tmp_path}/nowhere/hasp.log\n", "")
    until(lambda: "reloaded" in hasp.log, "the reload")


def test_reload_warns_of_what_needs_a_restart_until_there_is_one(start_hasp):
    hasp = start_hasp()
    for n in (1, 2):
        change(hasp, "[upstream]", "workers = 2\n[upstream]" if n == 1 else "[upstream]\n")
        until(lambda: hasp.log.count("reloaded") == n, "the reload")
        warnings = [line for line in hasp.log.splitlines() if "needs_restart" in line]
        assert len(warnings) == n and "workers" in warnings[-1]


FIRST, SECOND = b"$5\r\nfirst\r\n", b"$6\r\nsecond\r\n"


@pytest.fixture
def second(redis_server):
    """Another Redis; `who` says which one it is."""
    with RedisServer() as server:
        server.client().set("who", "second")
        redis_server.client().set("who", "first")
        yield server


def move(hasp, old, new):
    """A reload moves hasp from one Redis to another."""
    ups = until(lambda: hasp.log.count("upstream_up"), "hasp's own connection")
    change(hasp, str(old.unix), str(new.unix))
    until(lambda: hasp.log.count("upstream_up") > ups, "hasp's own connection to move")


@BOTH
def test_reload_moves_new_connections_to_another_upstream(start_hasp, redis_server, second):
    hasp = start_hasp()
    move(hasp, redis_server, second)
    with hasp.connect() as one:
        assert one.call("GET", "who") == SECOND


def test_reload_moves_those_who_share_a_link_and_back(start_hasp, redis_server, second):
    hasp = start_hasp()
    with hasp.connect() as one:
        for old, new, answer in ((redis_server, second, SECOND), (second, redis_server, FIRST)):
            until(lambda: "upstream_up" in hasp.log, "hasp to know what may share")
            assert one.call("GET", "who") != answer
            move(hasp, old, new)
            assert one.call("GET", "who") == answer


def test_reload_moves_nobody_before_he_is_answered(start_hasp, redis_server, second):
    hasp = start_hasp()
    until(lambda: "upstream_up" in hasp.log, "hasp to know what may share")
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        redis_server.freeze()
        one.send(encode("GET", "who"))
        hasp.take_turn()
        move(hasp, redis_server, second)
        one.send(encode("GET", "who"))
        hasp.take_turn()
        redis_server.signal(signal.SIGCONT)
        assert one.read() + one.read() == FIRST + SECOND


@BOTH
def test_reload_leaves_those_with_a_link_of_their_own_where_they_are(start_hasp, redis_server, second):
    hasp = start_hasp()
    with hasp.connect() as one:
        assert one.call("MULTI") == OK and one.call("DISCARD") == OK
        move(hasp, redis_server, second)
        assert one.call("GET", "who") == FIRST


def test_reload_changes_limits(start_hasp):
    hasp = start_hasp(max_clients=1)
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        with hasp.connect() as other:
            assert other.file.read() == FULL
        change(hasp, "max_clients = 1", "max_clients = 2")

        def let_in():
            with hasp.connect() as other:
                other.send(encode("PING"))
                return other.read() == PONG
        until(let_in, "the new limit")


def test_many_reloads_under_load(start_hasp):
    hasp = start_hasp(LOCKS, workers=2)
    connections = [hasp.connect() for _ in range(8)]
    for n in range(30):
        hasp.configure(hasp.config_file.read_text() + f"[lock more{n}]\npattern = more{n}:*\n")
        hasp.signal(signal.SIGHUP)
        for connection in connections:
            connection.send(encode("SETNX", f"lock:{n}", "v") + encode("DEL", f"lock:{n}") * 2)
        for connection in connections:
            assert connection.read() in (ONE, ZERO)
            assert connection.read() in (ONE, ZERO) and connection.read() == ZERO
    for connection in connections:
        connection.close()
    until(lambda: "reloaded rules=31" in hasp.log, "the last reload")


# --- leaving ---------------------------------------------------------------------


@BOTH
def test_sigterm_closes_the_idle_and_waits_for_the_busy(start_hasp, redis_server):
    hasp = start_hasp(LOCKS)
    idle, silent, blocked, multi, watching = (hasp.connect() for _ in range(5))
    assert idle.call("PING") == PONG and blocked.call("PING") == PONG
    assert multi.call("MULTI") == OK and watching.call("WATCH", "lock:2") == OK
    blocked.send(encode("BLPOP", "list", 0))
    plain = redis_server.client()
    until(lambda: plain.info("clients")["blocked_clients"] == 1, "BLPOP to block")
    hasp.signal(signal.SIGTERM)
    assert idle.at_end() and silent.at_end()
    with pytest.raises(ConnectionRefusedError):
        hasp.connect()
    assert multi.call("SETNX", "lock:1", "v") == b"+QUEUED\r\n"
    assert multi.call("EXEC") == b"*1\r\n:1\r\n"
    assert multi.at_end()
    assert watching.call("GET", "lock:2") == b"$-1\r\n" and watching.call("UNWATCH") == OK
    assert watching.at_end()
    assert hasp.running()
    plain.rpush("list", "x")
    assert blocked.read() == b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"
    assert blocked.at_end()
    ended(hasp)


@BOTH
def test_sigterm_lets_a_long_reply_end(start_hasp, redis_server):
    redis_server.client().set("big", "x" * 20_000_000)
    hasp = start_hasp()
    with hasp.connect() as one:
        one.send(encode("GET", "big"))
        assert one.sock.recv(1) == b"$"
        hasp.signal(signal.SIGTERM)
        until(lambda: "leaving" in hasp.log, "the signal to arrive")
        assert len(one.file.read()) == len("20000000\r\n") + 20_000_002
    ended(hasp)


@BOTH
def test_second_sigterm_leaves_at_once(start_hasp, redis_server):
    hasp = start_hasp()
    with hasp.connect() as blocked, hasp.connect() as idle:
        assert idle.call("PING") == PONG
        blocked.send(encode("BLPOP", "list", 0))
        until(lambda: redis_server.client().info("clients")["blocked_clients"] == 1, "BLPOP to block")
        hasp.signal(signal.SIGTERM)
        assert idle.at_end() and hasp.running()
        hasp.signal(signal.SIGTERM)
        assert blocked.at_end()
        ended(hasp)


def blocked_client(hasp, redis_server):
    """Keeps hasp from leaving until something is pushed to `list`."""
    client = hasp.connect()
    client.send(encode("BLPOP", "list", 0))
    until(lambda: redis_server.client().info("clients")["blocked_clients"] == 1, "BLPOP to block")
    return client


def test_reload_while_it_leaves_changes_nothing(start_hasp, redis_server):
    hasp = start_hasp(workers=2)
    with blocked_client(hasp, redis_server) as blocked:
        threads = len(os.listdir(f"/proc/{hasp.pid}/task"))
        hasp.signal(signal.SIGTERM)
        until(lambda: len(os.listdir(f"/proc/{hasp.pid}/task")) < threads, "the worker without clients to end")
        hasp.signal(signal.SIGHUP)
        until(lambda: 'reload kept=old reason="hasp leaves"' in hasp.log, "the reload to be refused")
        redis_server.client().rpush("list", "x")
        assert blocked.read().endswith(b"x\r\n")
    ended(hasp)


def test_files_of_the_next_hasp_stay_when_this_one_has_drained(start_hasp, redis_server, tmp_path):
    options = {"listen": f"unix:{tmp_path}/s", "pid_file": f"{tmp_path}/pid"}
    hasp = start_hasp(**options)
    with blocked_client(hasp, redis_server):
        hasp.signal(signal.SIGTERM)
        until(lambda: connected(tmp_path / "s") is None, "it to listen no more")
        following = start_hasp(**options)
        redis_server.client().rpush("list", "x")
        ended(hasp)
    assert (tmp_path / "pid").read_text() == f"{following.pid}\n"
    with following.connect() as one:
        assert one.call("PING") == PONG


def test_drain_timeout_ends_the_wait(start_hasp):
    hasp = start_hasp(drain_timeout="200ms")
    with hasp.connect() as subscriber, hasp.connect() as multi:
        subscriber.call("SUBSCRIBE", "news")
        multi.call("MULTI")
        hasp.signal(signal.SIGTERM)
        assert subscriber.at_end() and multi.at_end()
        ended(hasp)


def test_sigint_is_sigterm(start_hasp):
    hasp = start_hasp()
    hasp.signal(signal.SIGINT)
    ended(hasp)


def test_sigterm_while_redis_is_down(start_hasp, redis_server):
    hasp = start_hasp(LOCKS)
    redis_server.stop()
    until(lambda: "upstream_down" in hasp.log, "it to be noticed")
    hasp.signal(signal.SIGTERM)
    ended(hasp)


# --- limits ----------------------------------------------------------------------


def test_max_clients(start_hasp):
    hasp = start_hasp(max_clients=2, workers=2)
    with hasp.connect() as one:
        with hasp.connect() as two:
            assert one.call("PING") == PONG and two.call("PING") == PONG
            with hasp.connect() as three:
                assert three.file.read() == FULL

        def let_in():
            with hasp.connect() as next_one:
                next_one.send(encode("PING"))
                return next_one.file.readline() == PONG
        until(let_in, "a place")
    assert "max_clients reached=2" in hasp.log


def test_idle_clients_are_closed_but_none_that_waits(start_hasp, redis_server):
    hasp = start_hasp(client_idle_timeout="1s")
    plain = redis_server.client()
    subscriber, pattern, blocked, monitor, multi, silent = (hasp.connect() for _ in range(6))
    subscriber.call("SUBSCRIBE", "news")
    pattern.call("HELLO", 3)
    pattern.call("PSUBSCRIBE", "n*")
    monitor.call("MONITOR")
    multi.call("MULTI")
    blocked.send(encode("BLPOP", "list", 0))
    idle = hasp.connect()
    assert idle.call("PING") == PONG
    assert idle.at_end() and silent.at_end()
    plain.publish("news", "hello")
    assert subscriber.read().endswith(b"$5\r\nhello\r\n") and pattern.read().endswith(b"$5\r\nhello\r\n")
    assert multi.call("DISCARD") == OK
    assert b'"PING"' in monitor.read()  # of `idle`
    plain.rpush("list", "x")
    assert blocked.read().endswith(b"x\r\n")


def test_client_is_not_idle_when_it_was_just_answered(start_hasp, redis_server):
    hasp = start_hasp(client_idle_timeout="1s")
    with hasp.connect() as blocked, hasp.connect() as idle:
        blocked.send(encode("BLPOP", "list", 0))
        assert idle.call("PING") == PONG
        assert idle.at_end()  # so blocked has been silent for as long
        redis_server.client().rpush("list", "x")
        assert blocked.read().endswith(b"x\r\n")
        answered = time.monotonic()
        assert blocked.at_end()
        assert time.monotonic() - answered > 0.95


@BOTH
def test_running_out_of_descriptors_is_survived(start_hasp):
    hasp = start_hasp()
    kept = hasp.connect()
    assert kept.call("PING") == PONG
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    used = len(os.listdir(f"/proc/{hasp.pid}/fd"))
    resource.prlimit(hasp.pid, resource.RLIMIT_NOFILE, (used + 4, used + 4))
    crowd = [hasp.connect() for _ in range(10)]
    until(lambda: "accept_failed" in hasp.log, "the shortage")
    assert kept.call("PING") == PONG
    assert crowd[0].call("MULTI") == b"-ERR hasp: upstream %s: Too many open files\r\n" % \
        hasp.config_file.read_text().split("address = ")[1].split("\n")[0].encode()
    for connection in crowd:
        connection.close()

    def let_in():
        with hasp.connect() as one:
            return one.call("PING") == PONG
    until(let_in, "descriptors again")
    assert kept.call("PING") == PONG
    kept.close()


# --- listeners -------------------------------------------------------------------


def test_several_addresses(start_hasp, tmp_path):
    hasp = start_hasp(listen=f"127.0.0.1:0, [::1]:0 unix:{tmp_path}/a\n unix:{tmp_path}/b")
    until(lambda: len(hasp.listening) == 4, "all of them to listen")
    for address in hasp.listening:
        host, port = address.rsplit(":", 1)
        where = port if host == "unix" else (host.strip("[]"), int(port))
        with Connection(where) as one:
            assert one.call("PING") == PONG


def test_more_addresses_than_it_can_listen_at_are_told(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server,
                  listen="\n ".join(f"unix:{tmp_path}/{n}" for n in range(65)))
    result = run("-c", path)
    assert result.returncode == 1 and f"listen unix:{tmp_path}/64: too many addresses" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["hasp.ini"]


def test_name_that_stands_for_two_addresses(start_hasp):
    hasp = start_hasp(listen="*:0")
    until(lambda: {address.startswith("[") for address in hasp.listening} == {True, False}, "both to listen")
    for address in hasp.listening:
        with Connection(("::1" if address.startswith("[") else "127.0.0.1", int(address.rsplit(":", 1)[1]))) as one:
            assert one.call("PING") == PONG


@pytest.mark.parametrize("mode", ["0700", "0770", "0777"])
def test_unix_socket_has_its_mode(start_hasp, tmp_path, mode):
    start_hasp(listen=f"127.0.0.1:0 unix:{tmp_path}/s", unix_socket_mode=mode)
    status = (tmp_path / "s").stat()
    assert stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == int(mode, 8)


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


def test_socket_of_a_running_hasp_is_left_alone(start_hasp, redis_server, tmp_path):
    hasp = start_hasp(listen=f"unix:{tmp_path}/s")
    path = config(tmp_path / "second.ini", redis_server, listen=f"unix:{tmp_path}/t unix:{tmp_path}/s")
    result = run("-c", path)
    assert result.returncode == 1 and "Address already in use" in result.stderr
    assert not (tmp_path / "t").exists()
    with hasp.connect() as one:
        assert one.call("PING") == PONG


def test_sockets_that_go_with_hasp_are_those_it_made(start_hasp, tmp_path):
    hasp = start_hasp(listen=f"127.0.0.1:0 unix:{tmp_path}/mine")
    with socket.socket(socket.AF_UNIX) as others:
        others.bind(f"{tmp_path}/others")
        change(hasp, f"{tmp_path}/mine", f"{tmp_path}/others")
        until(lambda: "reloaded" in hasp.log, "the reload")
        hasp.stop()
        assert [p.name for p in tmp_path.iterdir()] == ["others"]


@pytest.mark.parametrize("workers", [1, 2])
def test_port_of_another_hasp_is_an_error(start_hasp, redis_server, tmp_path, workers):
    hasp = start_hasp(workers=workers)
    path = config(tmp_path / "second.ini", redis_server, listen="%s:%d" % hasp.address, workers=workers)
    result = run("-c", path)
    assert result.returncode == 1 and "Address already in use" in result.stderr


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
        if isinstance(address, tuple):  # the kernel's choice; of a shared socket it is whoever is awake
            assert seen == {"0", "1", "2", "3"}
        for connection in connections:
            connection.close()
        plain.flushall()


def keepalive_timers(port):
    """The sockets to or from `port` on which the kernel runs a keepalive timer."""
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
            assert all(end[1] == redis.port for end in keepalive_timers(redis.port))
            assert len(keepalive_timers(redis.port)) == 2  # the client's, and hasp's own


def test_keepalive_can_be_off(start_hasp):
    hasp = start_hasp(tcp_keepalive=0)
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        assert keepalive_timers(hasp.address[1]) == []


@BOTH
def test_hasp_needs_no_descriptor_that_it_does_not_use(start_hasp):
    """Clients that came and went leave nothing behind."""
    hasp = start_hasp(LOCKS)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    before = len(os.listdir(f"/proc/{hasp.pid}/fd"))
    for n in range(100):
        with hasp.connect() as one:
            assert one.call("SETNX", f"lock:{n}", "v") == ONE
            assert one.call("MULTI") == OK
    until(lambda: len(os.listdir(f"/proc/{hasp.pid}/fd")) <= before + 1, "all but a shared link to be closed")


def test_client_that_fills_its_limit_of_held_bytes_is_refused(start_hasp):
    """A rule may concern a request only known when it is whole; there is a limit to that."""
    hasp = start_hasp(LOCKS, max_request="64kb")
    with hasp.connect() as one:
        one.send(b"*5\r\n$4\r\nMSET\r\n$1\r\na\r\n$100000\r\n" + b"x" * 100000)
        assert one.read().startswith(b"-ERR hasp: a rule may concern this request")
        assert one.at_end()
