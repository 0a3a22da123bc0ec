# SPDX-License-Identifier: BSD-3-Clause
"""Lines of the log are true, and each has its time."""

import contextlib
import itertools
import json
import os
import re
import socket
import subprocess

import pytest
from harness import Connection, RedisServer, until
from harness.by_hand import HASP, config, run, running
from harness.marks import covers
from harness.processes import ProtectedRedis, free_port
from harness.replies import FENCE, OK, PONG
from harness.sections import VERBS, rule, section

GUARDS = (section("guard stock", {"pattern": "stock:*", "acquire_on": "GET"})
          + section("guard carts", {"pattern": "cart:*", "acquire_on": "HGETALL"}))
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "


def lines(hasp, event):
    return re.findall(rf"^{TIME}\w+ {event} .*$", hasp.log, re.M)


def wait_for(hasp, event, count=1):
    until(lambda: len(lines(hasp, event)) >= count, f"{count} x {event}")
    return lines(hasp, event)


@covers("reloaded", "started")
def test_start_and_reload_count_rules_and_guards(start_hasp):
    hasp = start_hasp(GUARDS)
    assert re.search(r" started .* rules=0 guards=2 verbs=off$", hasp.log, re.M)
    hasp.reload("[guard stock]", rule() + VERBS + "[guard stock]")
    assert re.search(r" reloaded rules=1 guards=2 verbs=on$", hasp.log, re.M)


def answers(path):
    with contextlib.suppress(OSError), Connection(str(path)) as one:
        return one.call("PING") == PONG


def test_hasp_serves_although_nobody_reads_its_standard_error(redis_server, tmp_path):
    path = tmp_path / "s"
    ends, begins = os.pipe()
    os.set_blocking(begins, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(begins, b"x" * 4096)
    os.set_blocking(begins, True)
    child = subprocess.Popen([HASP, "-c", config(tmp_path / "hasp.ini", redis_server, listen=f"unix:{path}")],
                             stderr=begins)
    os.close(begins)
    try:
        until(lambda: answers(path), "hasp to serve")
        assert os.read(ends, 1 << 20).strip(b"x") == b""
        child.terminate()
        with open(ends, "rb") as log:
            assert b" event=log dropped=" in log.read()
    finally:
        child.kill()
        child.wait()


def test_connection_that_a_reload_ends_is_told_by_its_own_address(start_hasp, redis_server):
    hasp = start_hasp(VERBS)
    old = f"unix:{redis_server.unix}"
    wait_for(hasp, "upstream_up")
    with hasp.connect() as one:
        assert one.call("LOCK", "k", "WAIT", 1) == FENCE
    wait_for(hasp, "subscriber_up")
    with RedisServer() as other:
        hasp.reload(old, f"unix:{other.unix}")
        wait_for(hasp, "upstream_up", 2)
        wait_for(hasp, "subscriber_up", 2)
        for connection in "upstream", "subscriber":
            down, up = lines(hasp, f"{connection}_down"), lines(hasp, f"{connection}_up")
            assert len(down) == 1 and f"address={old} " in down[0]
            assert f"address=unix:{other.unix}" in up[1]


def test_new_address_that_cannot_be_reached_is_told_though_the_old_one_was_down(start_hasp, redis_server):
    hasp = start_hasp(VERBS)
    wait_for(hasp, "upstream_up")
    redis_server.stop()
    wait_for(hasp, "upstream_down")
    new = f"127.0.0.1:{free_port()}"
    hasp.reload(f"unix:{redis_server.unix}", new)
    assert f"address={new} " in wait_for(hasp, "upstream_down", 2)[1]


@covers("subscriber_down", "subscriber_up")
def test_subscriber_is_told_up_when_it_is_back(start_hasp, redis_server):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one:
        one.call("LOCK", "k", "WAIT", 1)
    wait_for(hasp, "subscriber_up")
    redis_server.client().client_kill_filter(_type="pubsub")
    # The kernel resets the killed connection if a request is on its way.
    assert re.search('reason="(closed by the server|Connection reset by peer)"', wait_for(hasp, "subscriber_down")[0])
    wait_for(hasp, "subscriber_up", 2)


@pytest.mark.parametrize("options, error, hint", [
    ({}, "NOAUTH Authentication required.", "set [upstream] user and password"),
    ({"password": "wrong"}, "WRONGPASS invalid username-password pair or user is disabled.",
     "Redis does not accept the user and password of [upstream]"),
    ({"user": "few", "password": "pw"}, "NOPERM this user has no permissions to run the 'command' command",
     "give the user of [upstream] the permissions in hasp.ini(5)")])
def test_refused_login_is_told_by_the_first_error_and_what_to_do(start_hasp, options, error, hint):
    with ProtectedRedis() as redis:
        redis.client().execute_command("ACL", "SETUSER", "few", "on", ">pw", "+ping")
        upstream = "\n".join([f"unix:{redis.unix}", *(f"{name} = {value}" for name, value in options.items())])
        hasp = start_hasp(rule(), upstream=upstream)
        line, = wait_for(hasp, "upstream_refused")
        assert f'error="{error}"' in line and f'hint="{hint}"' in line


def test_error_that_is_no_matter_of_login_has_no_hint_of_it(start_hasp, redis_server):
    with redis_server.connect() as plain:
        assert plain.call("CONFIG", "SET", "maxclients", 1) == OK
        hasp = start_hasp(rule())
        line, = wait_for(hasp, "upstream_down")
        assert 'reason="ERR max number of clients reached"' in line and "hint" not in line


def test_login_that_redis_does_not_know_of_is_told_while_hasp_works(start_hasp, redis_server):
    hasp = start_hasp(rule(), upstream=f"unix:{redis_server.unix}\npassword = needless")
    wait_for(hasp, "upstream_up")
    line, = lines(hasp, "upstream_login")
    assert 'error="ERR AUTH <password> called without any password configured' in line and "needless" not in line


def test_warning_about_the_file_has_its_time_in_the_log_and_none_on_the_terminal(redis_server, tmp_path):
    path = config(tmp_path / "hasp.ini", redis_server, rule(pattern="*"), log=tmp_path / "log")
    warning = re.escape(f"{path}:7: pattern '*' ")
    with running(tmp_path / "stderr", "-c", path):
        log = tmp_path / "log"
        until(lambda: log.exists() and "event=started " in log.read_text(), "hasp to start")
        assert re.search(rf'^time={TIME}level=warning msg="{warning}', log.read_text(), re.M)
        assert (tmp_path / "stderr").read_text() == ""
    assert re.match(rf"warning: {warning}", run("-t", "-c", path).stderr)


def raw_lines(hasp):
    return hasp.log_file.read_text().splitlines()


def test_lines_are_logfmt(start_hasp):
    hasp = start_hasp(rule()).is_up()
    started, = [line for line in raw_lines(hasp) if "event=started" in line]
    assert re.fullmatch(rf"time={TIME}level=info event=started version=\S+ workers=1 .*", started)
    assert all(line.startswith("time=") for line in raw_lines(hasp))


@covers("log_format")
def test_lines_can_be_json(start_hasp):
    hasp = start_hasp(rule(), log_format="json")
    key = b'lock:"\xff\\'
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", key, 1)
        other.call("SETNX", key, 1)
        until(lambda: "lock_refused" in hasp.log, "the refusal")
        events = [json.loads(line) for line in raw_lines(hasp)]
    assert re.fullmatch(TIME, events[0]["time"] + " ")
    started, = [e for e in events if e.get("event") == "started"]
    assert (started["level"], started["workers"], started["verbs"]) == ("info", 1, "off")
    refused, = [e for e in events if e.get("event") == "lock_refused"]
    assert (refused["mode"], refused["lock"], refused["key"]) == ("enforce", "locks", 'lock:"\\xff\\')
    hasp.edit("log_format = json", "log_format = logfmt")
    until(lambda: " reloaded " in hasp.log, "the reload")


def test_start_that_fails_is_logged_in_the_format_of_the_file(redis_server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"
        result = run("-c", config(tmp_path / "hasp.ini", redis_server, listen=listen, log_format="json"))
    assert result.returncode == 1
    # A sanitizer's report of leaks begins with an empty line, which ends hasp's own log.
    said = [json.loads(line) for line in itertools.takewhile(bool, result.stderr.splitlines())]
    assert said[-1]["level"] == "error" and said[-1]["event"] == "listen_failed" and said[-1]["address"] == listen
