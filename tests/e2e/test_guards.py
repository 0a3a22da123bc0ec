# SPDX-License-Identifier: BSD-3-Clause
"""[guard NAME]: whoever reads a guarded key and writes it later overwrites nobody.

A guard is a key in Redis; who waits for it is seen in its queue.
"""

import signal

import pytest
from harness import Connection, encode, until
from harness.line import stand

KEY, GUARD, QUEUE = "stock:1", "hasp:guard:{stock:1}", "hasp:queue:hasp:guard:{stock:1}:"
OK, ONE, ZERO, NIL = b"+OK\r\n", b":1\r\n", b":0\r\n", b"$-1\r\n"
BOTH = pytest.mark.parametrize("pooling", ["shared", "session"])
OWNERS = pytest.mark.parametrize("owner", ["connection", "address", "name", "user"])


def guard(**settings):
    settings = {"pattern": "stock:*", "acquire_on": "GET, HGETALL, MGET, ZSCORE, HGET", **settings}
    return "\n".join(["[guard stock]", *(f"{option} = {value}" for option, value in settings.items()), ""])


def bulk(text):
    return f"${len(text)}\r\n{text}\r\n".encode()


@pytest.fixture
def plain(redis_server):
    """Goes past hasp."""
    with redis_server.client() as client:
        yield client


def stands(plain, connection, *command, guard=GUARD):
    """Sends it, and returns when it stands in line for the guard."""
    stand(plain, connection, *command, queue=f"hasp:queue:{guard}:")


def is_locked(reply, key=KEY):
    return reply == f"-LOCKED '{key}' is guarded by another owner\r\n".encode()


def is_lost(reply, key=KEY):
    return reply == (f"-LOCKLOST '{key}' was read under a guard that is over: "
                     "nothing was written\r\n").encode()


@BOTH
def test_reader_is_alone_until_it_has_written(start_hasp, plain):
    hasp = start_hasp(guard())
    plain.set(KEY, 5)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", KEY) == bulk("5")
        stands(plain, other, "GET", KEY)
        assert one.call("SET", KEY, 6) == OK
        assert other.read() == bulk("6")
        assert other.call("SET", KEY, 7) == OK
    assert plain.keys() == [KEY]


@BOTH
def test_writer_that_was_paused_past_its_lease_is_refused(start_hasp, plain):
    hasp = start_hasp(guard(lease="100ms"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", KEY) == NIL
        until(lambda: not plain.exists(GUARD), "the lease to end")
        assert other.call("GET", KEY) == NIL
        assert other.call("SET", KEY, "other") == OK
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"
        # It was told; from here on it begins anew.
        assert one.call("GET", KEY) == bulk("other")
        assert one.call("SET", KEY, "one") == OK


def test_writer_is_refused_also_when_nobody_else_wrote(start_hasp, plain):
    """Somebody past its lease cannot know, and hasp need not."""
    hasp = start_hasp(guard(lease="50ms"))
    with hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        until(lambda: not plain.exists(GUARD), "the lease to end")
        assert is_lost(one.call("SET", KEY, 1))
        assert one.call("SET", KEY, 1) == OK  # it has read nothing since it was told


def test_reading_again_refreshes(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as one:
        one.call("GET", KEY)
        plain.pexpire(GUARD, 1000)
        one.call("GET", KEY)
        assert plain.pttl(GUARD) > 50_000


@BOTH
def test_blind_write_waits_for_who_has_read(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one, hasp.connect() as blind:
        assert one.call("GET", KEY) == NIL
        stands(plain, blind, "SET", KEY, "blind")
        assert one.call("SET", KEY, "one") == OK
        assert blind.read() == OK
        assert plain.get(KEY) == "blind"
        assert blind.call("SET", KEY, "again") == OK
    assert plain.keys() == [KEY]


@BOTH
@pytest.mark.parametrize("command", [("GET", KEY), ("SET", KEY, 1), ("ZSCORE", KEY, "m")])
def test_who_waits_too_long_is_told_so_and_nothing_is_run(start_hasp, plain, command):
    hasp = start_hasp(guard(wait="50ms"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", KEY) == NIL
        assert is_locked(other.call(*command))
        assert one.call("SET", KEY, "one") == OK
        assert other.call("GET", KEY) == bulk("one")


@pytest.mark.parametrize("command", [("GET", KEY), ("SET", KEY, 1)])
def test_nobody_waits_with_wait_0(start_hasp, plain, command):
    hasp = start_hasp(guard(wait="0"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("GET", KEY)
        assert is_locked(other.call(*command))
        assert not plain.exists(f"hasp:queue:{GUARD}:")


@BOTH
def test_hanging_up_frees_the_guard_at_once(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.call("GET", KEY)
            stands(plain, other, "GET", KEY)
        assert other.read() == NIL
    until(lambda: not plain.exists(GUARD), "the guard to be released")


def test_guard_outlives_its_connection_when_told_to(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s", on_disconnect="expire", wait="0"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.call("GET", KEY)
        assert is_locked(other.call("GET", KEY))


@BOTH
def test_waiter_that_hangs_up_leaves_the_line(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as one, hasp.connect() as third:
        one.call("GET", KEY)
        with hasp.connect() as other:
            stands(plain, other, "GET", KEY)
        until(lambda: not plain.exists(QUEUE), "it to leave the line")
        stands(plain, third, "GET", KEY)
        assert one.call("SET", KEY, 1) == OK
        assert third.read() == bulk("1")


@BOTH
def test_error_of_the_command_keeps_the_guard_of_who_has_read(start_hasp, plain):
    hasp = start_hasp(guard())
    plain.set(KEY, "text")
    with hasp.connect() as one:
        assert one.call("GET", KEY) == bulk("text")
        assert one.call("LPUSH", KEY, 1) == (
            b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n")
        assert plain.exists(GUARD)
        assert one.call("SET", KEY, 1) == OK
        assert not plain.exists(GUARD)


def test_read_that_fails_takes_no_guard(start_hasp, plain):
    hasp = start_hasp(guard())
    plain.lpush(KEY, 1)
    with hasp.connect() as one:
        assert one.call("GET", KEY).startswith(b"-WRONGTYPE")
        assert not plain.exists(GUARD)


def test_write_that_does_not_release_keeps_the_guard(start_hasp, plain):
    hasp = start_hasp(guard(release_on="HSET"))
    with hasp.connect() as one:
        one.call("HGETALL", KEY)
        assert one.call("HDEL", KEY, "f") == ZERO
        assert plain.exists(GUARD)
        assert one.call("HSET", KEY, "f", 1) == ONE
        assert not plain.exists(GUARD)


def test_keys_of_several_are_taken_together(start_hasp, plain):
    hasp = start_hasp(guard(wait="50ms"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("GET", "stock:2")
        assert is_locked(other.call("MGET", "stock:3", "stock:2", "free", "stock:1"), "stock:2")
        until(lambda: plain.keys("hasp:guard:*") == ["hasp:guard:{stock:2}"], "the others to be given back")
        assert is_locked(other.call("MSET", "stock:1", 1, "free", 1, "stock:2", 1), "stock:2")
        until(lambda: plain.keys() == ["hasp:guard:{stock:2}"], "the others to be given back")
        one.call("SET", "stock:2", "b")
        assert other.call("MGET", "stock:3", "stock:2", "free", "stock:3") == (
            b"*4\r\n$-1\r\n$1\r\nb\r\n$-1\r\n$-1\r\n")
        assert sorted(plain.keys("hasp:guard:*")) == ["hasp:guard:{stock:2}", "hasp:guard:{stock:3}"]
        assert other.call("MSET", "stock:2", 1, "stock:3", 1) == OK
        assert plain.keys("hasp:guard:*") == []


@BOTH
def test_who_waits_for_several_gets_them_all(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one, hasp.connect() as two, hasp.connect() as other:
        one.call("GET", "stock:1")
        two.call("GET", "stock:2")
        stands(plain, other, "RENAME", "stock:2", "stock:1")
        one.call("SET", "stock:1", 1)
        until(lambda: plain.zcard("hasp:queue:hasp:guard:{stock:2}:") == 1, "the next wait")
        assert plain.exists(GUARD)
        two.call("SET", "stock:2", 2)
        assert other.read() == OK
        assert plain.get("stock:1") == "2"
    assert plain.keys() == ["stock:1"]


def test_lost_key_among_several_is_named(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        one.call("MGET", "stock:1", "stock:2")
        plain.delete("hasp:guard:{stock:2}")
        assert is_lost(one.call("MSET", "stock:1", 1, "stock:2", 2), "stock:2")
        assert plain.exists("stock:1", "stock:2") == 0
        assert one.call("MSET", "stock:1", 1, "stock:2", 2) == OK


@BOTH
def test_reply_that_lua_cannot_hold_is_redis_own(start_hasp, plain):
    hasp = start_hasp(guard())
    plain.zadd(KEY, {"m": 1.5})
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("HELLO", 3)[:1] == b"%"
        assert one.call("ZSCORE", KEY, "m") == b",1.5\r\n"
        stands(plain, other, "ZSCORE", KEY, "m")
        assert one.call("ZREM", KEY, "m") == ONE
        assert other.read() == NIL


def test_pipelined_commands_come_in_order(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        one.send(b"".join(encode(*c) for c in [
            ("GET", KEY), ("SET", KEY, 1), ("PING",), ("GET", KEY), ("GET", "other"), ("SET", KEY, 2),
            ("GET", KEY)]))
        expected = [NIL, OK, b"+PONG\r\n", bulk("1"), NIL, OK, bulk("2")]
        assert [one.read() for _ in expected] == expected


@BOTH
def test_missing_scripts_are_made_good(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one, hasp.connect() as other:
        plain.script_flush()
        one.call("GET", KEY)
        stands(plain, other, "GET", KEY)
        plain.script_flush()
        assert one.call("SET", KEY, 1) == OK
        assert other.read() == bulk("1")


@OWNERS
def test_connections_of_one_owner_share_the_guard(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, lease="60s"))
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">pw", "~*", "+@all", "&*")
    with hasp.connect() as one, hasp.connect() as two, hasp.connect() as other:
        for connection in (one, two):
            connection.call("CLIENT", "SETNAME", "app")
            connection.call("AUTH", "alice", "pw")
        assert one.call("GET", KEY) == NIL
        if owner == "connection":
            stands(plain, two, "SET", KEY, 2)
            return
        if owner != "address":
            stands(plain, other, "SET", KEY, "other")
        assert two.call("SET", KEY, 2) == OK
        if owner != "address":
            assert other.read() == OK
        assert plain.keys("hasp:*") == []


@pytest.mark.parametrize("owner", ["address", "name", "user"])
def test_write_over_another_connection_is_refused_when_the_guard_was_lost(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner))
    with hasp.connect() as one, hasp.connect() as two:
        for connection in (one, two):
            connection.call("CLIENT", "SETNAME", "app")
        assert one.call("GET", KEY) == NIL
        plain.delete(GUARD)
        plain.set(KEY, "other")
        assert is_lost(two.call("SET", KEY, 2))
        assert two.call("GET", KEY) == bulk("other")
        assert one.call("SET", KEY, 3) == OK


def test_rules_keys_are_not_guarded(start_hasp, plain):
    hasp = start_hasp("[lock l]\npattern = stock:lock\n" + guard())
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", "stock:lock") == NIL
        assert other.call("SET", "stock:lock", 1, "NX") == OK
        assert not plain.exists("hasp:guard:{stock:lock}")
        assert other.call("MSET", "stock:lock", 1, "stock:1", 1).startswith(b"-ERR hasp: ")


def test_who_hangs_up_while_its_read_is_under_way_leaves_no_guard(start_hasp, plain, redis_server):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as one:
        one.call("GET", "stock:2")
        one.call("SET", "stock:2", 2)
        before = plain.info("commandstats")["cmdstat_evalsha"]["calls"]
        redis_server.signal(signal.SIGSTOP)
        one.send(encode("GET", KEY))
    redis_server.signal(signal.SIGCONT)
    until(lambda: plain.info("commandstats")["cmdstat_evalsha"]["calls"] > before + 1, "the release")
    until(lambda: not plain.exists(GUARD), "the guard to be released")


def test_other_databases_keys_are_others(start_hasp, plain):
    hasp = start_hasp(guard(wait="0"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("GET", KEY)
        other.call("SELECT", 1)
        assert other.call("SET", KEY, 1) == OK


@pytest.mark.parametrize("which, how", [("name", ("CLIENT", "SETNAME", "reporting-1")),
                                        ("user", ("AUTH", "reporting-1", "pw"))])
def test_exempt_readers_take_no_guard(start_hasp, plain, which, how):
    hasp = start_hasp(guard(**{"except": f"{which}:reporting-*"}, wait="0"))
    plain.execute_command("ACL", "SETUSER", "reporting-1", "on", ">pw", "~*", "+@all", "&*")
    with hasp.connect() as report, hasp.connect() as one:
        assert report.call(*how) == OK
        assert report.call("GET", KEY) == NIL
        assert not plain.exists(GUARD)
        assert one.call("GET", KEY) == NIL
        assert report.call("GET", KEY) == NIL
        assert is_locked(report.call("SET", KEY, 1))
        assert one.call("SET", KEY, 1) == OK


def test_listener_of_readers_takes_no_guard(start_hasp, plain, tmp_path):
    reports = f"unix:{tmp_path}/reports"
    hasp = start_hasp(guard(**{"except": f"listener:{reports}"}, wait="0"),
                      listen=f"127.0.0.1:0 {reports}")
    with Connection(f"{tmp_path}/reports") as report, hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        assert report.call("GET", KEY) == NIL
        assert is_locked(report.call("SET", KEY, 1))
        assert one.call("SET", KEY, 1) == OK
