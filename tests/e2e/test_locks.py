# SPDX-License-Identifier: BSD-3-Clause
"""How a rule changes each command, as two clients see it through hasp.

`one` and `other` are raw connections to hasp; `plain` is a client that connects directly to Redis.
test_scripts* test the scripts in each state of a lock; these tests show that commands get to the
scripts.
"""

import pytest
from harness.info import now
from harness.marks import BOTH, covers
from harness.replies import NIL, OK, ONE, ZERO, bulk
from harness.sections import rule

KEY, SIDE, RECORD = "lock:1", "hasp:owner:{lock:1}", "hasp:fence:{lock:1}"
LOCKED = b"-LOCKED 'lock:1' is held by another owner\r\n"


def end_together(plain, began, *keys):
    """Returns true if the expiries of the keys differ by no more than the script's run time."""
    ends = [plain.pexpiretime(key) for key in keys]
    return max(ends) - min(ends) <= now(plain) - began + 1


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
    began = now(plain)
    assert one.call(*command) == taken
    before = plain.get(SIDE).split(" ")[0]
    assert 0 < plain.pttl(KEY) and end_together(plain, began, KEY, SIDE)
    assert other.call(*command) == refused
    assert plain.get(SIDE).split(" ") == [before, *(["~1"] if take == "INCR" else []), plain.get(KEY)]


TWO_RULES = rule(name="short", pattern="lock:*", lease="9s") + rule(name="values", pattern="value:*", owner="value")


def test_msetnx_takes_the_locks_of_all_rules_for_its_owner_or_none(pair, plain):
    one, other = pair(TWO_RULES)
    take = ("MSETNX", "value:1", "v", "free", "w", KEY, "x")
    assert one.call(*take) == ONE
    assert 0 < plain.pttl(KEY) <= 9000 < plain.pttl("value:1") <= 30_000 and plain.ttl("free") == -1
    assert [other.call("DEL", key) for key in (KEY, "value:1", "free")] == [ZERO, ZERO, ONE]
    assert other.call(*take) == ZERO
    assert not plain.exists("free")
    assert one.call("DEL", KEY, "value:1") == b":2\r\n"
    assert other.call(*take) == ONE
    assert other.call("MSETNX", "value:2", "v", "value:3", "v", "value:3", "w") == ONE
    assert other.call("DEL", "value:3") == ONE


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
    before = plain.get(SIDE), plain.execute_command("PEXPIRETIME", KEY)
    assert other.call(*command) == refused
    assert (plain.get(SIDE), plain.execute_command("PEXPIRETIME", KEY)) == before
    assert (plain.get(KEY), plain.get("free")) == ("v", "f")


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
    began = now(plain)
    assert one.call("SET", KEY, "v", "NX", "EX", 10) == OK
    owner = plain.get(SIDE).split(" ")[0]
    assert one.call(*command) == reply
    assert (plain.get(KEY), plain.get(SIDE)) == (value, f"{owner} {value}")
    assert ttl is None or began + 1000 * ttl <= plain.pexpiretime(KEY) <= now(plain) + 1000 * ttl
    assert end_together(plain, began, KEY, SIDE)


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
    assert sorted(plain.keys("*")) == [RECORD, SIDE, KEY]


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


def test_lock_retaken_past_hasp_with_its_value_is_its_earlier_owners(pair, plain):
    """The longer lease does not matter: the owner's own script may have set it."""
    one, other = pair()
    one.call("SETNX", KEY, "same")
    plain.delete(KEY)
    plain.set(KEY, "same", nx=True, px=3600000)
    assert other.call("DEL", KEY) == ZERO
    assert one.call("DEL", KEY) == ONE


def test_counted_lock_expires_although_the_app_never_says_so(pair, plain):
    one, other = pair(rule(lease="70s"))
    assert [one.call("INCR", KEY), other.call("INCR", KEY)] == [ONE, b":2\r\n"]
    assert 60000 < plain.pttl(KEY) <= 70000
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
    assert 20 < int(other.call("TTL", KEY)[1:]) <= 30
    assert other.call("EVAL", "return redis.call('del', KEYS[1])", 1, KEY) == ONE


def test_key_that_no_pattern_matches_is_redis_own(pair, plain):
    one, other = pair()
    assert one.call("SETNX", "unlocked", "v") == ONE
    assert other.call("DEL", "unlocked") == ONE
    assert one.call("SETNX", "unlocked", "v") == ONE
    assert plain.keys("*") == ["unlocked"] and plain.ttl("unlocked") == -1


@covers("lease", "pattern")
def test_first_rule_that_matches_wins(pair, plain):
    one, _ = pair(rule("narrow", pattern="lock:night:*", lease="2h") + rule("wide", lease="5s"))
    one.call("SETNX", "lock:night:1", "v")
    one.call("SETNX", KEY, "v")
    assert plain.ttl("lock:night:1") > 7000 and plain.ttl(KEY) <= 5


@covers("max_lease")
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
def test_sidecars_are_named_after_the_key_and_hash_to_its_slot(pair, plain, key, side):
    one, other = pair()
    began = now(plain)
    assert one.call("SETNX", key, "v") == ONE
    assert other.call("DEL", key) == ZERO
    record = side.replace("owner", "fence", 1)
    assert sorted(plain.keys("*")) == sorted([key, record, side])
    assert end_together(plain, began, key, record, side)
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


@covers("reentrant")
def test_reentrant_refresh_grants_the_owner_a_second_time(pair, plain):
    one, other = pair(rule(reentrant="refresh"))
    assert one.call("SET", KEY, "v", "NX", "EX", 10) == OK
    assert one.call("SET", KEY, "w", "NX", "EX", 60) == OK
    assert plain.get(KEY) == "w" and plain.ttl(KEY) > 50
    assert other.call("SET", KEY, "x", "NX", "EX", 60) == NIL
