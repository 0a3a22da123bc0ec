# SPDX-License-Identifier: BSD-3-Clause
"""Guards when something goes wrong between the read and the write.

In every case, no client overwrites a write that it has not read, no guard stays behind, and no
client waits in vain.
"""

import pytest
from harness import RedisServer, encode, until
from harness.guards import GUARD, KEY, QUEUE, guard, held, is_locked, is_lost, nothing_left, overtake, stands
from harness.replies import NIL, OK, ONE, QUEUED, bulk

SECOND = "stock:2"


# --- many keys, strange keys -----------------------------------------------------


def test_keys_beyond_what_is_remembered(clients, plain):
    one, = clients(1, guard())
    for n in range(1024):
        assert one.call("GET", f"stock:{n + 1000}") == NIL
    # hasp forgets stock:1000, the oldest key, for stock:0; the MGET reads both.
    assert one.call("MGET", "stock:0", "stock:1000") == b"*2\r\n" + 2 * NIL
    assert one.call("SET", "stock:1000", 1) == OK
    overtake(plain, "stock:0")
    assert is_lost(one.call("SET", "stock:0", 1), "stock:0")


def test_client_that_has_read_too_many_keys_to_remember_is_told_once(clients):
    """hasp no longer knows whether the client has read the key, so it refuses the first write."""
    one, = clients(1, guard())
    for n in range(1030):
        assert one.call("GET", f"stock:{n + 1000}") == NIL
    assert is_lost(one.call("SET", KEY, 1))
    assert [one.call("SET", KEY, n) for n in range(3)] == 3 * [OK]


def test_names_that_look_the_same_are_told_apart(clients, plain):
    """The errors show only the beginnings of the two names."""
    first, second = "stock:" + 150 * "x" + "1", "stock:" + 150 * "x" + "2"
    one, = clients(1, guard())
    assert one.call("MGET", first, second) == b"*2\r\n" + 2 * NIL
    overtake(plain, second)
    assert one.call("MSET", first, 1, second, 1).startswith(b"-LOCKLOST ")
    overtake(plain, first)
    assert one.call("SET", first, 1).startswith(b"-LOCKLOST ")


@pytest.mark.parametrize("command", [("SINTERSTORE", KEY, KEY, "free"), ("SUNIONSTORE", KEY, "free", KEY),
                                     ("RENAME", KEY, KEY), ("SORT", KEY, "STORE", KEY)])
def test_key_that_is_read_and_written_by_one_command_is_released(share_hasp, plain, command):
    hasp = share_hasp(guard(acquire_on="SMEMBERS", lease="60s"))
    plain.sadd(KEY, 1)
    with held(hasp, KEY, "SMEMBERS", KEY) as one:
        assert not one.call(*command).startswith(b"-")
        nothing_left(plain)


@pytest.mark.parametrize("command", [("COPY", KEY, SECOND, "DB", 1, "REPLACE"),
                                     ("COPY", KEY, SECOND, "REPLACE", "dB", 1)])
def test_copy_to_another_database_writes_nothing_here(share_hasp, plain, command):
    hasp = share_hasp(guard())
    plain.set(KEY, 1)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", SECOND) == NIL
        assert one.call(*command).startswith(b"-ERR hasp: ")
        stands(plain, other, "GET", SECOND, guard="hasp:guard:{stock:2}")
        assert one.call("SET", SECOND, 2) == OK
        assert other.read() == bulk("2")


@pytest.mark.parametrize("key", ["stock:{a}", "stock:{}", "stock:}", "stock:a}b{c", "stock:\r\n'\x00\xff",
                                 "stock:" + 70_000 * "k"])
def test_strange_keys(share_hasp, plain, key):
    hasp = share_hasp(guard(wait="50ms"))
    with hasp.connect() as one, hasp.connect() as other:
        for read, write in ((("GET", key), ("SET", key, 1)), (("GET", key), ("INCR", key))):
            one.call(*read)
            for command in (write, read):
                assert other.call(*command).startswith(b"-LOCKED ")
            assert other.call(*write).startswith(b"-LOCKLOST ")
            assert not one.call(*write).startswith(b"-")
            one.call(*read)
            (name,) = (k for k in plain.keys("hasp:guard:*"))
            plain.delete(name)
            assert one.call(*write).startswith(b"-LOCKLOST ")
            for command in (read, write):
                assert not one.call(*command).startswith(b"-LOCKLOST ")
    nothing_left(plain)


# --- replies that are not followed -----------------------------------------------


def test_second_write_behind_client_reply_off_is_carried_out(clients, plain):
    one, = clients(1, guard())
    one.send(b"".join(encode(*c) for c in [
        ("CLIENT", "REPLY", "OFF"), ("GET", KEY), ("SET", KEY, 1), ("SET", KEY, 2), ("CLIENT", "REPLY", "ON")]))
    assert one.read() == OK
    assert plain.get(KEY) == "2"
    nothing_left(plain)


def test_lost_update_behind_client_reply_off_is_refused(share_hasp, plain):
    hasp = share_hasp(guard())
    with held(hasp) as one:
        overtake(plain)
        one.send(encode("CLIENT", "REPLY", "SKIP") + encode("SET", KEY, 1) + encode("PING"))
        assert one.read() == b"+PONG\r\n"
        assert plain.get(KEY) == "other"


@pytest.mark.parametrize("write, read, reply", [
    (("HSET", KEY, "f", 1), ("HGETALL", KEY), b"%1\r\n$1\r\nf\r\n$1\r\n1\r\n"),
    (("SADD", KEY, "a"), ("SMEMBERS", KEY), b"~1\r\n$1\r\na\r\n"),
    (("ZADD", KEY, 1, "m"), ("ZSCORE", KEY, "m"), b",1\r\n"), (("ZADD", KEY, 1, "m"), ("ZSCORE", KEY, "n"), b"_\r\n")])
def test_read_behind_client_reply_has_the_type_of_its_protocol(clients, plain, write, read, reply):
    plain.execute_command(*write)
    one, = clients(1, guard(acquire_on=read[0]))
    assert one.call("HELLO", 3).startswith(b"%")
    one.send(encode("CLIENT", "REPLY", "SKIP") + encode("PING") + encode(*read))
    assert one.read() == reply
    assert plain.exists(GUARD)


@pytest.mark.parametrize("command", [("EVAL", "return redis.call('SET', KEYS[1], 'v')", 1, KEY),
                                     ("RPUSH", KEY, *range(8000))])
def test_what_no_script_can_do_is_done_behind_client_reply(clients, plain, command):
    one, = clients(1, guard())
    one.send(encode("CLIENT", "REPLY", "SKIP") + encode(*command) + encode("PING"))
    assert one.read() == b"+PONG\r\n"
    assert plain.exists(KEY)


# --- waiting ---------------------------------------------------------------------


def test_first_one_who_waits_stands_in_line_once(share_hasp, plain):
    """hasp asks twice, before and after it subscribes, with the same ticket."""
    hasp = share_hasp(guard(lease="60s"))
    plain.set(GUARD, "somebody")
    with hasp.connect() as one:
        stands(plain, one, "INCR", KEY)
        plain.delete(GUARD)
        assert one.read() == ONE
        nothing_left(plain)


def test_first_transaction_that_waits_stands_in_line_once(share_hasp, plain):
    hasp = share_hasp(guard(lease="60s"))
    plain.set(GUARD, "somebody")
    with hasp.connect() as one:
        one.send(encode("MULTI") + encode("SET", KEY, 1) + encode("EXEC"))
        until(lambda: plain.zcard(QUEUE) == 1, "the transaction to enter the queue")
        plain.delete(GUARD)
        assert [one.read() for _ in range(3)] == [OK, QUEUED, b"*1\r\n" + OK]
        nothing_left(plain)


def test_wait_in_vain_releases_what_was_taken_also_when_the_link_has_gone(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s", wait="3s"), pooling="shared")
    # Before that, each client would have a link of its own, and be closed with it.
    until(lambda: "upstream_up" in hasp.log, "hasp to be ready to share links")
    with held(hasp, SECOND) as one, hasp.connect() as other:
        stands(plain, other, "MGET", KEY, SECOND, guard="hasp:guard:{stock:2}")
        assert plain.exists(GUARD)
        plain.client_kill_filter(_type="normal", skipme=True)
        assert is_locked(other.read(), SECOND)
        until(lambda: not plain.exists(GUARD), "the first guard to be released")
        assert one.call("SET", SECOND, 1) == OK


def test_hanging_up_after_a_wait_longer_than_the_lease_frees_the_guard(share_hasp, plain):
    hasp = share_hasp(guard(lease="2s"))
    plain.set(GUARD, "somebody")
    with hasp.connect() as one:
        one.send(encode("MULTI") + encode("GET", KEY) + encode("EXEC"))
        until(lambda: plain.zcard(QUEUE) == 1, "the transaction to enter the queue")
        queued = plain.time()
        until(lambda: plain.time()[0] > queued[0] + 2, "more time than a lease")
        plain.delete(GUARD)
        assert [one.read() for _ in range(3)] == [OK, QUEUED, b"*1\r\n" + NIL]
        plain.pexpire(GUARD, 60_000)
    until(lambda: not plain.exists(GUARD), "the guard to be released")


# --- unknown commands, and replies that are too long -----------------------------------


def test_unknown_command_is_not_passed_before_redis_has_said_what_it_is(pooling, start_hasp):
    del pooling
    with RedisServer("--rename-command", "COMMAND", "") as server:
        hasp = start_hasp(guard(), upstream=f"unix:{server.unix}")
        with hasp.connect() as one:
            assert one.call("MODULE.SET", KEY, 1).startswith(b"-LOADING ")
            assert one.call("MODULE.SET", "other", 1).startswith(b"-ERR unknown command")
            assert one.call("PING") == b"+PONG\r\n"
            assert one.call("SET", KEY, 1) == OK


@pytest.mark.parametrize("block", [False, True])
def test_reply_that_is_too_long_for_hasp_becomes_an_error(share_hasp, plain, block):
    plain.rpush(KEY, *2 * ["v" * 9_000_000])
    with share_hasp(guard()).connect() as one:
        if block:
            assert [one.call("MULTI"), one.call("LPOP", KEY, 2)] == [OK, QUEUED]
        assert one.call(*[("LPOP", KEY, 2), ("EXEC",)][block]).startswith(b"-ERR hasp: Redis has run the command, but")
        assert one.call("RPUSH", KEY, "v") == ONE
    until(lambda: plain.keys("hasp:*") == [], "the guard to be released")


def test_write_that_redis_refuses_gets_the_same_error_as_without_hasp(start_hasp):
    refusal = b"-NOREPLICAS Not enough good replicas to write.\r\n"
    with RedisServer() as server, start_hasp(guard(), upstream=f"unix:{server.unix}").connect() as one:
        assert [one.call("GET", KEY), one.call("GET", SECOND)] == [NIL, NIL]
        server.client().config_set("min-replicas-to-write", 1)
        assert one.call("SET", KEY, 1) == refusal and one.call("MSET", KEY, 1, SECOND, 1) == refusal
        server.client().config_set("min-replicas-to-write", 0)
        assert one.call("MSET", KEY, 1, SECOND, 1) == OK
