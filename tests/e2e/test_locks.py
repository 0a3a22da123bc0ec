# SPDX-License-Identifier: BSD-3-Clause
"""Rules and verbs as two clients see them through hasp.

`one` and `other` are raw connections to hasp, `plain` is a client that goes past
it. What the scripts do in each state of a lock is test_scripts.py's; here it is
that commands get there, whatever the connection around them has been through.
"""

import os
import re
import socket

import pytest

from harness import encode, until

KEY, SIDE = "lock:1", "hasp:owner:{lock:1}"
OK, ONE, ZERO, NIL, QUEUED = b"+OK\r\n", b":1\r\n", b":0\r\n", b"$-1\r\n", b"+QUEUED\r\n"
LOCKED = b"-LOCKED 'lock:1' is held by another owner\r\n"
VERBS = "[verbs]\n"


def rule(name="locks", pattern="lock:*", **settings):
    lines = [f"{option} = {value}" for option, value in settings.items()]
    return "\n".join([f"[lock {name}]", f"pattern = {pattern}", *lines, ""])


BOTH = pytest.mark.parametrize("pooling", ["shared", "session"])


@pytest.fixture
def pooling():
    """What a command becomes does not depend on it; what a connection has been through, BOTH."""
    return "shared"


@pytest.fixture
def pair(start_hasp):
    """pair(sections) starts hasp and opens two connections to it."""
    connections = []

    def start(sections=rule(), **options):
        hasp = start_hasp(sections, **options)
        connections.extend([hasp.connect(), hasp.connect()])
        return connections[-2:]

    yield start
    for connection in connections:
        connection.close()


def bulk(text):
    return b"$%d\r\n%s\r\n" % (len(text), text.encode())


def pipeline(connection, *commands):
    """All sent in one write; the replies."""
    connection.send(b"".join(encode(*command) for command in commands))
    return [connection.read() for _ in commands]


# --- what becomes of each command ------------------------------------------------

TAKES = {
    "SETNX": (("SETNX", KEY, "v"), ONE, ZERO),
    "SET NX": (("SET", KEY, "v", "NX"), OK, NIL),
    "SET NX EX": (("SET", KEY, "v", "NX", "EX", 30), OK, NIL),
    "set px nx": (("set", KEY, "v", "px", 30000, "nx"), OK, NIL),
    "SET EXAT NX": (("SET", KEY, "v", "EXAT", 4102444800, "NX"), OK, NIL),
    "SET NX GET": (("SET", KEY, "v", "NX", "GET"), NIL, bulk("v")),
    "INCR": (("INCR", KEY), ONE, b":2\r\n"),
    "SET": (("SET", KEY, "v"), OK, LOCKED),
    "SET EX": (("SET", KEY, "v", "EX", 30), OK, LOCKED),
    "SETEX": (("SETEX", KEY, 30, "v"), OK, LOCKED),
    "PSETEX": (("PSETEX", KEY, 30000, "v"), OK, LOCKED),
    "GETSET": (("GETSET", KEY, "v"), NIL, LOCKED),
}


@pytest.mark.parametrize("take", TAKES)
def test_lock_is_taken_once_and_never_without_an_expiry(pair, plain, take):
    command, taken, refused = TAKES[take]
    one, other = pair()
    assert one.call(*command) == taken
    before = plain.get(SIDE).split(" ")[0]
    assert 0 < plain.pttl(KEY) and abs(plain.pttl(KEY) - plain.pttl(SIDE)) < 100
    assert other.call(*command) == refused
    assert plain.get(SIDE).split(" ") == [before, plain.get(KEY)]


WRITES_ON_ANOTHERS = {
    "SET XX": (("SET", KEY, "w", "XX"), NIL),
    "SET GET": (("SET", KEY, "w", "GET"), LOCKED),
    "SET XX GET": (("SET", KEY, "w", "XX", "GET"), NIL),
    "EXPIRE": (("EXPIRE", KEY, 1), ZERO),
    "PEXPIRE": (("PEXPIRE", KEY, 1), ZERO),
    "EXPIREAT": (("EXPIREAT", KEY, 1), ZERO),
    "PEXPIREAT": (("PEXPIREAT", KEY, 1), ZERO),
    "DEL": (("DEL", KEY), ZERO),
    "UNLINK": (("UNLINK", KEY), ZERO),
    "PERSIST": (("PERSIST", KEY), ZERO),
    "APPEND": (("APPEND", KEY, "w"), LOCKED),
    "GETDEL": (("GETDEL", KEY), LOCKED),
    "GETEX": (("GETEX", KEY, "PX", 1), LOCKED),
    "RENAME": (("RENAME", KEY, "free"), LOCKED),
    "RENAME onto it": (("RENAME", "free", KEY), LOCKED),
    "MSET": (("MSET", "free", "w", KEY, "w"), LOCKED),
    "COPY": (("COPY", "free", KEY, "REPLACE"), LOCKED),
}


@pytest.mark.parametrize("write", WRITES_ON_ANOTHERS)
def test_another_owner_does_not_touch_a_lock(pair, plain, write):
    command, refused = WRITES_ON_ANOTHERS[write]
    one, other = pair()
    plain.set("free", "f")
    assert one.call("SET", KEY, "v", "NX", "EX", 30) == OK
    before = plain.get(SIDE)
    assert other.call(*command) == refused
    assert (plain.get(KEY), plain.get(SIDE), plain.get("free")) == ("v", before, "f")
    assert plain.pttl(KEY) > 29000


OWNERS_WRITES = {
    "SET": (("SET", KEY, "w"), OK, "w", 30),
    "SET XX EX": (("SET", KEY, "w", "XX", "EX", 90), OK, "w", 90),
    "SETEX": (("SETEX", KEY, 90, "w"), OK, "w", 90),
    "GETSET": (("GETSET", KEY, "w"), bulk("v"), "w", 30),
    "EXPIRE": (("EXPIRE", KEY, 90), ONE, "v", 90),
    "PEXPIRE": (("PEXPIRE", KEY, 90000), ONE, "v", 90),
    "EXPIREAT": (("EXPIREAT", KEY, 4102444800), ONE, "v", None),
    "PERSIST": (("PERSIST", KEY), ZERO, "v", 10),
    "APPEND": (("APPEND", KEY, "w"), b":2\r\n", "vw", 10),
    "SET NX": (("SET", KEY, "w", "NX"), NIL, "v", 10),
    "SETNX": (("SETNX", KEY, "w"), ZERO, "v", 10),
}


@pytest.mark.parametrize("write", OWNERS_WRITES)
def test_owner_writes_and_stays_the_owner(pair, plain, write):
    command, reply, value, ttl = OWNERS_WRITES[write]
    one, _ = pair()
    assert one.call("SET", KEY, "v", "NX", "EX", 10) == OK
    owner = plain.get(SIDE).split(" ")[0]
    assert one.call(*command) == reply
    assert (plain.get(KEY), plain.get(SIDE)) == (value, f"{owner} {value}")
    assert ttl is None or ttl - 1 <= plain.pttl(KEY) / 1000 <= ttl
    assert abs(plain.pttl(KEY) - plain.pttl(SIDE)) < 100


@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
def test_owner_deletes_its_lock_and_nothing_is_left(pair, plain, command):
    one, _ = pair()
    one.call("SETNX", KEY, "v")
    assert one.call(command, KEY) == ONE
    assert plain.keys("*") == []


def test_mixed_keys_are_deleted_as_far_as_they_are_not_anothers(pair, plain):
    one, other = pair()
    one.call("SETNX", KEY, "v")
    other.call("SETNX", "lock:2", "v")
    plain.mset({"a": 1, "b": 2, "lock:nobodys": 3})
    assert other.call("DEL", "a", KEY, "lock:2", "b", "lock:nobodys", "none") == b":4\r\n"
    assert sorted(plain.keys("*")) == [SIDE, KEY]


def test_lock_without_a_sidecar_is_nobodys(pair, plain):
    _, other = pair()
    plain.set(KEY, "v")
    assert other.call("SETNX", KEY, "w") == ZERO
    assert other.call("DEL", KEY) == ONE


def test_sidecar_of_a_lock_retaken_past_hasp_is_ignored(pair, plain):
    one, other = pair()
    one.call("SETNX", KEY, "v")
    plain.set(KEY, "w")
    assert other.call("DEL", KEY) == ONE
    assert plain.keys("*") == []


def test_counted_lock_expires_although_the_app_never_says_so(pair, plain):
    one, other = pair(rule(lease="7s"))
    assert [one.call("INCR", KEY), other.call("INCR", KEY)] == [ONE, b":2\r\n"]
    assert 6000 < plain.pttl(KEY) <= 7000
    assert other.call("DEL", KEY) == ZERO
    assert one.call("DEL", KEY) == ONE


def test_keys_of_other_types_are_left_alone(pair, plain):
    one, other = pair()
    assert one.call("RPUSH", KEY, "a") == ONE
    assert other.call("RPUSH", KEY, "b") == b":2\r\n"
    assert plain.keys("*") == [KEY] and plain.ttl(KEY) == -1


@BOTH
@pytest.mark.parametrize("command, reply", [
    ("LPOP lock:none 1", b"*-1\r\n"), ("RPOP lock:none 1", b"*-1\r\n"),
    ("LMPOP 1 lock:none LEFT", b"*-1\r\n"), ("ZMPOP 1 lock:none MIN", b"*-1\r\n"),
    ("HINCRBY lock:none f 9223372036854775807", b":9223372036854775807\r\n")])
def test_replies_that_scripts_cannot_give_are_redis_own(pair, command, reply):
    one, _ = pair()
    assert one.call(*command.split()) == reply


@BOTH
@pytest.mark.parametrize("before, command", [
    (None, "INCRBY lock:1 9007199254740992"), ("5", "DECRBY lock:1 9223372036854775807"),
    ("9007199254740991", "INCR lock:1"), ("-9007199254740991", "DECR lock:1"),
    (None, "BITFIELD lock:1 SET u8 0 9 SET i63 0 4611686018427387903 GET i63 0")])
def test_number_that_scripts_would_round_is_an_error_and_changes_nothing(pair, plain, before, command):
    one, _ = pair()
    if before:
        one.call("SET", KEY, before, "NX", "EX", 1000)
    assert one.call(*command.split()) == b"-ERR a key with a lock rule cannot count beyond 2^53\r\n"
    assert plain.get(KEY) == before
    if before:
        assert plain.ttl(KEY) > 900 and one.call("DEL", KEY) == ONE


def test_reads_and_scripts_pass(pair):
    one, other = pair()
    one.call("SET", KEY, "v", "NX", "EX", 30)
    assert other.call("GET", KEY) == bulk("v")
    assert other.call("TTL", KEY) in (b":30\r\n", b":29\r\n")
    assert other.call("EVAL", "return redis.call('del', KEYS[1])", 1, KEY) == ONE


def test_key_that_no_pattern_matches_is_redis_own(pair, plain):
    one, other = pair()
    assert one.call("SETNX", "unlocked", "v") == ONE
    assert other.call("DEL", "unlocked") == ONE
    assert one.call("SETNX", "unlocked", "v") == ONE
    assert plain.keys("*") == ["unlocked"] and plain.ttl("unlocked") == -1


def test_first_rule_that_matches_wins(pair, plain):
    one, _ = pair(rule("narrow", "lock:night:*", lease="2h") + rule("wide", lease="5s"))
    one.call("SETNX", "lock:night:1", "v")
    one.call("SETNX", KEY, "v")
    assert plain.ttl("lock:night:1") > 7000 and plain.ttl(KEY) <= 5


def test_max_lease_cuts_what_the_app_asks_for(pair, plain):
    one, _ = pair(rule(lease="5s", max_lease="10s"))
    one.call("SET", KEY, "v", "NX", "EX", 3600)
    assert 0 < plain.ttl(KEY) <= 10


@pytest.mark.parametrize("key, side", [
    ("lock:{a}", "hasp:owner:lock:{a}:"),
    ("lock:{a}:b", "hasp:owner:lock:{a}:b:"),
    ("lock:}{", "hasp:owner:{lock:}{}"),
    ("lock:{}", "hasp:owner:{lock:{}}"),
    ("lock: \x00é\r\n", "hasp:owner:{lock: \x00é\r\n}"),
])
def test_sidecar_is_named_after_the_key_and_hashes_to_its_slot(pair, plain, key, side):
    one, other = pair()
    assert one.call("SETNX", key, "v") == ONE
    assert other.call("DEL", key) == ZERO
    assert sorted(plain.keys("*")) == sorted([key, side])
    assert abs(plain.pttl(key) - plain.pttl(side)) < 100
    assert one.call("DEL", key) == ONE


def test_value_may_have_any_bytes(pair, plain):
    value = bytes(range(256)) + b" \r\n"
    one, other = pair()
    assert one.call("SET", KEY, value, "NX") == OK
    assert one.call("GET", KEY) == b"$259\r\n%s\r\n" % value
    assert other.call("DEL", KEY) == ZERO
    assert one.call("DEL", KEY) == ONE


def test_second_try_on_the_same_connection_is_refused_as_by_redis(pair):
    one, _ = pair()
    assert one.call("SET", KEY, "v", "NX") == OK
    assert one.call("SET", KEY, "v", "NX") == NIL
    assert one.call("SETNX", KEY, "v") == ZERO


def test_reentrant_refresh_grants_the_owner_a_second_time(pair, plain):
    one, other = pair(rule(reentrant="refresh"))
    assert one.call("SET", KEY, "v", "NX", "EX", 10) == OK
    assert one.call("SET", KEY, "w", "NX", "EX", 60) == OK
    assert plain.get(KEY) == "w" and plain.ttl(KEY) > 50
    assert other.call("SET", KEY, "x", "NX", "EX", 60) == NIL


# --- the connection around it ----------------------------------------------------


@BOTH
def test_lock_in_another_database(pair, redis_server):
    one, other = pair()
    for connection in (one, other):
        assert connection.call("SELECT", 3) == OK
    assert one.call("SETNX", KEY, "v") == ONE
    assert other.call("DEL", KEY) == ZERO
    with redis_server.client(db=3) as third, redis_server.client() as first:
        assert sorted(third.keys("*")) == [SIDE, KEY] and first.keys("*") == []


@BOTH
def test_lock_in_a_transaction(pair, plain):
    one, other = pair()
    assert pipeline(one, ("MULTI",), ("SETNX", KEY, "v"), ("GET", KEY), ("EXEC",)) == [
        OK, QUEUED, QUEUED, b"*2\r\n:1\r\n" + bulk("v")]
    assert 0 < plain.ttl(KEY) <= 30
    assert pipeline(other, ("MULTI",), ("DEL", KEY), ("EXEC",)) == [OK, QUEUED, b"*1\r\n:0\r\n"]
    assert pipeline(one, ("MULTI",), ("DEL", KEY), ("EXEC",)) == [OK, QUEUED, b"*1\r\n:1\r\n"]


@BOTH
def test_transaction_that_changes_the_database(pair, redis_server):
    one, other = pair()
    assert pipeline(one, ("MULTI",), ("SELECT", 3), ("SETNX", KEY, "v"), ("EXEC",))[-1] == \
        b"*2\r\n+OK\r\n:1\r\n"
    assert other.call("SELECT", 3) == OK
    assert other.call("DEL", KEY) == ZERO
    assert one.call("DEL", KEY) == ONE
    with redis_server.client(db=3) as third:
        assert third.keys("*") == []


@BOTH
@pytest.mark.parametrize("ending", ["DISCARD", "EXEC"])
def test_transaction_that_does_not_happen_takes_no_lock(pair, plain, ending):
    one, other = pair()
    spoil = ("NO-SUCH-COMMAND",) if ending == "EXEC" else ("PING",)
    replies = pipeline(one, ("MULTI",), ("SELECT", 3), ("SETNX", KEY, "v"), spoil, (ending,))
    assert replies[-1].startswith(b"-EXECABORT" if ending == "EXEC" else b"+OK")
    assert plain.keys("*") == []
    assert other.call("SETNX", KEY, "v") == ONE
    assert one.call("DEL", KEY) == ZERO  # in database 0, where it still is


@BOTH
def test_transaction_aborted_by_watch_takes_no_lock(pair, plain):
    one, _ = pair()
    assert one.call("WATCH", "other") == OK
    plain.set("other", 1)
    assert pipeline(one, ("MULTI",), ("SETNX", KEY, "v"), ("EXEC",))[-1] == b"*-1\r\n"
    assert plain.keys("*") == ["other"]


@BOTH
def test_transaction_with_a_wrong_type_goes_on(pair, plain):
    one, _ = pair()
    plain.rpush("list", 1)
    reply = pipeline(one, ("MULTI",), ("INCR", "list"), ("SETNX", KEY, "v"), ("EXEC",))[-1]
    assert reply.startswith(b"*2\r\n-WRONGTYPE") and reply.endswith(ONE)
    assert 0 < plain.ttl(KEY) <= 30


@BOTH
def test_watched_key_passes_raw(pair, plain):
    """The application checks for itself, as redis-py's older lock does."""
    one, other = pair()
    one.call("SET", KEY, "v", "NX", "EX", 30)
    assert other.call("WATCH", KEY) == OK
    assert other.call("GET", KEY) == bulk("v")
    assert pipeline(other, ("MULTI",), ("DEL", KEY), ("EXEC",))[-1] == b"*1\r\n:1\r\n"
    assert not plain.exists(KEY)


@BOTH
@pytest.mark.parametrize("end", [("UNWATCH",), ("MULTI", "DISCARD"), ("MULTI", "EXEC"), ("RESET",)])
def test_key_watched_no_more_is_checked_again(pair, end):
    one, other = pair()
    one.call("SET", KEY, "v", "NX", "EX", 30)
    other.call("WATCH", KEY)
    for command in end:
        other.call(command)
    assert other.call("DEL", KEY) == ZERO


@BOTH
def test_key_watched_in_another_database_is_checked(pair):
    one, other = pair()
    one.call("SET", KEY, "v", "NX", "EX", 30)
    assert pipeline(other, ("SELECT", 1), ("WATCH", KEY), ("SELECT", 0), ("DEL", KEY))[-1] == ZERO
    replies = pipeline(other, ("SELECT", 1), ("WATCH", KEY), ("MULTI",), ("SELECT", 0), ("DEL", KEY),
                       ("EXEC",))
    assert replies[-1] == b"*2\r\n+OK\r\n:0\r\n"


@BOTH
def test_resp3_gets_its_own_nulls_and_maps(pair):
    one, other = pair(rule() + VERBS)
    for connection in (one, other):
        assert connection.call("HELLO", 3).startswith(b"%")
    assert one.call("SET", KEY, "v", "NX") == OK
    assert other.call("SET", KEY, "v", "NX") == b"_\r\n"
    assert one.call("SET", "lock:2", "v", "NX", "GET") == b"_\r\n"
    assert one.call("LOCK", "k") == ONE
    assert other.call("LOCK", "k") == b"_\r\n"
    assert other.call("LOCK.INFO", "k").startswith(b"%5\r\n")
    assert other.call("LOCK.INFO", "nothing") == b"_\r\n"


@BOTH
def test_hello_2_after_hello_3_gets_resp2_again(pair):
    one, other = pair()
    one.call("SETNX", KEY, "v")
    other.call("HELLO", 3)
    other.call("HELLO", 2)
    assert other.call("SET", KEY, "v", "NX") == NIL


@BOTH
@pytest.mark.parametrize("command", [("SETNX", KEY, "v"), ("DEL", KEY), ("LOCK", KEY)])
def test_nothing_behind_quit_is_answered(pair, plain, command):
    one, _ = pair(rule() + VERBS)
    one.send(encode("QUIT") + encode(*command))
    assert one.read() == OK and one.at_end()
    assert not plain.exists(KEY)


GUARD = "[guard guarded]\npattern = guarded:*\nacquire_on = GET\n"
INTERCEPTED = [("SETNX", KEY, "v"), ("LOCK", "k"), ("GET", "guarded:1"), ("SET", "guarded:1", 1)]


@BOTH
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("command", INTERCEPTED)
def test_who_hangs_up_in_a_blocking_command_takes_nothing(pair, plain, command, again):
    one, _ = pair(rule() + VERBS + GUARD)
    if again:
        plain.rpush("list", "x")
        assert one.call("BLPOP", "list", 0) == b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"
    one.send(encode("BLPOP", "list", 0) + encode(*command))
    until(lambda: plain.info("clients")["blocked_clients"] == 1, "BLPOP to block")
    one.close()
    until(lambda: plain.info("clients")["blocked_clients"] == 0, "Redis to let go of it")
    plain.rpush("list", "x")
    assert plain.llen("list") == 1 and not plain.exists(command[1])


@BOTH
@pytest.mark.parametrize("command", INTERCEPTED[:2])
def test_half_close_behind_a_blocking_command_that_need_not_block(pair, plain, command):
    one, _ = pair(rule() + VERBS + GUARD)
    reply = one.call(*command)
    plain.delete(command[1], SIDE)
    plain.rpush("list", "x")
    one.send(encode("BLPOP", "list", 0) + encode(*command))
    one.sock.shutdown(socket.SHUT_WR)
    assert one.read() == b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"
    assert one.read() in (reply, b":2\r\n") and one.at_end()


@BOTH
def test_inline_commands_are_commands(pair, plain):
    one, other = pair(rule() + VERBS)
    one.send(b"set 'lock:1' \"v\\x41\" nx\r\n  setnx lock:1 w\nlock k\r\n\r\n")
    assert [one.read() for _ in range(3)] == [OK, ZERO, ONE]
    assert plain.get(KEY) == "vA" and plain.ttl(KEY) > 0
    other.send(b"del lock:1\r\nunlock k\r\n")
    assert [other.read(), other.read()] == [ZERO, ZERO]


@BOTH
def test_subscriber_is_refused_a_lock_as_by_redis(pair, plain):
    one, _ = pair(rule() + VERBS)
    one.call("SUBSCRIBE", "news")
    assert one.call("SETNX", KEY, "v").startswith(b"-ERR Can't execute 'setnx'")
    assert one.call("LOCK", KEY).startswith(b"-ERR ")
    one.call("UNSUBSCRIBE", "news")
    assert one.call("SETNX", KEY, "v") == ONE
    assert plain.ttl(KEY) > 0


@BOTH
def test_who_subscribes_right_behind_reset_is_a_subscriber(pair, plain):
    one, _ = pair(rule() + VERBS)
    one.send(encode("RESET") + encode("SUBSCRIBE", "news") + encode("SETNX", KEY, "v"))
    assert [one.read(), one.read()[:4]] == [b"+RESET\r\n", b"*3\r\n"]
    assert one.read().startswith(b"-ERR Can't execute 'setnx'")


@BOTH
def test_without_replies_locks_are_still_locks(pair, plain):
    one, other = pair(rule() + VERBS)
    other.call("SETNX", "lock:2", "v")
    one.send(encode("CLIENT", "REPLY", "OFF") + encode("SETNX", KEY, "v") + encode("DEL", "lock:2")
             + encode("LOCK", "k", "PX", 60000) + encode("CLIENT", "REPLY", "ON"))
    assert one.read() == OK
    assert plain.get(SIDE).startswith("connection:") and plain.get("lock:2") == "v"
    assert other.call("DEL", KEY) == ZERO and other.call("UNLOCK", "k") == ZERO
    assert one.call("UNLOCK", "k") == ONE and one.call("DEL", KEY) == ONE


@BOTH
def test_reply_that_is_skipped_is_the_one_that_was_asked_to_be(pair, plain):
    one, _ = pair()
    one.send(encode("CLIENT", "REPLY", "SKIP") + encode("SETNX", KEY, "v") + encode("SETNX", KEY, "w"))
    assert one.read() == ZERO
    assert plain.get(KEY) == "v" and plain.ttl(KEY) > 0


@BOTH
def test_many_holders_over_one_connection(pair, plain):
    one, other = pair()
    takes = [("SET", f"lock:{n}", n, "NX", "PX", 60000) for n in range(1000)]
    drops = [("DEL", f"lock:{n}") for n in range(1000)]
    assert set(pipeline(one, *takes)) == {OK}
    assert set(pipeline(other, *takes)) == {NIL}
    assert set(pipeline(other, *drops)) == {ZERO}
    assert plain.dbsize() == 2000
    assert set(pipeline(one, *drops)) == {ONE}
    assert plain.dbsize() == 0


@BOTH
def test_replies_of_locks_and_other_commands_keep_their_order(pair):
    one, _ = pair(rule() + VERBS)
    commands, expected = [], []
    for n in range(100):
        commands += [("ECHO", n), ("SETNX", f"lock:{n}", 1), ("ECHO", -n), ("LOCK", f"k{n}")]
        expected += [bulk(str(n)), ONE, bulk(str(-n)), b":%d\r\n" % (n + 1)]
    assert pipeline(one, *commands) == expected


# --- owners ----------------------------------------------------------------------


def owner_of(plain, key=KEY):
    return plain.get("hasp:owner:{%s}" % key).split(" ")[0]


def test_owner_connection_is_named_by_its_peer(pair, plain):
    one, _ = pair()
    one.call("SETNX", KEY, "v")
    host, port = one.sock.getsockname()
    assert re.fullmatch(rf"connection:{host}:{port}/0/[0-9a-f]{{32}}", owner_of(plain))


def test_owner_address_is_shared_by_connections_of_a_host(pair, plain):
    one, other = pair(rule(owner="address"))
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "address:127.0.0.1"
    assert other.call("SETNX", KEY, "v") == ZERO
    assert other.call("DEL", KEY) == ONE


def test_owner_address_of_a_unix_socket_is_the_uid(start_hasp, redis_server, plain, tmp_path):
    hasp = start_hasp(rule(owner="address"), listen=f"unix:{tmp_path}/s 127.0.0.1:0")
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", KEY, "v")
        assert owner_of(plain) == f"address:uid:{os.getuid()}"
        assert other.call("DEL", KEY) == ONE


def test_owner_name_is_shared_by_connections_of_that_name(pair, plain):
    one, other = pair(rule(owner="name"))
    assert one.call("CLIENT", "SETNAME", "shop") == OK
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "name:shop"
    assert other.call("DEL", KEY) == ZERO
    assert other.call("HELLO", 3, "SETNAME", "shop").startswith(b"%")
    assert other.call("DEL", KEY) == ONE


def test_owner_name_is_the_connection_until_there_is_one(pair, plain):
    one, other = pair(rule(owner="name"))
    one.call("SETNX", KEY, "v")
    assert owner_of(plain).startswith("connection:")
    assert other.call("DEL", KEY) == ZERO


def test_owner_name_that_redis_refuses_is_none(pair, plain):
    one, _ = pair(rule(owner="name"))
    assert one.call("CLIENT", "SETNAME", "a b").startswith(b"-ERR")
    one.call("SETNX", KEY, "v")
    assert owner_of(plain).startswith("connection:")


def test_owner_name_set_ahead_in_the_same_write_counts(pair, plain):
    one, _ = pair(rule(owner="name"))
    assert pipeline(one, ("CLIENT", "SETNAME", "shop"), ("SETNX", KEY, "v")) == [OK, ONE]
    assert owner_of(plain) == "name:shop"


def test_owner_name_ends_with_reset(pair, plain):
    one, _ = pair(rule(owner="name"))
    one.call("CLIENT", "SETNAME", "shop")
    one.call("RESET")
    one.call("SETNX", KEY, "v")
    assert owner_of(plain).startswith("connection:")


def test_owner_user_is_who_logged_in(pair, plain):
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">pa", "~*", "&*", "+@all")
    one, other = pair(rule(owner="user"))
    assert one.call("AUTH", "alice", "pa") == OK
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "user:alice"
    assert other.call("AUTH", "alice", "wrong").startswith(b"-WRONGPASS")
    assert other.call("DEL", KEY) == ZERO
    assert other.call("HELLO", 2, "AUTH", "alice", "pa").startswith(b"*")
    assert other.call("DEL", KEY) == ONE


def test_owner_user_is_default_for_who_did_not_log_in(pair, plain):
    one, other = pair(rule(owner="user"))
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "user:default"
    assert other.call("DEL", KEY) == ONE


def test_owner_value_needs_no_sidecar(pair, plain):
    one, other = pair(rule(owner="value"))
    assert one.call("SET", KEY, "a", "NX", "PX", 30000) == OK
    assert plain.keys("*") == [KEY]
    assert other.call("SET", KEY, "b", "NX", "PX", 30000) == NIL
    assert other.call("SET", KEY, "b").startswith(b"-LOCKED")
    assert other.call("SET", KEY, "a", "XX", "PX", 60000) == OK


def test_owner_value_deletes_only_what_it_stored(pair, plain):
    """The application's lock ran out and went to another; its late DEL comes."""
    one, other = pair(rule(owner="value"))
    assert one.call("SET", KEY, "a", "NX", "PX", 30000) == OK
    plain.delete(KEY)
    assert other.call("SET", KEY, "b", "NX", "PX", 30000) == OK
    assert one.call("DEL", KEY) == ZERO
    assert other.call("DEL", KEY) == ONE


def test_owner_value_unknown_to_a_connection_is_deleted_as_by_redis(pair):
    one, other = pair(rule(owner="value"))
    assert one.call("SET", KEY, "a", "NX", "PX", 30000) == OK
    assert other.call("DEL", KEY) == ONE


# --- Redis without the scripts ---------------------------------------------------


@BOTH
def test_lost_scripts_are_never_noticed(pair, plain):
    one, other = pair(rule() + VERBS)
    for n in range(20):
        plain.script_flush()
        assert one.call("SETNX", KEY, n) == ONE
        plain.script_flush()
        assert other.call("DEL", KEY) == ZERO
        plain.script_flush()
        assert one.call("EXPIRE", KEY, 60) == ONE
        plain.script_flush()
        assert one.call("DEL", KEY) == ONE
        plain.script_flush()
        assert one.call("LOCK", "k") == b":%d\r\n" % (n + 1)
        plain.script_flush()
        assert one.call("UNLOCK", "k") == ONE


@BOTH
def test_scripts_lost_between_pipelined_commands_are_never_noticed(pair):
    one, _ = pair(rule() + VERBS)
    commands, expected = [], []
    for n in range(100):
        commands += [("SCRIPT", "FLUSH"), ("SETNX", f"lock:{n}", "v"), ("ECHO", n),
                     ("SCRIPT", "FLUSH"), ("DEL", f"lock:{n}"), ("LOCK", "k"), ("SCRIPT", "FLUSH"),
                     ("UNLOCK", "k")]
        expected += [OK, ONE, bulk(str(n)), OK, ONE, b":%d\r\n" % (n + 1), OK, ONE]
    assert pipeline(one, *commands) == expected


@BOTH
def test_scripts_lost_before_a_transaction_are_never_noticed(pair):
    one, _ = pair()
    assert pipeline(one, ("SCRIPT", "FLUSH"), ("MULTI",), ("SETNX", KEY, "v"), ("EXEC",))[-1] == \
        b"*1\r\n:1\r\n"


@BOTH
def test_user_who_may_not_run_scripts_is_told_so(pair, plain):
    plain.execute_command("ACL", "SETUSER", "weak", "on", ">p", "~*", "+@all", "-eval", "-evalsha")
    one, _ = pair()
    one.call("AUTH", "weak", "p")
    assert one.call("SETNX", KEY, "v").startswith(b"-NOPERM")
    assert not plain.exists(KEY)


# --- verbs -----------------------------------------------------------------------


def fields(reply):
    """LOCK.INFO's answer as a dict of bytes."""
    lines = reply.split(b"\r\n")[1:-1]
    words = [line[1:] if line[:1] == b":" else line for line in lines if line[:1] != b"$"]
    return dict(zip(words[::2], words[1::2]))


def test_lock_and_unlock(pair, plain):
    one, other = pair(VERBS)
    assert one.call("LOCK", "k", "PX", 60000) == ONE
    assert other.call("LOCK", "k", "PX", 60000) == NIL
    assert 59000 < plain.pttl("k") <= 60000
    assert other.call("UNLOCK", "k") == ZERO
    assert one.call("UNLOCK", "k") == ONE
    assert one.call("UNLOCK", "k") == ZERO
    assert other.call("LOCK", "k", "EX", 60) == b":2\r\n"


def test_verbs_in_any_case(pair):
    one, _ = pair(VERBS)
    assert one.call("lock", "k", "px", 1000) == ONE
    assert one.call("Lock.Extend", "k", "eX", 5) == ONE
    assert one.call("lock.info", "k").startswith(b"*10\r\n")
    assert one.call("unLOCK", "k") == ONE


def test_holds_are_counted(pair):
    one, other = pair(VERBS)
    assert [one.call("LOCK", "k"), one.call("LOCK", "k")] == [ONE, ONE]  # the same fencing token
    assert fields(one.call("LOCK.INFO", "k"))[b"holds"] == b"2"
    assert one.call("UNLOCK", "k") == ONE
    assert other.call("LOCK", "k") == NIL
    assert one.call("UNLOCK", "k") == ONE
    assert other.call("LOCK", "k") == b":2\r\n"


@pytest.mark.parametrize("reentrant, second", [("refresh", ONE), ("no", NIL)])
def test_locks_that_are_not_counted_are_strings(pair, plain, reentrant, second):
    one, other = pair(VERBS + f"reentrant = {reentrant}")
    assert one.call("LOCK", "k", "EX", 10) == ONE
    assert one.call("LOCK", "k", "EX", 10) == second
    assert plain.type("k") == "string"
    assert other.call("UNLOCK", "k") == ZERO
    assert one.call("UNLOCK", "k") == ONE
    assert other.call("LOCK", "k", "EX", 10) == b":2\r\n"


def test_extend_is_the_owners(pair, plain):
    one, other = pair(VERBS)
    one.call("LOCK", "k", "PX", 5000)
    assert other.call("LOCK.EXTEND", "k", "PX", 90000) == ZERO
    assert plain.pttl("k") <= 5000
    assert one.call("LOCK.EXTEND", "k", "PX", 90000) == ONE
    assert plain.pttl("k") > 80000


def test_info_tells_who_holds(pair):
    one, other = pair(VERBS)
    one.call("LOCK", "k", "PX", 60000, "AS", "worker-7")
    told = fields(other.call("LOCK.INFO", "k"))
    assert (told[b"owner"], told[b"holds"], told[b"fence"]) == (b"worker-7", b"1", b"1")
    assert 59000 < int(told[b"ttl"]) <= 60000
    assert other.call("LOCK.INFO", "free") == NIL


def test_owner_that_a_command_names_holds_across_connections(pair):
    one, other = pair(VERBS)
    assert one.call("LOCK", "k", "AS", "bob") == ONE
    assert one.call("UNLOCK", "k") == ZERO
    assert other.call("LOCK", "k", "AS", "alice") == NIL
    assert other.call("UNLOCK", "k", "AS", "bob") == ONE


def test_fencing_tokens_rise_over_all_keys_and_connections(pair):
    one, other = pair(VERBS)
    tokens = []
    for n in range(10):
        for connection in (one, other):
            tokens.append(int(connection.call("LOCK", f"k{n % 3}")[1:]))
            assert connection.call("UNLOCK", f"k{n % 3}") == ONE
    assert tokens == sorted(set(tokens))


def test_lock_in_a_transaction_by_verb(pair):
    one, other = pair(VERBS)
    assert pipeline(one, ("MULTI",), ("LOCK", "k"), ("SET", "data", 1), ("EXEC",)) == [
        OK, QUEUED, QUEUED, b"*2\r\n:1\r\n+OK\r\n"]
    assert other.call("LOCK", "k") == NIL
    assert pipeline(one, ("MULTI",), ("UNLOCK", "k"), ("EXEC",))[-1] == b"*1\r\n:1\r\n"


@pytest.mark.parametrize("command, error", [
    (("LOCK",), b"-ERR wrong number of arguments for 'lock' command\r\n"),
    (("LOCK", "k", "PX"), b"-ERR syntax error\r\n"),
    (("LOCK", "k", "PX", "x"), b"-ERR value is not an integer or out of range\r\n"),
    (("LOCK", "k", "PX", "0"), b"-ERR invalid expire time in 'lock' command\r\n"),
    (("LOCK.EXTEND", "k"), b"-ERR wrong number of arguments for 'lock.extend' command\r\n"),
    (("UNLOCK", "k", "NOW", "1"), b"-ERR syntax error\r\n"),
    (("LOCK.INFO",), b"-ERR wrong number of arguments for 'lock.info' command\r\n"),
])
def test_verb_that_is_wrong_is_answered_in_redis_words(pair, command, error):
    one, _ = pair(VERBS)
    assert pipeline(one, ("ECHO", "a"), command, ("ECHO", "b")) == [bulk("a"), error, bulk("b")]


def test_verbs_have_the_names_that_the_file_gives(pair):
    one, _ = pair(VERBS + "lock = GRAB\nunlock = LET.GO\ninfo = WHO\nextend = MORE")
    assert one.call("GRAB", "k", "PX", 5000) == ONE
    assert one.call("more", "k", "PX", 60000) == ONE
    assert one.call("WHO", "k").startswith(b"*10\r\n")
    assert one.call("let.go", "k") == ONE
    assert one.call("LOCK", "k").startswith(b"-ERR unknown command 'LOCK'")


def test_without_verbs_redis_answers(pair):
    one, _ = pair(rule())
    assert one.call("LOCK", "k").startswith(b"-ERR unknown command 'LOCK'")


def test_lock_of_redisson_layout_is_respected(pair, plain):
    """As Redisson's RLock leaves it."""
    one, _ = pair(VERBS)
    plain.hset("k", "285475da-9152-4c83-822a-67ee2f116a79:52", 1)
    plain.pexpire("k", 30000)
    assert one.call("LOCK", "k") == NIL
    assert fields(one.call("LOCK.INFO", "k"))[b"owner"].startswith(b"285475da")
    assert one.call("UNLOCK", "k") == ZERO


def test_unlock_tells_redissons_waiters(pair, plain):
    one, _ = pair(VERBS)
    with plain.pubsub() as waiter:
        waiter.subscribe("redisson_lock__channel:{k}")
        until(lambda: waiter.get_message(), "the subscription")
        one.call("LOCK", "k")
        one.call("UNLOCK", "k")
        message = until(lambda: waiter.get_message(), "the message")
    assert message["data"] == "0"
