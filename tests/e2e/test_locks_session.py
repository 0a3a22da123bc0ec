# SPDX-License-Identifier: BSD-3-Clause
"""Locks in every state of the connection: transactions, RESP3, blocking commands, lost scripts."""

import socket

import pytest
from harness import encode, until
from harness.marks import BOTH
from harness.replies import FENCE, NIL, OK, ONE, QUEUED, ZERO, bulk
from harness.resp import pipeline
from harness.sections import VERBS, rule

KEY, SIDE = "lock:1", "hasp:owner:{lock:1}"


# --- transactions and other states of a connection --------------------------------


@BOTH
def test_lock_in_another_database(pair, redis_server):
    one, other = pair()
    for connection in (one, other):
        assert connection.call("SELECT", 3) == OK
    assert one.call("SETNX", KEY, "v") == ONE
    assert other.call("DEL", KEY) == ZERO
    with redis_server.client(db=3) as third, redis_server.client() as first:
        assert sorted(third.keys("*")) == ["hasp:fence:{lock:1}", SIDE, KEY] and first.keys("*") == []


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
    assert one.call("DEL", KEY) == ZERO  # the failed transaction did not SELECT 3, so this is database 0


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
    """The application detects changes by WATCH, as redis-py's older lock does."""
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


@pytest.fixture
def forbidden(plain):
    """Returns a user (name, password) that may run neither DISCARD nor UNWATCH."""
    plain.execute_command("ACL", "SETUSER", "bound", "on", ">pw", "~*", "&*", "+@all", "-discard", "-unwatch")
    yield "bound", "pw"
    plain.execute_command("ACL", "DELUSER", "bound")


@BOTH
def test_refused_discard_leaves_the_transaction_open(pair, redis_server, forbidden):
    one, _ = pair(rule(on_disconnect="release"))
    assert one.call("AUTH", *forbidden) == OK
    replies = pipeline(one, ("MULTI",), ("DISCARD",), ("SELECT", 3), ("EXEC",), ("SETNX", KEY, "v"))
    assert replies[1].startswith(b"-NOPERM") and replies[3].startswith(b"-EXECABORT")
    assert [replies[2], replies[4]] == [QUEUED, ONE]
    with redis_server.client(db=0) as first:
        assert first.exists(KEY)
        one.close()
        until(lambda: not first.exists(KEY), "the release in database 0")


@BOTH
def test_refused_unwatch_leaves_the_key_watched(pair, forbidden):
    one, other = pair()
    one.call("SET", KEY, "v", "NX", "EX", 30)
    assert other.call("AUTH", *forbidden) == OK
    replies = pipeline(other, ("WATCH", KEY), ("UNWATCH",), ("MULTI",), ("DEL", KEY), ("EXEC",))
    assert replies[1].startswith(b"-NOPERM") and replies[4] == b"*1\r\n:1\r\n"


@BOTH
def test_key_watched_in_another_database_is_checked(pair):
    one, other = pair()
    one.call("SET", KEY, "v", "NX", "EX", 30)
    assert pipeline(other, ("SELECT", 1), ("WATCH", KEY), ("SELECT", 0), ("DEL", KEY))[-1] == ZERO
    replies = pipeline(other, ("SELECT", 1), ("WATCH", KEY), ("MULTI",), ("SELECT", 0), ("DEL", KEY),
                       ("EXEC",))
    assert replies[-1] == b"*2\r\n+OK\r\n:0\r\n"


@BOTH
def test_lock_is_checked_after_a_long_transaction_that_changes_the_protocol(pair, plain):
    """hasp keeps replies to EXEC of up to 16 MB."""
    plain.set("big", "x" * (17 << 20))
    one, other = pair()
    assert one.call("SETNX", KEY, "v") == ONE
    replies = pipeline(other, ("MULTI",), ("HELLO", 3), ("GET", "big"), ("EXEC",), ("SUBSCRIBE", "channel"), ("DEL", KEY))
    assert replies[-1] == ZERO and plain.exists(KEY)


@BOTH
def test_resp3_gets_its_own_nulls_and_maps(pair):
    one, other = pair(rule() + VERBS)
    for connection in (one, other):
        assert connection.call("HELLO", 3).startswith(b"%")
    assert one.call("SET", KEY, "v", "NX") == OK
    assert other.call("SET", KEY, "v", "NX") == b"_\r\n"
    assert one.call("SET", "lock:2", "v", "NX", "GET") == b"_\r\n"
    assert one.call("LOCK", "k") == FENCE
    assert other.call("LOCK", "k") == b"_\r\n"
    assert other.call("LOCK.INFO", "k").startswith(b"%10\r\n")
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
def test_client_that_hangs_up_in_a_blocking_command_takes_nothing(pair, plain, command, again):
    one, _ = pair(rule() + VERBS + GUARD)
    if again:
        plain.rpush("list", "x")
        assert one.call("BLPOP", "list", 0) == b"*2\r\n$4\r\nlist\r\n$1\r\nx\r\n"
    one.send(encode("BLPOP", "list", 0) + encode(*command))
    until(lambda: plain.info("clients")["blocked_clients"] == 1, "BLPOP to block")
    one.close()
    until(lambda: plain.info("clients")["blocked_clients"] == 0, "Redis to drop the blocked client")
    plain.rpush("list", "x")
    assert plain.llen("list") == 1 and not plain.exists(command[1])


@BOTH
@pytest.mark.parametrize("command", [*INTERCEPTED[:2], ("SET", "guarded:1", 1), ("AUTH", "x", "y")])
def test_client_that_hangs_up_before_its_blocking_command_takes_nothing(start_hasp, redis_server, plain, command):
    hasp = start_hasp(rule() + VERBS + GUARD).is_up()
    with hasp.connect() as one, redis_server.frozen():
        one.send(encode("SETNX", "lock:2", "v") + encode("BLPOP", "list", 0) + encode(*command))
        one.close()
        hasp.take_turn()
    until(lambda: plain.info("commandstats").get("cmdstat_blpop"), "BLPOP to arrive")
    until(lambda: plain.info("clients")["blocked_clients"] == 0, "Redis to drop the blocked client")
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
    assert one.read() in (reply, FENCE) and one.at_end()


@BOTH
def test_inline_commands_are_commands(pair, plain):
    one, other = pair(rule() + VERBS)
    one.send(b"set 'lock:1' \"v\\x41\" nx\r\n  setnx lock:1 w\nlock k\r\n\r\n")
    assert [one.read() for _ in range(3)] == [OK, ZERO, FENCE]
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
def test_subscribing_right_behind_reset_makes_a_subscriber(pair, plain):
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
    assert plain.dbsize() == 3000
    assert set(pipeline(one, *drops)) == {ONE}
    assert plain.dbsize() == 0


@BOTH
def test_replies_of_locks_and_other_commands_keep_their_order(pair):
    one, _ = pair(rule() + VERBS)
    commands, expected = [], []
    for n in range(100):
        commands += [("ECHO", n), ("SETNX", f"lock:{n}", 1), ("ECHO", -n), ("LOCK", f"k{n}")]
        expected += [bulk(str(n)), ONE, bulk(str(-n)), FENCE]
    assert pipeline(one, *commands) == expected


# --- Redis loses the scripts -----------------------------------------------------


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
        assert one.call("LOCK", "k") == FENCE
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
        expected += [OK, ONE, bulk(str(n)), OK, ONE, FENCE, OK, ONE]
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
