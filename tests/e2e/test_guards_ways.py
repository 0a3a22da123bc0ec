# SPDX-License-Identifier: BSD-3-Clause
"""The ways in which hasp fences a write, each with faults at each step: several keys, missing
scripts, lost connections, half-closed connections.
"""

import socket
import threading

import pytest
from harness import encode, until
from harness.guards import GUARD, KEY, guard, held, is_locked, is_lost, nothing_left, stands, transact
from harness.relay import Relay
from harness.replies import NIL, OK, ONE, QUEUED, bulk

SECOND, SECOND_GUARD = "stock:2", "hasp:guard:{stock:2}"

# Each way: commands, whose first read takes the guard and whose last one releases it.
WAYS = {
    "script": [("GET", KEY), ("SET", KEY, 1)],
    "apart": [("ZRANGEBYLEX", KEY, "-", "+"), ("DEL", KEY)],
    "transaction around one": [("GET", KEY), ("INCR", KEY)],
    "reader that writes": [("BITFIELD", KEY, "GET", "u8", 0), ("BITFIELD", KEY, "SET", "u8", 0, 1), ("DEL", KEY)],
    "transaction": [("GET", KEY), ("MULTI",), ("SET", KEY, 1), ("SET", SECOND, 1), ("EXEC",)],
    "transaction that reads": [("MULTI",), ("GET", KEY), ("EXEC",), ("SET", KEY, 1)],
    "transaction under WATCH": [("WATCH", KEY), ("GET", KEY), ("MULTI",), ("SET", KEY, 1), ("EXEC",)],
    "several": [("MGET", KEY, SECOND), ("MSET", SECOND, 1, KEY, 1)],
    "script of the application": [("GET", KEY), ("EVAL", "return redis.call('SET', KEYS[1], 1)", 1, KEY), ("DEL", KEY)],
}
EACH_WAY = pytest.mark.parametrize("way", WAYS)


def any_guard(**settings):
    return guard(acquire_on="GET MGET BITFIELD ZRANGEBYLEX", **settings)


def go(connection, way):
    return [connection.call(*command) for command in WAYS[way]]


# --- several keys ---

def test_two_that_hold_each_others_next_key_end_by_wait(share_hasp, plain):
    """Two hasps serve the clients, and neither sees the whole circle, so one wait times out."""
    hasp, another = (share_hasp(guard(wait="3s", lease="60s")) for _ in range(2))
    with held(hasp) as one, held(another, SECOND) as two:
        stands(plain, one, "GET", SECOND, guard=SECOND_GUARD)
        assert is_locked(two.call("GET", KEY), KEY)
        assert two.call("SET", SECOND, "two") == OK
        assert one.read() in (bulk("two"), f"-LOCKED '{SECOND}' is guarded by another owner\r\n".encode())
        assert one.call("SET", KEY, "one") == OK


@pytest.mark.parametrize("how", ["writes", "hangs up"])
def test_loser_of_a_deadlock_gives_its_guards_back(share_hasp, plain, how):
    hasp = share_hasp(guard(wait="100ms", lease="60s"))
    with held(hasp) as one, hasp.connect() as third:
        with held(hasp, SECOND) as two:
            assert is_locked(two.call("GET", KEY), KEY)
            assert plain.exists(SECOND_GUARD)
            if how == "writes":
                assert two.call("SET", SECOND, 2) == OK
        until(lambda: not plain.exists(SECOND_GUARD), "the second guard to be released")
        assert third.call("SET", SECOND, 3) == OK
        assert one.call("SET", KEY, 1) == OK
    nothing_left(plain)


def test_same_keys_in_another_order_are_no_deadlock(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s"))
    with hasp.connect() as one, hasp.connect() as two:
        assert one.call("MGET", KEY, SECOND) == b"*2\r\n" + 2 * NIL
        stands(plain, two, "MGET", SECOND, KEY)
        assert one.call("MSET", SECOND, 1, KEY, 1) == OK
        assert two.read() == b"*2\r\n" + 2 * bulk("1")
        assert two.call("MSET", KEY, 2, SECOND, 2) == OK
    nothing_left(plain)


@pytest.mark.parametrize("command", [("MGET", KEY, SECOND), ("MSET", KEY, 1, SECOND, 1), ("RENAME", KEY, SECOND),
                                     ("SUNIONSTORE", KEY, SECOND)])
@pytest.mark.parametrize("wait", ["0", "50ms"])
def test_all_guards_or_none(share_hasp, plain, command, wait):
    hasp = share_hasp(guard(wait=wait, lease="60s"))
    plain.sadd(KEY, 1)
    with held(hasp, SECOND) as one, hasp.connect() as two:
        assert is_locked(two.call(*command), SECOND)
        until(lambda: plain.keys("hasp:*") == [SECOND_GUARD], "the other guards to be released")
        assert plain.type(KEY) == "set" and not plain.exists(SECOND)
        assert one.call("SET", SECOND, 1) == OK


def test_transaction_takes_all_or_none(share_hasp, plain):
    hasp = share_hasp(guard(wait="50ms", lease="60s"))
    with held(hasp, SECOND), hasp.connect() as two:
        assert is_locked(transact(two, ("SET", KEY, 1), ("GET", "stock:0"), ("DEL", SECOND))[-1], SECOND)
        until(lambda: plain.keys("hasp:*") == [SECOND_GUARD], "the other guards to be released")
        assert not plain.exists(KEY)


@EACH_WAY
def test_guard_that_is_lost_refuses_the_write(clients, plain, way):
    one, = clients(1, any_guard(lease="60s"))
    commands = WAYS[way]
    reads = 3 if way == "transaction that reads" else 2 if way == "transaction under WATCH" else 1
    for command in commands[:reads]:
        one.call(*command)
    plain.delete(GUARD)
    before = plain.keys("stock:*")
    for command in commands[reads:]:
        reply = one.call(*command)
        if reply not in (OK, QUEUED):
            break
    assert is_lost(reply) or way == "transaction under WATCH" and reply.startswith(b"-LOCKLOST ")
    assert plain.keys("stock:*") == before == []


# --- missing scripts, and lost connections ---

def test_scripts_may_be_missing_at_any_step(share_hasp, redis_server, plain):
    hasp = share_hasp(any_guard(lease="60s"))
    expected = {}
    done = threading.Event()

    def flush():
        with redis_server.client() as client:
            while not done.is_set():
                client.script_flush()

    with hasp.connect() as one:
        for way in WAYS:
            plain.delete(KEY, SECOND)
            expected[way] = go(one, way)
            assert not any(reply.startswith(b"-") for reply in expected[way]), way
        flusher = threading.Thread(target=flush)
        flusher.start()
        try:
            for _ in range(20):
                for way in WAYS:
                    plain.delete(KEY, SECOND)
                    assert go(one, way) == expected[way]
        finally:
            done.set()
            flusher.join()
    nothing_left(plain)


@EACH_WAY
def test_nothing_stays_when_redis_is_lost_at_any_step(start_hasp, redis_server, plain, way):
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(any_guard(lease="2s"), upstream=relay.address)
        for step in range(len(WAYS[way])):
            with hasp.connect() as one:
                for command in WAYS[way][:step]:
                    assert not one.call(*command).startswith(b"-")
                relay.swallows = True
                before = plain.info("stats")["total_commands_processed"]
                one.send(encode(*WAYS[way][step]))
                until(lambda: plain.info("stats")["total_commands_processed"] > before + 1, "the command to arrive at Redis")
                relay.cut()
                answer = one.file.read()
                assert answer == b"" or answer.startswith(b"-ERR hasp: upstream ")
            relay.mend()
            until(lambda: not plain.keys("hasp:*"), "the guard to end")
            plain.delete(KEY, SECOND)
            with hasp.connect() as one:
                assert not any(reply.startswith(b"-") for reply in go(one, way))


@EACH_WAY
def test_half_closed_connection_is_answered_to_its_end(share_hasp, plain, way):
    hasp = share_hasp(any_guard(lease="60s"))
    with hasp.connect() as one, hasp.connect() as two:
        expected = go(one, way)
        plain.delete(KEY, SECOND)
        two.send(b"".join(encode(*command) for command in WAYS[way]))
        two.sock.shutdown(socket.SHUT_WR)
        assert [two.read() for _ in expected] == expected
        assert two.at_end()
    nothing_left(plain)


@EACH_WAY
def test_protocol_error_behind_it_changes_nothing(share_hasp, plain, way):
    hasp = share_hasp(any_guard(lease="60s"))
    with hasp.connect() as one, hasp.connect() as two:
        expected = go(one, way)
        plain.delete(KEY, SECOND)
        two.send(b"".join(encode(*command) for command in WAYS[way]) + b"*1\r\n!\r\n")
        assert [two.read() for _ in expected] == expected
        assert two.read().startswith(b"-ERR Protocol error") and two.at_end()
    nothing_left(plain)


@pytest.mark.parametrize("end", [("DISCARD",), ("RESET",)])
def test_transaction_that_is_given_up_keeps_what_was_read(share_hasp, plain, end):
    hasp = share_hasp(guard(lease="60s"))
    with held(hasp) as one:
        assert [one.call("MULTI"), one.call("SET", KEY, 1)] == [OK, QUEUED]
        assert one.call(*end) in (OK, b"+RESET\r\n")
        plain.delete(GUARD)
        assert is_lost(one.call("SET", KEY, 1))
        assert one.call("INCR", KEY) == ONE


# --- pipelines: commands after the guarded write ---

BEHIND = {
    "CLIENT REPLY SKIP": ([("CLIENT", "REPLY", "SKIP"), ("ECHO", "skipped")], b""),
    "CLIENT REPLY OFF": ([("CLIENT", "REPLY", "OFF"), ("PING",), ("CLIENT", "REPLY", "ON")], OK),
    "MULTI SUBSCRIBE": ([("MULTI",), ("SUBSCRIBE", "c"), ("EXEC",), ("UNSUBSCRIBE", "c")],
                        OK + QUEUED + b"*1\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"
                        + b"*3\r\n$11\r\nunsubscribe\r\n$1\r\nc\r\n:0\r\n"),
    "REPLCONF": ([("REPLCONF", "capa", "eof")], OK),
}


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("write, reply", [(("SET", KEY, 1), OK), (("INCR", KEY), ONE), (("SADD", KEY, 1), ONE)])
def test_answers_to_hasps_own_commands_are_nobodys_when_replies_are_followed_no_more(share_hasp, behind, write, reply):
    commands, replies = BEHIND[behind]
    with share_hasp(any_guard()).connect() as one:
        one.send(b"".join(encode(*command) for command in [write, *commands, ("ECHO", "last")]))
        expected = reply + replies + bulk("last")
        assert one.file.read(len(expected)) == expected


@pytest.mark.parametrize("command", [("GET", KEY), ("SET", KEY, 1), ("INCR", KEY), ("MULTI",)])
def test_nothing_behind_quit_is_answered(share_hasp, plain, command):
    with share_hasp(any_guard()).connect() as one:
        one.send(encode("QUIT") + encode(*command))
        assert one.read() == OK and one.at_end()
    nothing_left(plain)
