# SPDX-License-Identifier: BSD-3-Clause
"""SIGHUP: what a reload changes, and what it keeps."""

import re
import signal

import pytest
from harness import RedisServer, encode, until
from harness.marks import BOTH, covers
from harness.replies import FENCE, FULL, NIL, OK, ONE, PONG, QUEUED, ZERO
from harness.sections import rule, verbs
from harness.tls import UNLESS_ENCRYPTED

LOCKS = rule()


def test_reload_brings_new_rules_to_connections_that_are_open(start_hasp):
    hasp = start_hasp()
    with hasp.connect() as one, hasp.connect() as other, hasp.client() as client:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert client.ttl("lock:1") == -1
        hasp.edit("[upstream]", LOCKS + "[upstream]")
        until(lambda: "reloaded rules=1" in hasp.log, "the reload")
        assert until(lambda: one.call("SETNX", "lock:2", "v") == ONE and client.ttl("lock:2") > 0
                     or client.delete("lock:2") and False, "the rule")
        assert other.call("DEL", "lock:2") == ZERO


def test_reload_takes_rules_away(start_hasp):
    hasp = start_hasp(LOCKS)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert other.call("DEL", "lock:1") == ZERO
        hasp.edit("lock:*", "other:*")
        until(lambda: other.call("DEL", "lock:1") == ONE, "the rule to go")


@pytest.mark.parametrize("fault", ["pattern = lock:*\npattern = b:*", "patern = lock:*", "pattern = "])
def test_reload_of_a_faulty_file_keeps_the_old_rules(start_hasp, fault):
    hasp = start_hasp(LOCKS)
    hasp.edit("pattern = lock:*", fault)
    until(lambda: "reload_failed kept=" in hasp.log, "the reload to fail")
    assert re.search(rf"error {hasp.config_file}:\d+: ", hasp.log)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert other.call("DEL", "lock:1") == ZERO


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_reload_of_a_half_written_file_keeps_the_old_rules(start_hasp, share):
    hasp = start_hasp(LOCKS)
    text = hasp.config_file.read_text().rstrip("\n")
    hasp.config_file.write_text(text[:int(share * len(text))].rstrip("\n"))
    hasp.signal(signal.SIGHUP)
    until(lambda: "reload_failed kept=" in hasp.log, "the reload to fail")
    assert "may be half written" in hasp.log
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert other.call("DEL", "lock:1") == ZERO


def test_reload_after_the_file_is_gone_keeps_the_old_rules(start_hasp):
    hasp = start_hasp(LOCKS)
    hasp.config_file.rename(hasp.dir / "gone")
    hasp.signal(signal.SIGHUP)
    until(lambda: "reload_failed kept=" in hasp.log, "the reload to fail")
    (hasp.dir / "gone").rename(hasp.config_file)
    with hasp.connect() as one:
        assert one.call("PING") == PONG


@covers("log_open_failed", "reload_failed")
def test_reload_to_a_log_that_cannot_be_opened_keeps_everything_old(start_hasp, tmp_path):
    hasp = start_hasp(LOCKS)
    hasp.edit("[upstream]", f"log = {tmp_path}/nowhere/hasp.log\nlog_level = debug\n[upstream]")
    until(lambda: "reload_failed kept=" in hasp.log, "the reload to fail")
    hasp.edit("lock:*", "other:*")
    until(lambda: hasp.log.count("reload_failed kept=") >= 2, "the second reload to fail")
    assert f"log_open_failed path={tmp_path}/nowhere/hasp.log reason=" in hasp.log and "reloaded" not in hasp.log
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert other.call("DEL", "lock:1") == ZERO
    hasp.edit(f"log = {tmp_path}/nowhere/hasp.log\n", "")
    until(lambda: "reloaded" in hasp.log, "the reload")


@covers("reload_failed", "upgrade_failed")
def test_reload_and_upgrade_fail_if_the_file_was_a_pipe(start_hasp):
    hasp = start_hasp(LOCKS)
    hasp.kill()
    hasp.log_file.write_text("")
    hasp.spawn("bash", "-c", f"exec '{hasp.binary}' -c <(cat '{hasp.config_file}')")
    until(lambda: hasp.ready, "hasp to start")
    hasp.signal(signal.SIGHUP)
    until(lambda: "reload" in hasp.log, "the reload")
    hasp.signal(signal.SIGUSR2)
    until(lambda: "upgrade_failed" in hasp.log, "the upgrade to fail")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert other.call("DEL", "lock:1") == ZERO


@covers("log", "reload_failed")
@pytest.mark.parametrize("fault", ["patern = lock:*", "owner = value"])
def test_reload_that_fails_opens_a_log_that_was_moved_away(start_hasp, tmp_path, fault):
    log = tmp_path / "hasp.log"
    hasp = start_hasp(LOCKS)
    hasp.edit("[upstream]", f"log = {log}\n[upstream]")
    until(lambda: log.exists() and "event=reloaded" in log.read_text(), "the reload")
    log.rename(tmp_path / "moved")
    hasp.edit("pattern = lock:*", f"pattern = lock:*\n{fault}")
    until(lambda: log.exists() and "event=reload_failed" in log.read_text(), "the reload to fail")
    assert "reload_failed" not in (tmp_path / "moved").read_text()


@covers("restart_needed")
def test_reload_warns_of_what_needs_a_restart_until_there_is_one(start_hasp):
    hasp = start_hasp()
    for n in (1, 2):
        hasp.edit("[upstream]", "workers = 2\n[upstream]" if n == 1 else "[upstream]\n")
        until(lambda: hasp.log.count("reloaded") >= n, "the reload")
        warnings = [line for line in hasp.log.splitlines() if "restart_needed" in line]
        assert len(warnings) == n and "workers" in warnings[-1]


def refuse(hasp, old, new, reason):
    """Replaces a part of hasp's file, and sends SIGHUP. Fails unless hasp refuses the reload."""
    hasp.edit(old, new)
    until(lambda: "reloaded" in hasp.log or "reload_failed" in hasp.log, "the reload")
    hasp.take_turn()
    assert f"reason=\"{reason}; clients may have such locks: stop hasp before the change\"" in hasp.log


@covers("owner", "reload_failed")
@pytest.mark.parametrize("before, after", [("value", "connection"), ("connection", "value"), ("connection", "address")])
def test_reload_with_another_owner_is_refused_and_a_held_lock_keeps_its_owner(start_hasp, before, after):
    hasp = start_hasp(rule(owner=before))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:1", "one", "NX", "PX", 60000) == OK
        refuse(hasp, f"owner = {before}", f"owner = {after}",
               f"'owner' of keys like lock:*: {before} in [lock locks] -> {after} in [lock locks]")
        assert other.call("DEL", "lock:1") == ZERO
        assert other.call("SET", "lock:1", "other", "NX", "PX", 60000) == NIL
        assert one.call("DEL", "lock:1") == ONE
        hasp.reload(f"owner = {after}", f"owner = {before}\nwait = 1s")


@covers("owner", "pattern")
def test_reload_that_moves_keys_to_a_section_with_another_owner_is_refused(start_hasp):
    hasp = start_hasp(rule(owner="value"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:a1", "one") == ONE
        refuse(hasp, "[lock locks]", rule("some", pattern="lock:a*", owner="user") + "[lock locks]",
               "'owner' of keys like lock:a*: value in [lock locks] -> user in [lock some]")
        assert other.call("DEL", "lock:a1") == ZERO
        assert one.call("DEL", "lock:a1") == ONE


@covers("owner")
def test_reload_with_another_owner_of_verbs_is_refused_and_the_owner_can_unlock(start_hasp):
    hasp = start_hasp(verbs(owner="connection"))
    with hasp.connect() as one:
        assert one.call("LOCK", "k") == FENCE
        refuse(hasp, "owner = connection", "owner = address", "'owner' in [verbs]: connection -> address")
        assert one.call("UNLOCK", "k") == ONE


@covers("owner", "mode")
def test_reload_may_set_another_owner_when_it_enforces_a_section_that_observed(start_hasp):
    hasp = start_hasp(rule(owner="connection", mode="observe"))
    hasp.reload("owner = connection\nmode = observe", "owner = value\nmode = enforce")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "one") == ONE
        assert other.call("GET", "lock:1") == b"$3\r\none\r\n"
        assert other.call("DEL", "lock:1") == ONE


FIRST, SECOND = b"$5\r\nfirst\r\n", b"$6\r\nsecond\r\n"


@pytest.fixture
def second(redis_server):
    """Yields another Redis. The key `who` tells the two servers apart."""
    with RedisServer() as server:
        server.client().set("who", "second")
        redis_server.client().set("who", "first")
        yield server


def move(hasp, old, new):
    """Moves hasp from one Redis to another by a reload."""
    ups = until(lambda: hasp.log.count("upstream_up"), "hasp's own connection")
    hasp.edit(str(old.unix), str(new.unix))
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
def test_reload_moves_those_with_a_link_of_their_own(start_hasp, redis_server, second):
    hasp = start_hasp()
    second.client(db=1).set("who", "second")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("MULTI") == OK and one.call("DISCARD") == OK
        assert other.call("SELECT", "1") == OK
        move(hasp, redis_server, second)
        assert one.call("GET", "who") == other.call("GET", "who") == SECOND


@BOTH
def test_reload_lets_a_transaction_end_where_it_began(start_hasp, redis_server, second):
    hasp = start_hasp()
    with hasp.connect() as one:
        assert one.call("WATCH", "who") == OK and one.call("MULTI") == OK
        move(hasp, redis_server, second)
        assert one.call("GET", "who") == QUEUED and one.call("EXEC") == b"*1\r\n" + FIRST
        assert one.call("GET", "who") == SECOND


@BOTH
@pytest.mark.parametrize("command", [("SUBSCRIBE", "c"), ("MONITOR",), ("BLPOP", "none", "0"), ("READONLY",)])
def test_reload_closes_those_who_would_stay_for_ever(start_hasp, redis_server, second, command):
    hasp = start_hasp(LOCKS).is_up()
    with hasp.connect() as one:
        one.send(encode(*command))
        if command[0] != "BLPOP":
            one.read()
        hasp.take_turn()
        move(hasp, redis_server, second)
        assert b"who" not in one.file.read()


@UNLESS_ENCRYPTED
def test_reload_changes_limits(start_hasp):
    hasp = start_hasp(max_clients=1)
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        with hasp.connect() as other:
            assert other.file.read() == FULL
        hasp.edit("max_clients = 1", "max_clients = 2")

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
