# SPDX-License-Identifier: BSD-3-Clause
"""owner = value: a connection can delete a lock only if it has stored or read the lock's value."""

import pytest
from harness import encode
from harness.marks import covers
from harness.replies import NIL, OK, ONE, ZERO, bulk
from harness.sections import rule

KEY, OTHER = "lock:a", "lock:b"


def by_value(**settings):
    return rule(owner="value", **settings)


@pytest.fixture
def two(pair, plain):
    """Returns two connections, of which the first has the lock."""
    one, other = pair(by_value())
    assert one.call("SET", KEY, "uuid-1", "NX", "PX", 60_000) == OK
    return one, other


DELETE = pytest.mark.parametrize("command", ["DEL", "UNLINK"])


@DELETE
def test_stranger_does_not_delete(two, plain, command):
    one, other = two
    assert other.call(command, KEY) == ZERO
    assert plain.get(KEY) == "uuid-1"
    assert one.call(command, KEY) == ONE


@covers("foreign_del")
@DELETE
def test_stranger_deletes_where_that_is_allowed(pair, plain, command):
    one, other = pair(by_value(foreign_del="allow"))
    assert one.call("SETNX", KEY, "uuid-1") == ONE
    assert other.call(command, KEY) == ONE
    assert not plain.exists(KEY)


def test_late_del_of_an_expired_lock_does_not_remove_the_next_one(pair, plain):
    one, other = pair(by_value(foreign_del="allow"))
    assert one.call("SET", KEY, "uuid-1", "NX", "PX", 60_000) == OK
    plain.delete(KEY)  # as if the lock had expired
    assert other.call("SET", KEY, "uuid-2", "NX") == OK
    assert one.call("DEL", KEY) == ZERO
    assert plain.get(KEY) == "uuid-2"


def test_connections_of_a_pool_release_for_each_other(pair, plain):
    """Each connection has stored the same value before, in a lock that was deleted since."""
    one, other = pair(by_value(foreign_del="allow"))
    for taker, releaser in ((one, other), (other, one), (one, one), (other, one)):
        assert taker.call("SET", KEY, "uuid", "NX") == OK
        assert releaser.call("DEL", KEY) == ONE
    assert not plain.exists(KEY)


READS = pytest.mark.parametrize("read", [
    [("GET", KEY)],
    [("MGET", "free", OTHER, KEY)],
    [("MULTI",), ("GET", KEY), ("EXEC",)],
    [("MULTI",), ("PING",), ("MGET", OTHER, KEY), ("EXEC",)],
])


@READS
@DELETE
def test_connection_that_has_read_the_value_deletes(two, plain, read, command):
    """In a pool, another connection may have stored the value."""
    _, other = two
    for each in read:
        assert not other.call(*each).startswith(b"-")
    assert other.call(command, KEY) == ONE
    assert not plain.exists(KEY)


@READS
def test_value_that_was_read_is_compared(two, plain, read):
    _, other = two
    for each in read:
        other.call(*each)
    plain.set(KEY, "uuid-2", px=60_000)
    assert other.call("DEL", KEY) == ZERO
    assert plain.get(KEY) == "uuid-2"


def test_transaction_reads_and_a_later_one_deletes(two, plain):
    _, other = two
    assert other.call("GET", KEY) == bulk("uuid-1")
    assert other.call("MULTI") == OK
    other.call("DEL", KEY)
    assert other.call("EXEC") == b"*1\r\n" + ONE


def test_what_was_read_last_counts_before_what_was_stored_earlier(two, plain):
    one, other = two
    plain.delete(KEY)
    assert other.call("SET", KEY, "uuid-2", "NX") == OK
    assert one.call("DEL", KEY) == ZERO
    assert one.call("GET", KEY) == bulk("uuid-2")
    assert one.call("DEL", KEY) == ONE


def test_what_was_stored_last_counts_before_what_was_read_earlier(two, plain):
    one, other = two
    assert other.call("GET", KEY) == bulk("uuid-1")
    assert one.call("DEL", KEY) == ONE
    assert other.call("SET", KEY, "uuid-2", "NX") == OK
    assert other.call("DEL", KEY) == ONE


def test_reading_that_it_is_free_is_no_knowledge(two, plain):
    _, other = two
    other.call("GET", KEY)
    plain.delete(KEY)
    assert other.call("GET", KEY) == NIL
    plain.set(KEY, "uuid-1", px=60_000)
    assert other.call("DEL", KEY) == ZERO


@pytest.mark.parametrize("read", [
    ("EVAL", "return redis.call('GET', KEYS[1])", 1, KEY), ("STRLEN", KEY), ("GETRANGE", KEY, 0, 2), ("EXISTS", KEY),
    ("GET", OTHER)])
def test_other_reads_do_not_count(two, plain, read):
    _, other = two
    assert not other.call(*read).startswith(b"-")
    assert other.call("DEL", KEY) == ZERO


def test_read_in_another_database_does_not_count(two, plain):
    one, other = two
    assert one.call("SELECT", 1) == OK
    assert one.call("SET", KEY, "uuid-1") == OK
    assert one.call("SELECT", 0) == OK
    assert other.call("SELECT", 1) == OK
    assert other.call("GET", KEY) == bulk("uuid-1")
    assert other.call("SELECT", 0) == OK
    assert other.call("DEL", KEY) == ZERO


@pytest.mark.parametrize("command", [
    ("GETDEL", KEY), ("RENAME", KEY, "x"), ("RENAME", "x", KEY), ("APPEND", KEY, "x"), ("MOVE", KEY, 1),
    ("COPY", "x", KEY, "REPLACE"), ("MSET", KEY, "x"), ("SET", KEY, "x"), ("SETRANGE", KEY, 0, "x"), ("INCRBY", KEY, 2)])
def test_stranger_s_other_writes_are_refused(two, plain, command):
    _, other = two
    plain.set("x", "x")
    assert other.call(*command).startswith(b"-LOCKED ")
    assert plain.get(KEY) == "uuid-1"
    assert other.call("GET", KEY) == bulk("uuid-1")
    assert other.call("APPEND", KEY, "x") == b":7\r\n"


@pytest.mark.parametrize("command, reply", [(("GETEX", KEY), bulk("uuid-1")), (("COPY", KEY, "free"), ONE),
                                            (("BITFIELD", KEY, "GET", "u8", 0), b"*1\r\n:117\r\n")])
def test_what_leaves_the_lock_is_open_to_all(two, plain, command, reply):
    _, other = two
    assert other.call(*command) == reply
    assert plain.get(KEY) == "uuid-1"


EXPIRIES = pytest.mark.parametrize("command, refused, done", [
    (("EXPIRE", KEY, 50), ZERO, ONE), (("PEXPIRE", KEY, 50_000), ZERO, ONE), (("pexpire", KEY, 40_000, "LT"), ZERO, ONE),
    (("EXPIREAT", KEY, 4_102_444_800), ZERO, ONE), (("PEXPIREAT", KEY, 99_999_999_999_999), ZERO, ONE),
    (("GETEX", KEY, "PX", 50_000), b"-LOCKED 'lock:a' is held by another owner\r\n", bulk("uuid-1")),
    (("GETEX", KEY, "PERSIST"), b"-LOCKED 'lock:a' is held by another owner\r\n", bulk("uuid-1"))])


@EXPIRIES
def test_stranger_does_not_set_the_expiry(two, plain, command, refused, done):
    one, other = two
    ends = plain.pexpiretime(KEY)
    assert other.call(*command) == refused
    assert (plain.get(KEY), plain.pexpiretime(KEY)) == ("uuid-1", ends)
    assert other.call("GET", KEY) == bulk("uuid-1")
    assert other.call(*command) == done
    assert plain.pexpiretime(KEY) != ends
    assert one.call("PEXPIRE", KEY, 1) == ONE


@EXPIRIES
def test_stranger_sets_the_expiry_where_that_is_allowed(pair, plain, command, refused, done):
    one, other = pair(by_value(foreign_del="allow"))
    assert one.call("SET", KEY, "uuid-1", "NX", "PX", 60_000) == OK
    ends = plain.pexpiretime(KEY)
    assert other.call(*command) == done
    assert plain.pexpiretime(KEY) != ends


def test_expiry_of_a_lock_that_has_another_value_by_now_is_refused(two, plain):
    one, other = two
    assert other.call("GET", KEY) == bulk("uuid-1")
    plain.set(KEY, "uuid-2", px=60_000)
    assert [each.call("EXPIRE", KEY, 50) for each in two] == [ZERO, ZERO]
    assert other.call("GETEX", KEY, "PX", 50_000).startswith(b"-LOCKED")


@pytest.mark.parametrize("command", [("EXPIRE", KEY, 0), ("PEXPIRE", KEY, -1), ("EXPIREAT", KEY, 1), ("pexpireat", KEY, 5)])
def test_expiry_in_the_past_is_no_way_round(two, plain, command):
    one, other = two
    assert other.call(*command) == ZERO
    assert plain.get(KEY) == "uuid-1"
    assert one.call(*command) == ONE


def test_keys_without_a_rule_go_along(two, plain):
    one, other = two
    plain.mset({"x": 1, "y": 1})
    assert other.call("DEL", "x", KEY, "y", OTHER) == b":2\r\n"
    plain.mset({"x": 1, "y": 1})
    assert one.call("DEL", "x", KEY, "y") == b":3\r\n"


@pytest.mark.parametrize("options", [("GET",), ("XX", "GET"), ("XX",), ()])
def test_value_that_replaces_one_s_own_is_known(two, plain, options):
    one, _ = two
    assert not one.call("SET", KEY, "uuid-2", *options).startswith(b"-")
    assert plain.get(KEY) == "uuid-2"
    assert one.call("DEL", KEY) == ONE


def test_value_of_getset_is_known(two):
    one, _ = two
    assert one.call("GETSET", KEY, "uuid-2") == bulk("uuid-1")
    assert one.call("DEL", KEY) == ONE


def test_count_is_deleted_by_the_one_who_took_it(pair, plain):
    one, other = pair(by_value())
    assert one.call("INCR", KEY) == ONE
    assert other.call("INCR", KEY) == b":2\r\n"
    assert other.call("DEL", KEY) == ZERO
    assert one.call("DEL", KEY) == ONE


def test_long_value_is_deleted_by_the_one_who_stored_it(pair, plain):
    one, other = pair(by_value())
    assert one.call("SETNX", KEY, 5000 * "v") == ONE
    other.call("GET", KEY)
    assert other.call("DEL", KEY) == ZERO
    assert one.call("DEL", KEY) == ONE


def test_no_more_values_are_remembered_than_1024(two, plain):
    _, other = two
    plain.mset({f"lock:{n}": "v" for n in range(1024)})
    other.call("GET", KEY)
    other.call("MGET", *(f"lock:{n}" for n in range(1024)))
    assert other.call("DEL", KEY) == ZERO
    assert other.call("DEL", "lock:0") == ONE


def test_keys_of_other_types_are_no_locks(pair, plain):
    plain.rpush(KEY, "x")
    _, other = pair(by_value())
    assert other.call("RPUSH", KEY, "y") == b":2\r\n"
    assert other.call("DEL", KEY) == ONE


def test_other_owners_are_not_concerned(pair, plain):
    """With owner = connection, a lock without a record beside it belongs to no client."""
    plain.set(KEY, "v", px=60_000)
    one, _ = pair(rule())
    assert one.call("DEL", KEY) == ONE


def test_value_that_was_stored_by_a_command_whose_reply_hasp_does_not_see_counts(pair, plain):
    """After CLIENT REPLY SKIP, hasp sees no replies on this connection."""
    one, other = pair(by_value())
    one.send(encode("CLIENT", "REPLY", "SKIP") + encode("PING"))
    assert one.call("SET", KEY, "uuid-1", "NX") == OK and one.call("DEL", KEY) == ONE
    assert other.call("SET", KEY, "uuid-2", "NX") == OK
    assert one.call("SET", KEY, "uuid-3", "NX") == NIL and one.call("DEL", KEY) == ZERO
    assert plain.get(KEY) == "uuid-2"


def test_empty_value_gives_no_right_to_delete_another_one(pair, plain):
    one, other = pair(by_value())
    plain.set(KEY, "")
    assert one.call("GET", KEY) == bulk("")
    plain.set(KEY, "uuid-1")
    assert one.call("DEL", KEY) == ZERO
    other.send(encode("CLIENT", "REPLY", "SKIP") + encode("PING"))
    assert other.call("SET", KEY, "", "NX") == NIL and other.call("DEL", KEY) == ZERO
    assert plain.get(KEY) == "uuid-1"
