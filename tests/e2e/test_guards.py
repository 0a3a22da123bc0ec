# SPDX-License-Identifier: BSD-3-Clause
"""[guard NAME]: a client that reads a guarded key and writes it later overwrites no other write.

A guard is a key in Redis; its waiters are in its queue.
"""

import signal

import pytest
from harness import Connection, encode, until
from harness.enforced import totals
from harness.guards import GUARD, KEY, QUEUE, guard, held, is_locked, is_lost, named, stands, transact
from harness.info import is_ready
from harness.marks import covers
from harness.replies import NIL, OK, ONE, QUEUED, WRONGTYPE, ZERO, bulk


def test_reader_is_alone_until_it_has_written(share_hasp, plain):
    hasp = share_hasp(guard())
    plain.set(KEY, 5)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", KEY) == bulk("5")
        stands(plain, other, "GET", KEY)
        assert one.call("SET", KEY, 6) == OK
        assert other.read() == bulk("6")
        assert other.call("SET", KEY, 7) == OK
    assert plain.keys() == [KEY]


def test_refused_read_counts_for_the_guard_that_refused_it(start_hasp):
    other = "[guard other]\npattern = other:*\nacquire_on = MGET\nwait = 0\n"
    hasp = start_hasp(guard(wait=0) + "\n" + other)
    with hasp.connect() as one, hasp.connect() as two:
        assert one.call("GET", KEY) == NIL
        assert is_locked(two.call("MGET", "other:1", KEY))
        assert [totals(hasp, f"guard={name}")["refused"] for name in ("other", "stock")] == [0, 1]


def test_writer_that_was_paused_past_its_lease_is_refused(clients, plain):
    one, other = clients(2, guard(lease="3s"))
    assert one.call("GET", KEY) == NIL
    until(lambda: not plain.exists(GUARD), "the lease to end")
    assert other.call("GET", KEY) == NIL
    assert other.call("SET", KEY, "other") == OK
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"
    # After the error, the client reads again and may write.
    assert one.call("GET", KEY) == bulk("other")
    assert one.call("SET", KEY, "one") == OK


def test_writer_is_refused_also_when_nobody_else_wrote(clients, plain):
    """hasp refuses a write after the lease, without checking whether another client wrote."""
    one, = clients(1, guard(lease="2s"))
    assert one.call("GET", KEY) == NIL
    until(lambda: not plain.exists(GUARD), "the lease to end")
    assert is_lost(one.call("SET", KEY, 1))
    assert one.call("SET", KEY, 1) == OK  # the client has read nothing since the error


def test_reading_again_refreshes(clients, plain):
    one, = clients(1, guard(lease="60s"))
    one.call("GET", KEY)
    plain.pexpire(GUARD, 1000)
    one.call("GET", KEY)
    assert plain.pttl(GUARD) > 50_000


def test_blind_write_waits_for_the_reader(share_hasp, plain):
    hasp = share_hasp(guard())
    with hasp.connect() as one, hasp.connect() as blind:
        assert one.call("GET", KEY) == NIL
        stands(plain, blind, "SET", KEY, "blind")
        assert one.call("SET", KEY, "one") == OK
        assert blind.read() == OK
        assert plain.get(KEY) == "blind"
        assert blind.call("SET", KEY, "again") == OK
    assert plain.keys() == [KEY]


def test_newcomer_stays_behind_the_waiters_when_a_lease_ended(start_hasp, plain):
    hasp, elsewhere = start_hasp(guard(wait="60s", lease="60s")), start_hasp(guard(wait="60s"))
    with hasp.connect() as one, hasp.connect() as waiter, elsewhere.connect() as newcomer:
        assert one.call("GET", KEY) == NIL
        stands(plain, waiter, "GET", KEY)
        hasp.freeze()
        plain.delete(GUARD)
        newcomer.send(encode("GET", KEY))
        # The newcomer finds the guard free, but the waiter comes first.
        until(lambda: plain.zcard(QUEUE) == 2, "the newcomer to enter the queue")
        hasp.signal(signal.SIGCONT)
        assert waiter.read() == NIL
        assert waiter.call("SET", KEY, 1) == OK
        assert newcomer.read() == bulk("1")
        assert newcomer.call("SET", KEY, 2) == OK
    assert plain.keys() == [KEY]


def test_reply_to_a_read_that_waited_is_the_one_behind_the_guard(share_hasp, plain):
    """The client gets the value as it was when it got the guard."""
    hasp = share_hasp(guard())
    plain.set(KEY, "x" * 1_000_000)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", KEY) == bulk("x" * 1_000_000)
        stands(plain, other, "GET", KEY)
        other.send(encode("PING"))
        assert one.call("SET", KEY, "new") == OK
        assert other.read() == bulk("new") and other.read() == b"+PONG\r\n"


@pytest.mark.parametrize("command", [("GET", KEY), ("SET", KEY, 1), ("ZSCORE", KEY, "m")])
def test_wait_that_is_too_long_is_an_error_and_nothing_is_run(clients, plain, command):
    one, other = clients(2, guard(wait="50ms"))
    assert one.call("GET", KEY) == NIL
    assert is_locked(other.call(*command))
    assert one.call("SET", KEY, "one") == OK
    assert other.call("GET", KEY) == bulk("one")


@pytest.mark.parametrize("command", [("GET", KEY), ("SET", KEY, 1)])
def test_nobody_waits_with_wait_0(clients, plain, command):
    one, other = clients(2, guard(wait="0"))
    one.call("GET", KEY)
    assert is_locked(other.call(*command))
    assert not plain.exists(f"hasp:queue:{GUARD}:")


def test_hanging_up_frees_the_guard_at_once(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.call("GET", KEY)
            stands(plain, other, "GET", KEY)
        assert other.read() == NIL
    until(lambda: not plain.exists(GUARD), "the guard to be released")


def test_guard_outlives_its_connection_when_told_to(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s", on_disconnect="expire", wait="0"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.call("GET", KEY)
        assert is_locked(other.call("GET", KEY))


def test_waiter_that_hangs_up_leaves_the_line(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s"))
    with hasp.connect() as one, hasp.connect() as third:
        one.call("GET", KEY)
        with hasp.connect() as other:
            stands(plain, other, "GET", KEY)
        until(lambda: not plain.exists(QUEUE), "the waiter to leave the queue")
        stands(plain, third, "GET", KEY)
        assert one.call("SET", KEY, 1) == OK
        assert third.read() == bulk("1")


def test_error_of_the_command_keeps_the_readers_guard(share_hasp, plain):
    hasp = share_hasp(guard())
    plain.set(KEY, "text")
    with hasp.connect() as one:
        assert one.call("GET", KEY) == bulk("text")
        assert one.call("LPUSH", KEY, 1) == WRONGTYPE
        assert plain.exists(GUARD)
        assert one.call("SET", KEY, 1) == OK
        assert not plain.exists(GUARD)


def test_read_that_fails_takes_no_guard(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s"))
    plain.lpush(KEY, 1)
    with hasp.connect() as one:
        assert one.call("GET", KEY).startswith(b"-WRONGTYPE")
        until(lambda: not plain.exists(GUARD), "the guard to be released")


@pytest.mark.parametrize("flushed", [False, True])
def test_client_caching_speaks_of_the_guarded_read_behind_it(start_hasp, plain, flushed):
    """CLIENT CACHING applies to the guarded read after it, not to hasp's own commands between."""
    hasp = is_ready(start_hasp(guard()), plain)
    plain.set(KEY, 1)
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call("CLIENT", "TRACKING", "ON", "OPTIN") == OK
        assert one.call("CLIENT", "CACHING", "YES") == OK
        if flushed:
            plain.script_flush()
        assert one.call("GET", KEY) == bulk("1")
        plain.set(KEY, 2)
        assert KEY.encode() in one.read()


@covers("release_on")
def test_write_that_does_not_release_keeps_the_guard(clients, plain):
    one, = clients(1, guard(release_on="HSET"))
    one.call("HGETALL", KEY)
    assert one.call("HDEL", KEY, "f") == ZERO
    assert plain.exists(GUARD)
    assert one.call("HSET", KEY, "f", 1) == ONE
    assert not plain.exists(GUARD)


def test_keys_of_several_are_taken_together(share_hasp, plain):
    hasp = share_hasp(guard(wait="50ms"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("GET", "stock:2")
        assert is_locked(other.call("MGET", "stock:3", "stock:2", "free", "stock:1"), "stock:2")
        until(lambda: plain.keys("hasp:guard:*") == ["hasp:guard:{stock:2}"], "the other guards to be released")
        with hasp.connect() as third:
            assert is_locked(third.call("MSET", "stock:1", 1, "free", 1, "stock:2", 1), "stock:2")
        until(lambda: plain.keys() == ["hasp:guard:{stock:2}"], "the other guards to be released")
        one.call("SET", "stock:2", "b")
        assert other.call("MGET", "stock:3", "stock:2", "free", "stock:3") == (
            b"*4\r\n$-1\r\n$1\r\nb\r\n$-1\r\n$-1\r\n")
        assert sorted(plain.keys("hasp:guard:*")) == ["hasp:guard:{stock:2}", "hasp:guard:{stock:3}"]
        assert other.call("MSET", "stock:2", 1, "stock:3", 1) == OK
        assert plain.keys("hasp:guard:*") == []


def test_command_that_waits_for_several_guards_gets_them_all(share_hasp, plain):
    hasp = share_hasp(guard())
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


def test_lost_key_among_several_is_named(clients, plain):
    one, = clients(1, guard())
    one.call("MGET", "stock:1", "stock:2")
    plain.delete("hasp:guard:{stock:2}")
    assert is_lost(one.call("MSET", "stock:1", 1, "stock:2", 2), "stock:2")
    assert plain.exists("stock:1", "stock:2") == 0
    assert one.call("MSET", "stock:1", 1, "stock:2", 2) == OK


def test_reply_that_lua_cannot_hold_is_redis_own(share_hasp, plain):
    hasp = share_hasp(guard())
    plain.zadd(KEY, {"m": 1.5})
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("HELLO", 3)[:1] == b"%"
        assert one.call("ZSCORE", KEY, "m") == b",1.5\r\n"
        stands(plain, other, "ZSCORE", KEY, "m")
        assert one.call("ZREM", KEY, "m") == ONE
        assert other.read() == NIL


def test_pipelined_commands_come_in_order(clients, plain):
    one, = clients(1, guard())
    one.send(b"".join(encode(*c) for c in [
        ("GET", KEY), ("SET", KEY, 1), ("PING",), ("GET", KEY), ("GET", "other"), ("SET", KEY, 2),
        ("GET", KEY)]))
    expected = [NIL, OK, b"+PONG\r\n", bulk("1"), NIL, OK, bulk("2")]
    assert [one.read() for _ in expected] == expected


def test_missing_scripts_are_made_good(clients, plain):
    one, other = clients(2, guard())
    plain.script_flush()
    one.call("GET", KEY)
    stands(plain, other, "GET", KEY)
    plain.script_flush()
    assert one.call("SET", KEY, 1) == OK
    assert other.read() == bulk("1")


def test_connections_of_one_name_are_guarded_from_each_other(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s"))
    with named(hasp, "app") as one, named(hasp, "app") as two:
        assert one.call("GET", KEY) == NIL
        stands(plain, two, "SET", KEY, 2)


def test_rules_keys_are_not_guarded(clients, plain):
    one, other = clients(2, "[lock l]\npattern = stock:lock\n" + guard())
    assert one.call("GET", "stock:lock") == NIL
    assert other.call("SET", "stock:lock", 1, "NX") == OK
    assert not plain.exists("hasp:guard:{stock:lock}")
    assert other.call("MSET", "stock:lock", 1, "stock:1", 1).startswith(b"-ERR hasp: ")


def test_client_that_hangs_up_while_its_read_is_under_way_leaves_no_guard(start_hasp, plain, redis_server):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as one:
        one.call("GET", "stock:2")
        one.call("SET", "stock:2", 2)
        before = plain.info("commandstats")["cmdstat_set"]["calls"]
        redis_server.signal(signal.SIGSTOP)
        one.send(encode("GET", KEY))
    redis_server.signal(signal.SIGCONT)
    until(lambda: plain.info("commandstats")["cmdstat_set"]["calls"] > before, "the guard to be taken")
    until(lambda: not plain.exists(GUARD), "the guard to be released")


def test_other_databases_keys_are_others(clients, plain):
    one, other = clients(2, guard(wait="0"))
    one.call("GET", KEY)
    other.call("SELECT", 1)
    assert other.call("SET", KEY, 1) == OK


@pytest.mark.parametrize("which, how", [("name", ("CLIENT", "SETNAME", "reporting-1")),
                                        ("user", ("AUTH", "reporting-1", "pw"))])
def test_exempt_readers_take_no_guard(share_hasp, plain, which, how):
    hasp = share_hasp(guard(**{"except": f"{which}:reporting-*"}, wait="0"))
    plain.execute_command("ACL", "SETUSER", "reporting-1", "on", ">pw", "~*", "+@all", "&*")
    with hasp.connect() as report, hasp.connect() as one:
        assert report.call(*how) == OK
        assert report.call("GET", KEY) == NIL
        assert not plain.exists(GUARD)
        assert one.call("GET", KEY) == NIL
        assert report.call("GET", KEY) == NIL
        assert is_locked(report.call("SET", KEY, 1))
        assert one.call("SET", KEY, 1) == OK


@covers("except")
def test_listener_of_readers_takes_no_guard(share_hasp, plain, tmp_path):
    reports = f"unix:{tmp_path}/reports"
    hasp = share_hasp(guard(**{"except": f"listener:{reports}"}, wait="0"),
                      listen=f"127.0.0.1:0 {reports}")
    with Connection(f"{tmp_path}/reports") as report, hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        assert report.call("GET", KEY) == NIL
        assert is_locked(report.call("SET", KEY, 1))
        assert one.call("SET", KEY, 1) == OK


# --- commands that hasp's scripts cannot run ---


UNUSUAL = [
    ("INCR", KEY), ("HINCRBY", KEY, "f", 1), ("LPOP", KEY, 3), ("SPOP", KEY), ("ZADD", KEY, "INCR", 1, "m"),
    ("EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", 1, KEY, "x"), ("BITFIELD", KEY, "INCRBY", "i64", 0, 1),
]


@pytest.mark.parametrize("command", UNUSUAL)
def test_unusual_write_waits_for_the_reader(share_hasp, plain, command):
    hasp = share_hasp(guard())
    with held(hasp) as one, hasp.connect() as blind:
        stands(plain, blind, *command)
        assert one.call("DEL", KEY) == ZERO
        assert not blind.read().startswith(b"-")
        assert blind.call("PING") == b"+PONG\r\n"
    until(lambda: plain.keys("hasp:*") == [], "the guard to be released")


@pytest.mark.parametrize("command", UNUSUAL)
def test_unusual_write_is_refused_when_the_guard_is_lost(share_hasp, plain, command):
    hasp = share_hasp(guard())
    with held(hasp) as one:
        plain.delete(GUARD)
        assert is_lost(one.call(*command))
        assert plain.keys() == []
        assert not one.call(*command).startswith(b"-")


def test_unusual_write_releases(share_hasp, plain):
    hasp = share_hasp(guard())
    with held(hasp) as one, hasp.connect() as other:
        stands(plain, other, "GET", KEY)
        assert one.call("INCRBY", KEY, 9007199254740993) == b":9007199254740993\r\n"
        assert other.read() == bulk("9007199254740993")
        assert plain.exists(GUARD)


def test_script_of_the_application_keeps_the_guard(share_hasp, plain):
    """hasp cannot know whether the script has written the key."""
    hasp = share_hasp(guard())
    with held(hasp) as one:
        assert one.call("EVAL", "return redis.call('GET', KEYS[1])", 1, KEY) == NIL
        assert plain.exists(GUARD)


def test_error_of_an_unusual_write_is_its_own(share_hasp, plain):
    hasp = share_hasp(guard())
    with held(hasp) as one:
        assert one.call("INCR", KEY) == ONE
        assert one.call("INCR", KEY, "x") == b"-ERR wrong number of arguments for 'incr' command\r\n"
        plain.lpush("stock:list", 1)
        assert one.call("INCR", "stock:list") == WRONGTYPE
        assert one.call("BITFIELD", KEY, "NONSENSE") == b"-ERR syntax error\r\n"
        assert one.call("LPOP", "stock:none", 1) == b"*-1\r\n"


# --- MULTI ---

def test_transaction_is_fenced_as_a_whole(clients, plain):
    one, = clients(1, guard())
    one.call("MGET", KEY, "stock:2")
    assert transact(one, ("SET", KEY, 1), ("SET", "other", 1), ("SET", "stock:2", 1)) == [
        OK, QUEUED, QUEUED, QUEUED, b"*3\r\n" + 3 * OK]
    until(lambda: plain.keys("hasp:*") == [], "both guards to be released")
    one.call("MGET", KEY, "stock:2")
    plain.delete("hasp:guard:{stock:2}")
    assert is_lost(transact(one, ("SET", KEY, 2), ("SET", "other", 2), ("SET", "stock:2", 2))[-1], "stock:2")
    assert plain.mget(KEY, "other", "stock:2") == ["1", "1", "1"]
    assert one.call("GET", "other") == bulk("1")


def test_blind_transaction_waits_for_the_reader(share_hasp, plain):
    hasp = share_hasp(guard())
    with held(hasp) as one, hasp.connect() as blind:
        blind.send(b"".join(encode(*c) for c in [
            ("MULTI",), ("SET", KEY, "blind"), ("INCR", "n"), ("EXEC",), ("PING",)]))
        until(lambda: plain.zcard(QUEUE) == 1, "the transaction to enter the queue")
        assert not plain.exists("n")
        assert one.call("SET", KEY, "one") == OK
        expected = [OK, QUEUED, QUEUED, b"*2\r\n+OK\r\n:1\r\n", b"+PONG\r\n"]
        assert [blind.read() for _ in expected] == expected
        assert plain.get(KEY) == "blind"
    until(lambda: plain.keys("hasp:*") == [], "the guard to be released")


def test_transaction_that_waits_too_long_is_not_carried_out(share_hasp, plain):
    hasp = share_hasp(guard(wait="50ms"))
    with held(hasp) as one, hasp.connect() as blind:
        assert is_locked(transact(blind, ("SET", "other", 1), ("SET", KEY, 1))[-1])
        assert plain.keys("other") == []
        assert transact(blind, ("SET", "other", 1))[-1] == b"*1\r\n+OK\r\n"
        assert one.call("SET", KEY, 1) == OK


def test_reading_in_a_transaction_takes_the_guard(clients, plain):
    one, other = clients(2, guard())
    assert transact(one, ("GET", KEY), ("GET", "stock:2"))[-1] == b"*2\r\n" + 2 * NIL
    stands(plain, other, "GET", KEY)
    assert one.call("SET", KEY, 1) == OK
    assert other.read() == bulk("1")
    plain.delete("hasp:guard:{stock:2}")
    assert is_lost(one.call("SET", "stock:2", 1), "stock:2")


def test_transaction_without_guarded_keys_has_nobody_listen(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        assert transact(one, ("SET", "other", 1))[-1] == b"*1\r\n+OK\r\n"
        assert plain.pubsub_channels() == []
        assert transact(one, ("SET", KEY, 1))[-1] == b"*1\r\n+OK\r\n"
        assert len(plain.pubsub_channels()) == 1


def test_command_refused_in_a_transaction_aborts_it(share_hasp, plain):
    hasp = share_hasp(guard())
    with held(hasp) as one:
        replies = transact(one, ("SET", KEY, 1), ("NOSUCH",))
        assert replies[2].startswith(b"-ERR unknown command")
        assert replies[-1] == b"-EXECABORT Transaction discarded because of previous errors.\r\n"
        assert not plain.exists(KEY)
        assert one.call("SET", KEY, 1) == OK


def test_discarded_transaction_keeps_the_guard(share_hasp, plain):
    hasp = share_hasp(guard())
    with held(hasp) as one:
        assert [one.call(*c) for c in (("MULTI",), ("SET", KEY, 1), ("DISCARD",))] == [OK, QUEUED, OK]
        assert plain.exists(GUARD)
        assert one.call("SET", KEY, 1) == OK


def test_application_that_watches_is_fenced_too(clients, plain):
    one, = clients(1, guard())
    def begin():
        assert one.call("WATCH", KEY) == OK
        one.call("GET", KEY)

    begin()
    assert transact(one, ("SET", KEY, 1))[-1] == b"*1\r\n+OK\r\n"
    until(lambda: plain.keys("hasp:*") == [], "the guard to be released")
    begin()
    plain.delete(GUARD)
    assert transact(one, ("SET", KEY, 2))[-1].startswith(b"-LOCKLOST ")
    assert plain.get(KEY) == "1"
    begin()
    assert one.call("MULTI") == OK
    plain.delete(GUARD)
    assert one.call("SET", KEY, 2) == QUEUED
    assert one.call("EXEC") == b"*-1\r\n"
    begin()
    plain.set(KEY, "past")  # a write directly in Redis
    assert transact(one, ("SET", KEY, 2))[-1] == b"*-1\r\n"
    assert plain.get(KEY) == "past"
    assert one.call("WATCH", KEY) == OK
    assert transact(one, ("SET", "stock:9", 2))[-1].startswith(b"-LOCKED ")
    assert not plain.exists("stock:9")
    assert transact(one, ("SET", KEY, 3))[-1] == b"*1\r\n+OK\r\n"


def test_missing_scripts_are_made_good_in_transactions(share_hasp, plain):
    hasp = share_hasp(guard())
    with hasp.connect() as one:
        for act in (lambda: transact(one, ("GET", KEY))[-1], lambda: transact(one, ("SET", KEY, 1))[-1],
                    lambda: one.call("INCR", KEY)):
            plain.script_flush()
            assert not act().startswith(b"-")
    assert plain.get(KEY) == "2"


def test_transaction_behind_select_is_refused(clients, plain):
    one, = clients(1, guard())
    assert transact(one, ("SELECT", 1), ("SET", KEY, 1))[-1].startswith(b"-ERR hasp: ")
    assert one.call("GET", KEY) == NIL


@covers("acquire_on")
def test_store_frees_only_what_it_wrote(clients, plain):
    one, = clients(1, guard(acquire_on="SMEMBERS"))
    one.call("SMEMBERS", "stock:1")
    one.call("SMEMBERS", "stock:2")
    one.call("SUNIONSTORE", "stock:2", "stock:1")
    assert plain.keys("hasp:*") == [GUARD]
