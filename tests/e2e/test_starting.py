# SPDX-License-Identifier: BSD-3-Clause
"""Starting hasp: options, the file, the log."""

import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest
from harness import TOP, Connection, until
from harness.by_hand import HASP, config, connected, run, running
from harness.marks import covers
from harness.processes import ProtectedRedis
from harness.replies import ONE
from harness.sanitizers import UNLESS_SANITIZED
from harness.sections import rule

LOCKS = rule()


# --- options and the file --------------------------------------------------------


def test_version():
    result = run("-V")
    assert result.returncode == 0 and re.fullmatch(r"hasp \d+\.\d+\.\d+\n", result.stdout)


def test_help():
    result = run("-h")
    assert result.returncode == 0 and result.stdout.startswith("usage: hasp ") and not result.stderr


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_long_options_are_the_short_ones(option):
    assert run(option).stdout == run(option[1:2] + (option[2].upper() if option == "--version" else option[2])).stdout


@pytest.mark.parametrize("args", [["-x"], ["-c"], ["hasp.ini", "more"], ["-c", "hasp.ini", "more"]])
def test_wrong_options_are_told_with_the_usage(args):
    result = run(*args)
    assert result.returncode == 2 and "usage: hasp " in result.stderr and not result.stdout


@pytest.mark.parametrize("args, fault", [
    (["-q", "-c", "none.ini"], "-q needs -t"), (["--strict", "-c", "none.ini"], "--strict needs -t"),
    (["--discover", "redis"], "--discover redis: there is no port; expected HOST:PORT, or unix:/PATH")])
def test_options_that_do_not_fit_end_hasp_with_status_2(args, fault):
    result = run(*args)
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"hasp: {fault}\n")


def test_check_of_a_good_file(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server, LOCKS)
    result = run("-t", "-c", path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith(f"\n{path}: ok\n")


@pytest.mark.parametrize("options", [["-c"], ["--config"], []])
def test_file_may_be_named_by_an_option_or_alone(tmp_path, options):
    path = tmp_path / "hasp.ini"
    path.write_text("")
    assert run("-tq", *options, path).stdout == ""
    path.write_text("[hasp]\nwork = 3\n")
    assert f"{path}:2:" in run("-tq", *options, path).stderr


def test_without_a_file_it_is_the_one_below_etc_if_that_is_there(tmp_path):
    """The test patches a copy of hasp so that its default file is .etc/hasp/hasp.ini below the
    working directory instead of /etc/hasp/hasp.ini."""
    binary = pathlib.Path(HASP).read_bytes()
    assert binary.count(b"\0/etc/hasp/hasp.ini\0") == 1
    copy = tmp_path / "hasp"
    copy.write_bytes(binary.replace(b"\0/etc/hasp/hasp.ini\0", b"\0.etc/hasp/hasp.ini\0"))
    copy.chmod(0o755)

    def check():
        return subprocess.run([copy, "--test", "--quiet"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (check().returncode, check().stderr) == (0, "")
    file = tmp_path / ".etc/hasp/hasp.ini"
    file.parent.mkdir(parents=True)
    file.write_text("[hasp]\nwork = 3\n")
    assert check().returncode == 1
    assert check().stderr.startswith(".etc/hasp/hasp.ini:2: unknown option 'work' in [hasp]")


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


def check_access(path, redis, listen, **upstream):
    """Returns the warnings of hasp -t about the Redis server, which does not run."""
    path.write_text(f"[hasp]\nlisten = 127.0.0.1:0 {listen}\n[upstream]\naddress = 127.0.0.1:{redis.port}\n"
                    + "".join(f"{name} = {value}\n" for name, value in upstream.items()))
    path.chmod(0o600)
    result = run("-t", "-c", path)
    assert result.returncode == 0
    return result.stderr.replace(f"warning: {path}:2: ", "")


@pytest.mark.parametrize("listen", ["*:6380", "0.0.0.0:6380", "10.1.2.3:6380", "[::]:6380", "somewhere:6380"])
def test_listener_that_undoes_redis_protected_mode_is_warned_of(redis_server, tmp_path, listen):
    assert check_access(tmp_path / "hasp.ini", redis_server, listen) == (
        f"other machines can reach '{listen}' of 'listen', but Redis at 127.0.0.1:{redis_server.port} requires no "
        "password; set a password in Redis, since its protected mode takes all clients of hasp for local ones\n")


def test_listener_that_other_machines_reach_is_fine_where_redis_asks_for_a_password(tmp_path):
    with ProtectedRedis() as redis:
        assert check_access(tmp_path / "hasp.ini", redis, "*:6380") == ""
        assert check_access(tmp_path / "hasp.ini", redis, "*:6380", password="secret") == ""


@pytest.mark.parametrize("listen", ["localhost:6380", "127.0.0.2:6380", "[::1]:6380", "unix:/run/hasp.sock"])
def test_listener_of_this_machine_is_fine_without_a_password(redis_server, tmp_path, listen):
    assert check_access(tmp_path / "hasp.ini", redis_server, listen) == ""


def test_listener_that_other_machines_reach_is_warned_of_when_redis_cannot_be_asked(redis_server, tmp_path):
    redis_server.stop()
    assert "does not report whether it requires a password" in check_access(tmp_path / "hasp.ini", redis_server, "*:6380")
    assert "requires a password" not in check_access(tmp_path / "hasp.ini", redis_server, "*:6380", password="secret")


def test_faulty_file_does_not_start(tmp_path):
    path = tmp_path / "hasp.ini"
    path.write_text("[hasp]\nlisten\n")
    result = run("-c", path)
    assert result.returncode == 1 and f"{path}:2: " in result.stderr


def test_missing_file_is_told(tmp_path):
    result = run("-c", tmp_path / "none.ini")
    assert result.returncode == 1 and "No such file or directory" in result.stderr


@covers("client_closed")
def test_verbose_logs_more(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server)
    log = tmp_path / "log"
    with running(log, "-v", "-c", path):
        listening = until(lambda: re.search(r"listening address=(\S+):(\d+)", log.read_text()), "hasp to listen")
        Connection((listening.group(1), int(listening.group(2)))).close()
        until(lambda: "event=client_closed" in log.read_text(), "a debug line")


# --- the process and the log -----------------------------------------------------


@pytest.mark.parametrize("option", ["-d", "--daemon"])
def test_background_is_refused(redis_server, tmp_path, option):
    result = run(option, "-c", config(tmp_path / "hasp.ini", redis_server))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("hasp: there is no -d: hasp stays in the foreground; expected a service ")


def test_hasp_that_cannot_listen_says_so_in_its_log(redis_server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = config(tmp_path / "hasp.ini", redis_server, log=tmp_path / "log",
                      listen="127.0.0.1:%d" % taken.getsockname()[1])
        result = run("-c", path)
    assert result.returncode == 1
    assert f"{tmp_path}/log" in result.stderr
    assert "Address already in use" in (tmp_path / "log").read_text()


@covers("log")
def test_log_that_was_moved_away_is_opened_anew_by_sighup(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server, log=tmp_path / "log")
    with running(tmp_path / "stderr", "-c", path) as child:
        until(lambda: (tmp_path / "log").exists() and "started" in (tmp_path / "log").read_text(), "hasp to start")
        (tmp_path / "log").rename(tmp_path / "log.1")
        child.send_signal(signal.SIGHUP)
        until(lambda: (tmp_path / "log").exists() and "reloaded" in (tmp_path / "log").read_text(), "the new log")


@covers("log")
def test_no_file_or_socket_takes_the_place_of_a_closed_standard_file(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server, log=tmp_path / "log")
    with running(tmp_path / "stderr", "-c", path, within=("sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh")) as child:
        until(lambda: (tmp_path / "log").exists() and "started" in (tmp_path / "log").read_text(), "a line of the log")
        assert {os.readlink(f"/proc/{child.pid}/fd/{n}") for n in range(3)} == {"/dev/null"}


@UNLESS_SANITIZED
@covers("thread_failed")
def test_thread_that_cannot_be_started_is_told_and_hasp_ends(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server)
    more_than_there_is = 1 << 47  # stack size of each thread in bytes: more than any machine has
    result = run("-c", path, within=("prlimit", f"--stack={more_than_there_is}"))
    assert result.returncode == 1
    assert 'event=thread_failed thread=worker reason="Resource temporarily unavailable"' in result.stderr


@covers("runs_as_root")
def test_only_root_is_warned(redis_server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:  # hasp ends because its port is in use
        path = config(tmp_path / "hasp.ini", redis_server, listen="127.0.0.1:%d" % taken.getsockname()[1])
        result = subprocess.run([HASP, "-c", path], capture_output=True, text=True, timeout=60, check=False)
    assert ("runs_as_root" in result.stderr) == (os.geteuid() == 0)


def test_log_to_syslog(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server, LOCKS, listen=f"unix:{tmp_path}/s", log="syslog")
    with running(tmp_path / "log", "-v", "-c", path) as child:
        with until(lambda: connected(tmp_path / "s"), "hasp to listen") as one:
            assert one.call("SETNX", "lock:1", "v") == ONE
        child.send_signal(signal.SIGHUP)
    assert (tmp_path / "log").read_text() == ""
