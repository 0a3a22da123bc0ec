# SPDX-License-Identifier: BSD-3-Clause
"""hasp's own login at Redis, for the connections over which hasp renews and releases."""

import signal

import pytest
from harness import Hasp, encode, until
from harness.by_hand import run
from harness.marks import covers
from harness.processes import ProtectedRedis
from harness.renewal import is_renewed, rises, rule, runs_out
from harness.replies import OK, ONE
from harness.scrape import HTTP, ask, value

KEY = "lock:1"


@pytest.fixture
def with_login():
    """start(options for [upstream] ...) starts a hasp in front of a Redis that requires a
    password."""
    things = []

    def start(*upstream, rules=rule()):
        redis = ProtectedRedis()
        things.append(redis)
        hasp = Hasp("\n".join(["[hasp]", "listen = 127.0.0.1:0", "[upstream]",
                               f"address = unix:{redis.unix}", *upstream, rules]))
        things.append(hasp)
        return hasp, redis.client()

    yield start
    faults = []
    for thing in reversed(things):
        faults.append(thing.stop())
        print(thing.log)
        thing.remove()
    assert not any(faults), faults


def login(hasp):
    connection = hasp.connect()
    assert connection.call("AUTH", "secret") == OK
    return connection


@covers("password")
def test_hasp_logs_in_with_the_password_to_renew(with_login):
    hasp, plain = with_login("password = secret")
    until(lambda: "upstream_up" in hasp.log, "hasp to log in")
    with login(hasp) as one:
        one.call("SETNX", KEY, "v")
        assert is_renewed(plain, KEY)


@covers("user")
def test_hasp_logs_in_as_a_user_to_renew(with_login):
    hasp, plain = with_login("user = hasp", "password = pw")
    plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "&*", "+@all")
    until(lambda: "upstream_up" in hasp.log, "hasp to log in")
    with login(hasp) as one:
        one.call("SETNX", KEY, "v")
        assert is_renewed(plain, KEY)


@pytest.mark.parametrize("others", [0, 1])
def test_renewal_that_is_made_again_leaves_alone_what_was_released_since(with_login, others):
    """Redis refuses hasp's own connection when a renewal is due. Before hasp logs in again, the
    application takes the lock anew with its own expiry, which hasp must not renew."""
    hasp, plain = with_login("user = hasp", "password = pw", rules=rule(lease="6s"))
    plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "&*", "+@all")
    until(lambda: "upstream_up" in hasp.log, "hasp to log in")
    with login(hasp) as one:
        for n in range(others):
            assert one.call("SETNX", f"lock:other{n}", "v") == ONE
        assert one.call("SETNX", KEY, "v") == ONE
        plain.execute_command("ACL", "SETUSER", "hasp", "off")
        plain.execute_command("CLIENT", "KILL", "USER", "hasp")
        until(lambda: "renewal_failed" in hasp.log, "a renewal to fail")
        assert one.call("DEL", KEY) == ONE
        assert one.call("SET", KEY, "v", "NX", "PX", 5000) == OK
        end = plain.pexpiretime(KEY)
        plain.execute_command("ACL", "SETUSER", "hasp", "on")
        until(lambda: hasp.log.count("upstream_up") >= 2, "hasp to log in again")
        assert one.call("SETNX", "lock:later", "v") == ONE
        assert rises(plain, 1, "lock:later", *(f"lock:other{n}" for n in range(others)))
        assert plain.pexpiretime(KEY) == end


@pytest.mark.parametrize("upstream", [(), ("password = wrong",)])
def test_without_a_login_clients_work_and_the_log_says_what_does_not(with_login, upstream):
    hasp, plain = with_login(*upstream)
    until(lambda: "upstream_refused" in hasp.log, "the refusal")
    with hasp.connect() as one:
        assert one.call("SETNX", KEY, "v").startswith(b"-NOAUTH")
        assert one.call("GET", KEY).startswith(b"-NOAUTH")
        assert one.call("DEL", KEY, "lock:2", "lock:3", "lock:4").startswith(b"-NOAUTH")
        assert one.call("AUTH", "secret") == OK
        assert one.call("SETNX", KEY, "v") == ONE
        until(lambda: "renewal_failed" in hasp.log, "the failure to renew")
        assert runs_out(plain, KEY)
    assert "secret" not in hasp.log and "wrong" not in hasp.log


def test_hasp_does_nothing_in_another_database_than_it_may_select(with_login):
    """hasp's user may not SELECT. hasp leaves the lock in database 3, and does not release the one
    of the same name in database 0 instead."""
    hasp, plain = with_login("user = hasp", "password = pw",
                             rules=rule(owner="name", on_disconnect="release"))
    plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "&*", "+@all", "-select")
    until(lambda: "upstream_up" in hasp.log, "hasp to log in", timeout=15)
    with login(hasp) as one:
        assert one.call("CLIENT", "SETNAME", "me") == OK
        assert one.call("SETNX", KEY, "v") == ONE
        with login(hasp) as other:
            assert other.call("CLIENT", "SETNAME", "me") == OK
            assert other.call("SELECT", 3) == OK
            assert other.call("SETNX", KEY, "v") == ONE
        with login(hasp) as later:
            assert later.call("SETNX", "lock:later", "v") == ONE
        until(lambda: not plain.exists("lock:later"), "a later release")
        assert plain.exists(KEY)
        assert one.call("DEL", KEY) == ONE


def test_client_that_never_logged_in_has_no_lock_undone_by_hasp(with_login):
    """Redis runs no command after QUIT; the lock with that value belongs to another client."""
    hasp, plain = with_login("password = secret", rules=rule(owner="value", on_disconnect="release"))
    until(lambda: "upstream_up" in hasp.log, "hasp to log in")
    plain.set(KEY, "1", px=60000)
    with hasp.connect() as stranger, login(hasp) as one:
        stranger.send(encode("QUIT") + encode("SET", KEY, "1", "NX", "PX", 60000) + encode("GETSET", KEY, "1"))
        assert stranger.read() == OK and stranger.at_end()
        assert one.call("SETNX", "lock:last", "v") == ONE
    until(lambda: not plain.exists("lock:last"), "a later release")
    assert plain.get(KEY) == "1"


def test_password_that_changed_is_named_in_the_log_and_by_readyz(with_login):
    hasp, plain = with_login("password = secret", HTTP)
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready")
    plain.config_set("requirepass", "new")
    plain.execute_command("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "yes")
    until(lambda: ask(hasp, "/readyz")[1] == "Redis refuses the login of [upstream]\n", "/readyz to report the refused login")
    assert 'upstream_refused address=' in hasp.log and 'error="WRONGPASS ' in hasp.log
    assert value(hasp, "hasp_upstream_errors_total", kind="refused") > 0 == value(hasp, "hasp_ready")
    plain.config_set("requirepass", "secret")
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready again")
    assert hasp.log.count("upstream_refused") == 1


@pytest.fixture
def command(tmp_path):
    """Returns a password_command, which appends a line to `runs` and prints the file `password`."""
    (tmp_path / "runs").touch()
    (tmp_path / "password").write_text("secret\nnot a part of it\n")
    return f"password_command = echo >> {tmp_path}/runs && cat {tmp_path}/password"


def runs(tmp_path):
    return (tmp_path / "runs").read_text().count("\n")


def end_own_connections(plain):
    plain.execute_command("CLIENT", "KILL", "TYPE", "NORMAL", "SKIPME", "yes")


@covers("password_command")
def test_password_command_prints_the_password_at_the_start_and_at_a_reload(with_login, command, tmp_path):
    hasp, plain = with_login(command)
    hasp.is_up()
    plain.config_set("requirepass", "new")
    (tmp_path / "password").write_text("new")
    hasp.signal(signal.SIGHUP)
    until(lambda: hasp.log.count("upstream_up") == 2, "hasp to log in again")
    assert runs(tmp_path) == 2 and "WRONGPASS" not in hasp.log


@covers("password_renewed")
def test_password_command_runs_again_after_redis_has_refused_the_login(with_login, command, tmp_path):
    hasp, plain = with_login(command, "password_command_interval = 0", HTTP)
    hasp.is_up()
    plain.config_set("requirepass", "changed")
    (tmp_path / "password").write_text("changed")
    end_own_connections(plain)
    until(lambda: hasp.log.count("upstream_up") == 2, "hasp to log in with the new password")
    assert runs(tmp_path) == 2 and hasp.log.count("password_renewed") == 1
    assert "WRONGPASS" in hasp.log and "secret" not in hasp.log and "changed" not in hasp.log
    until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready")


@covers("password_command_interval")
def test_password_command_interval_keeps_the_password_ready_for_the_next_login(with_login, command, tmp_path):
    hasp, plain = with_login(command, "password_command_interval = 1s")
    hasp.is_up()
    plain.config_set("requirepass", "new")
    (tmp_path / "password").write_text("new")
    until(lambda: "password_renewed" in hasp.log, "the new password")
    before = runs(tmp_path)
    until(lambda: runs(tmp_path) > before + 1, "two more runs")
    assert hasp.log.count("upstream_up") == 1  # hasp's connections stayed open
    end_own_connections(plain)
    until(lambda: hasp.log.count("upstream_up") == 2, "hasp to log in again")
    assert "WRONGPASS" not in hasp.log and hasp.log.count("password_renewed") == 1


def test_clients_are_served_while_the_password_command_runs(with_login, tmp_path):
    (tmp_path / "command").write_text("cd $(dirname $0); if [ -e loaded ]; then touch busy; until [ -e go ]; do sleep .1;"
                                      " done; fi; touch loaded; echo secret")
    hasp, _ = with_login(f"password_command = sh {tmp_path}/command", "password_command_interval = 1s")
    with login(hasp) as one:
        until((tmp_path / "busy").exists, "the command to run")
        assert one.call("SET", "k", "v") == OK
        assert "password_command_failed" not in hasp.log  # the command still runs
        (tmp_path / "go").touch()


@covers("password_command_failed")
def test_password_command_that_fails_later_leaves_the_password_and_is_logged_once(with_login, command, tmp_path):
    hasp, plain = with_login(command, "password_command_interval = 1s")
    hasp.is_up()
    (tmp_path / "password").unlink()
    before = runs(tmp_path)
    until(lambda: runs(tmp_path) > before + 2, "three runs")
    assert hasp.log.count("password_command_failed") == 1
    assert 'kept="the old password" reason="failed with exit status 1; see what it printed to standard error"' in hasp.log
    end_own_connections(plain)
    until(lambda: hasp.log.count("upstream_up") == 2, "hasp to log in with the old password")


@pytest.mark.parametrize("command, fault", [
    ("echo oops >&2; exit 3", "failed with exit status 3; see what it printed to standard error"),
    ("true", "has an empty first line; expected a password there"),
    ("kill -9 $$", "was killed by signal 9"),
    ("head -c 70000 /dev/zero", "printed more than 65536 bytes; expected a password in the first line"),
])
def test_hasp_does_not_start_if_the_password_command_fails(tmp_path, command, fault):
    path = tmp_path / "hasp.ini"
    path.write_text(f"[upstream]\npassword_command = {command}\n")
    result = run("-c", path)
    assert result.returncode == 1
    assert f"{path}:2: '{command.split(';', maxsplit=1)[0].strip()}" in result.stderr and fault in result.stderr
    assert ("oops\n" in result.stderr) == ("oops" in command)
