# SPDX-License-Identifier: BSD-3-Clause
"""hasp checks with Redis the commands that guards name: by hasp -t, at the start, at a reload, or
later if Redis cannot be reached then."""

import os
import signal
import socket
import subprocess
import threading

import pytest

from harness import TOP, RedisServer, encode, until

HASP = os.environ.get("HASP", str(TOP / "hasp"))
OK, PONG = b"+OK\r\n", b"+PONG\r\n"
GUARD = "[guard stock]\npattern = stock:*\nwait = 0\nacquire_on = GET"
NO_KEY = "'PING' in 'acquire_on' of [guard stock] has no key; expected commands that name one, such as GET"
IN_PART = "hasp checks the commands of guards only in part, since it cannot ask Redis at %s: %s; " \
          "it checks the rest when Redis answers"


def write(path, upstream, guard=GUARD, **options):
    """Writes a file in which `guard` begins in the third line after `options`. Returns its path."""
    lines = [f"{name} = {value}" for name, value in {"address": upstream, **options}.items()]
    path.write_text("\n".join(["[hasp]", "listen = 127.0.0.1:0", "[upstream]", *lines, guard, ""]))
    path.chmod(0o600)  # hasp requires this mode because of the password
    return path


def run(*args):
    return subprocess.run([HASP, *map(str, args)], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL, check=False)


def check(*args, **options):
    """Returns the exit status of hasp -t, and its output without the file's name and the report
    about the server."""
    path = write(*args, **options)
    result = run("-t", "-c", path)
    assert result.stdout == "" if result.returncode else result.stdout.endswith(f"{path}: ok\n")
    lines = [line for line in result.stderr.splitlines() if ": Redis at " not in line]
    return result.returncode, [line.replace(f"{path}:", "") for line in lines]


# --- hasp -t ---------------------------------------------------------------------


@pytest.mark.parametrize("way", ["unix:{0.unix}", "127.0.0.1:{0.port}", "localhost:{0.port}"])
def test_check_asks_redis_whatever_its_address(redis_server, tmp_path, way):
    upstream = way.format(redis_server)
    assert check(tmp_path / "ini", upstream, GUARD + " HGETALL sort_ro zunion\nrelease_on = SET GETDEL") == (0, [])
    assert check(tmp_path / "ini", upstream, GUARD + " PING") == (1, [f"8: {NO_KEY}"])


def test_check_tells_each_command_that_cannot_be_guarded(redis_server, tmp_path):
    guard = GUARD + " EVAL\n\tBLPOP OBJECT GTE\nrelease_on = SET hget"
    where = "in 'acquire_on' of [guard stock]"
    assert check(tmp_path / "ini", f"unix:{redis_server.unix}", guard) == (1, [
        f"8: 'EVAL' {where} is forbidden in scripts, which guards use; expected commands that scripts may call, "
        "such as GET",
        f"9: 'BLPOP' {where} may block; expected commands that answer at once, such as GET",
        f"9: 'OBJECT' {where} has keys in positions that Redis does not report; expected commands with keys in fixed positions, such as GET",
        f"9: 'GTE' {where} is unknown to Redis; expected commands that it has, such as GET",
        "10: 'hget' in 'release_on' of [guard stock] does not write; expected commands that do, such as SET"])


VERBS = ["lock", "unlock", "extend", "info", "list", "mlock", "munlock"]


@pytest.mark.parametrize("option", VERBS)
def test_verb_cannot_have_the_name_of_a_command_of_redis(redis_server, tmp_path, option):
    """hasp has Redis' own commands built in, so it knows the name even if it cannot reach Redis."""
    for upstream in (f"unix:{redis_server.unix}", f"unix:{tmp_path}/none"):
        for name in ("GET", "multi", "Config", "EVALSHA_RO"):
            status, lines = check(tmp_path / "ini", upstream, f"[verbs]\n{option} = {name}")
            assert status == 1
            assert [line.split("; expected a name that Redis does not use, such as ")[0] for line in lines] == [
                f"6: '{name}' in '{option}' of [verbs] is a command of Redis"]
    assert check(tmp_path / "ini", upstream, f"[verbs]\n{option} = GETLOCK")[0] == 0


def test_verb_cannot_have_the_name_of_any_command_that_redis_lists(redis_server, plain, tmp_path):
    names = sorted(name for name in plain.command_list() if "|" not in name)
    for n in range(0, len(names), len(VERBS)):
        some = dict(zip(VERBS, names[n:]))
        text = "[verbs]\n" + "".join(f"{option} = {name}\n" for option, name in some.items())
        status, lines = check(tmp_path / "ini", f"unix:{tmp_path}/none", text)
        assert status == 1
        assert [name for name in some.values() if not any(f"'{name}'" in line for line in lines)] == []


def test_check_does_without_a_redis_that_is_not_there(tmp_path):
    upstream = f"unix:{tmp_path}/none"
    warning = f"warning: 5: {IN_PART % (upstream, 'No such file or directory')}"
    assert check(tmp_path / "ini", upstream, GUARD + " PING GTE\nrelease_on = MODULE.SET") == (0, [warning])
    assert check(tmp_path / "ini", upstream, GUARD + " BLPOP") == (1, [
        "8: 'BLPOP' in 'acquire_on' of [guard stock] may block; expected commands that answer at once, "
        "such as GET", warning])


def test_check_logs_in(redis_server, tmp_path):
    plain = redis_server.client()
    plain.acl_setuser("hasp", enabled=True, passwords=["+secret"], commands=["+command"])
    plain.acl_setuser("mute", enabled=True, passwords=["+secret"])
    plain.config_set("requirepass", "other")
    upstream = f"unix:{redis_server.unix}"

    def reason(**options):
        status, lines = check(tmp_path / "ini", upstream, GUARD + " PING", **options)
        assert status == 0 and len(lines) == 1
        return lines[0].split("it cannot ask Redis at ")[1].split(": ", 1)[1].split(";")[0]

    assert reason() == "NOAUTH Authentication required."
    assert reason(password="wrong").startswith("WRONGPASS ")
    assert reason(user="hasp", password="other").startswith("WRONGPASS ")
    assert reason(user="mute", password="secret").startswith("NOPERM ")
    assert check(tmp_path / "ini", upstream, GUARD + " PING", password="other") == (1, [f"9: {NO_KEY}"])
    assert check(tmp_path / "ini", upstream, GUARD + " PING", user="hasp", password="secret") == (1, [f"10: {NO_KEY}"])


def test_check_does_not_mind_a_password_too_many(redis_server, tmp_path):
    assert check(tmp_path / "ini", f"unix:{redis_server.unix}", GUARD + " PING", password="x") == (1, [f"9: {NO_KEY}"])


@pytest.mark.parametrize("answer, reason", [
    (None, "it does not answer in time"), (b"", "closed by the server"),
    (b"*1\r\n*1\r\n$4\r\nwhat\r\n", "hasp does not understand the reply to COMMAND"),
    (b"*1\r\n*6\r\n$3\r\nge", "closed by the server"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", "it sent bytes that are not a RESP reply")])
def test_check_does_without_a_redis_that_is_none(tmp_path, answer, reason):
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with listener.accept()[0] as one:
                assert one.recv(65536) == encode("COMMAND")
                if answer is None:
                    ended.wait(60)
                else:
                    one.sendall(answer)
        server = threading.Thread(target=serve)
        server.start()
        upstream = "%s:%d" % listener.getsockname()
        result = check(tmp_path / "ini", upstream, GUARD + " PING", connect_timeout="5s" if answer is not None else "300ms")
        ended.set()
        server.join()
    assert result == (0, [f"warning: 6: {IN_PART % (upstream, reason)}"])


def test_quiet_check_asks_nobody_where_nothing_is_locked(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        path = write(tmp_path / "ini", "%s:%d" % listener.getsockname(), "")
        assert run("-t", "-q", "-c", path).returncode == 0
        with pytest.raises(BlockingIOError):
            listener.accept()


# --- at the start ----------------------------------------------------------------


def test_hasp_does_not_start_with_what_cannot_be_guarded(redis_server, tmp_path):
    path = write(tmp_path / "ini", f"unix:{redis_server.unix}", GUARD + " PING")
    result = run("-c", path)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", f"{path}:8: {NO_KEY}\n")


@pytest.fixture
def absent():
    """Yields a stopped Redis, which the test starts later."""
    with RedisServer() as server:
        server.stop()
        yield server


def is_guarded(hasp):
    hasp.is_up()
    with hasp.connect() as one, hasp.connect() as other:
        return one.call("GET", "stock:1") == b"$-1\r\n" and other.call("GET", "stock:1").startswith(b"-LOCKED ")


def test_what_redis_tells_later_is_logged_once_and_the_rest_is_guarded(start_hasp, absent):
    hasp = start_hasp(GUARD + " PING GTE", upstream=f"unix:{absent.unix}", workers=2)
    assert ": Connection refused; it checks the rest when Redis answers" in hasp.log and NO_KEY not in hasp.log
    absent.start()
    until(lambda: hasp.log.count("upstream_up") >= 2, "both workers to connect")
    until(lambda: NO_KEY in hasp.log and "'GTE' in" in hasp.log, "the faults")
    assert is_guarded(hasp)
    with hasp.connect() as one:
        assert one.call("PING") == PONG
    # hasp logs each fault once, so it logs none after a second connection.
    absent.client().client_kill_filter(_type="normal", skipme=True)
    until(lambda: hasp.log.count("upstream_up") >= 4, "both workers to connect again")
    faults = [line for line in hasp.log.splitlines() if "of [guard stock]" in line]
    assert len(faults) == 2 and all(f" error {hasp.config_file}:" in line for line in faults)


def test_what_redis_tells_later_may_be_fine(start_hasp, absent):
    hasp = start_hasp(GUARD + "\nrelease_on = SET", upstream=f"unix:{absent.unix}")
    absent.start()
    until(lambda: "upstream_up" in hasp.log, "hasp to connect")
    assert is_guarded(hasp) and " error " not in hasp.log


# --- reload ----------------------------------------------------------------------


def reload(hasp, old, new, until_logged):
    text = hasp.config_file.read_text()
    assert old in text
    hasp.configure(text.replace(old, new))
    hasp.signal(signal.SIGHUP)
    until(lambda: until_logged in hasp.log, "the reload")


def test_reload_to_what_cannot_be_guarded_keeps_the_old_guards(start_hasp):
    hasp = start_hasp(GUARD)
    reload(hasp, "GET", "GET PING", "reload_failed kept=")
    assert f" error {hasp.config_file}:9: {NO_KEY}\n" in hasp.log and "reloaded" not in hasp.log
    assert is_guarded(hasp)


def test_reload_asks_the_redis_that_the_new_file_names(start_hasp, redis_server):
    """The new file names a Redis that lacks a command which the old Redis has."""
    with RedisServer("--rename-command", "HGETALL", "") as poorer:
        hasp = start_hasp(GUARD + " HGETALL")
        reload(hasp, str(redis_server.unix), str(poorer.unix), "reload_failed kept=")
        assert "'HGETALL' in 'acquire_on' of [guard stock] is unknown to Redis" in hasp.log
        assert is_guarded(hasp)


def test_reload_without_redis_is_checked_when_it_is_there(start_hasp, redis_server):
    hasp = start_hasp(GUARD)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    redis_server.stop()
    until(lambda: "upstream_down" in hasp.log, "hasp's own connection to end")
    reload(hasp, "GET", "GET PING", "reloaded")
    assert NO_KEY not in hasp.log
    redis_server.start()
    until(lambda: NO_KEY in hasp.log, "the fault")
    assert is_guarded(hasp)


def test_reload_that_cannot_ask_is_checked_by_what_is_known(start_hasp, redis_server):
    """Redis accepts no new connection, but hasp has one already."""
    hasp = start_hasp(GUARD)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    with redis_server.client() as plain:
        plain.config_set("maxclients", 1)
        reload(hasp, "GET", "GET PING", "reloaded")
        assert ": ERR max number of clients reached" in hasp.log
        until(lambda: NO_KEY in hasp.log, "the fault")
        plain.config_set("maxclients", 1000)
    assert is_guarded(hasp)
