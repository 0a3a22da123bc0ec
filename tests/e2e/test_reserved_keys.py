# SPDX-License-Identifier: BSD-3-Clause
"""Keys that begin with hasp: contain the owners of locks. Clients may read but not write them."""

import pytest
from harness import encode
from harness.guards import guard
from harness.marks import covers
from harness.replies import NIL, OK, ONE, QUEUED, bulk
from harness.resp import pipeline
from harness.sections import VERBS, rule

OWN = "hasp:fence"
REFUSED = b"-NOPERM hasp: keys that begin with hasp: are reserved; clients may only read them\r\n"
SECTIONS = pytest.mark.parametrize("sections", [VERBS, rule(), guard()], ids=["verbs", "rule", "guard"])
SETS = "redis.call('SET', KEYS[1], 0)"
WRITES = [
    ("SET", OWN, 0), ("set", "hasp:", 0), ("SETNX", "hasp:guard:{a}", 1), ("DEL", OWN), ("DEL", "a", OWN, "b"),
    ("UNLINK", "hasp:queue:{a}"), ("MSET", "a", 1, OWN, 2), ("ZADD", "hasp:queue:{a}", 1, "x"), ("INCR", OWN),
    ("EXPIRE", OWN, 1), ("PERSIST", OWN), ("RENAME", "a", OWN), ("RENAME", OWN, "a"), ("RENAMENX", "a", OWN),
    ("COPY", "a", OWN), ("COPY", "a", OWN, "DB", 1), ("MOVE", OWN, 1), ("SORT", "a", "STORE", OWN),
    ("ZUNIONSTORE", OWN, 1, "a"), ("BITOP", "NOT", OWN, "a"), ("LMOVE", "a", OWN, "LEFT", "LEFT"),
    ("BLMOVE", "a", OWN, "LEFT", "LEFT", 1), ("BRPOPLPUSH", "a", OWN, 1), ("GETDEL", OWN), ("GETEX", OWN, "PX", 1),
    ("HSET", "hasp:owner:{a}", "t", 1), ("RESTORE", OWN, 0, "x"), ("SETRANGE", OWN, 0, "x"),
    ("XGROUP", "CREATE", OWN, "g", "$", "MKSTREAM"), ("xgroup", "destroy", "hasp:queue:{a}", "g"), ("XADD", OWN, "*", "f", "v"),
    ("EVAL", SETS, 1, OWN), ("EVAL", SETS, 2, "a", OWN), ("EVALSHA", "0" * 40, 1, OWN), ("FCALL", "f", 1, OWN),
    ("MIGRATE", "127.0.0.1", 1, OWN, 0, 1), ("MIGRATE", "127.0.0.1", 1, "", 0, 1, "KEYS", OWN),
]


@SECTIONS
def test_writes_of_them_are_refused(share_hasp, plain, sections):
    hasp = share_hasp(sections)
    plain.set("a", "1")
    before = plain.keys()
    with hasp.connect() as one:
        for command in WRITES:
            assert one.call(*command) == REFUSED, command
        assert plain.keys() == before


@SECTIONS
def test_nothing_else_of_a_transaction_is_refused(clients, plain, sections):
    one, = clients(1, sections)
    for command in WRITES[:5]:
        assert one.call("MULTI") == OK
        assert one.call("SET", "a", 1) == QUEUED
        assert one.call(*command) == QUEUED
        assert one.call("SET", "b", 1) == QUEUED
        assert one.call("EXEC") == b"*3\r\n+OK\r\n" + REFUSED + b"+OK\r\n"
    assert sorted(plain.keys()) == ["a", "b"]


@SECTIONS
def test_reads_of_them_pass(share_hasp, plain, sections):
    hasp = share_hasp(sections)
    plain.set(OWN, 5)
    plain.set("a", 1)
    with hasp.connect() as one:
        assert one.call("GET", OWN) == bulk("5")
        assert one.call("TTL", OWN) == b":-1\r\n"
        assert one.call("EXISTS", OWN) == ONE
        assert one.call("SCAN", 0, "MATCH", "hasp:*") == b"*2\r\n$1\r\n0\r\n*1\r\n$10\r\nhasp:fence\r\n"
        assert one.call("COPY", OWN, "mine") == ONE
        assert one.call("EVAL_RO", "return redis.call('GET', KEYS[1])", 1, OWN) == bulk("5")
        assert one.call("SORT_RO", OWN).startswith(b"-WRONGTYPE")
        # As a value or an argument, the same word is no key.
        assert one.call("SET", "a", OWN) == OK
        assert one.call("RPUSH", "list", OWN, OWN) == b":2\r\n"
        assert one.call("EVAL", "return ARGV[1]", 1, "a", OWN) == bulk(OWN)
        assert one.call("PUBLISH", OWN, "x") == b":0\r\n"
        assert one.call("SET", "hasp", 1) == OK
        assert one.call("SET", "HASP:x", 1) == OK
        assert one.call("FLUSHALL") == OK


def test_verbs_do_not_lock_them(clients, plain):
    one, = clients(1, VERBS)
    assert one.call("LOCK", OWN) == REFUSED
    assert one.call("UNLOCK", "hasp:guard:{a}") == REFUSED
    assert one.call("LOCK.EXTEND", OWN, "PX", 1) == REFUSED
    assert one.call("LOCK.INFO", "hasp:queue:{a}") == NIL
    assert one.call("LOCK", "hasp") == b":%s\r\n" % plain.get(OWN).encode()


def test_no_request_is_too_long_to_be_refused(share_hasp, plain):
    hasp = share_hasp(VERBS)
    big = "x" * 300_000
    for command in (("SET", OWN, big), ("MSET", "a", big, OWN, big), ("EVAL", SETS + " --" + big, 1, OWN),
                    ("EVAL", SETS, 1, OWN, big), ("DEL", "a" * 300_000, OWN)):
        with hasp.connect() as one:
            assert one.call(*command) == REFUSED
            assert one.call("PING") == b"+PONG\r\n"
    with hasp.connect() as one:
        assert one.call("SET", "a", big) == OK
        assert one.call("MSET", "a", big, "b", big) == OK
        assert one.call("EVAL", "return #ARGV[1]", 1, "a", big) == b":300000\r\n"
    assert sorted(plain.keys()) == ["a", "b"]


@covers("allow_own_keys")
def test_the_operator_may_allow_it(start_hasp, plain):
    hasp = start_hasp(VERBS + rule(), allow_own_keys="yes")
    with hasp.connect() as one:
        assert one.call("SET", OWN, 8 * 10**15) == OK
        assert one.call("LOCK", "k") == b":8000000000000001\r\n"
        hasp.reload("allow_own_keys = yes", "allow_own_keys = no")
        assert one.call("SET", OWN, 7) == REFUSED
    assert plain.get(OWN) == "8000000000000001"


@pytest.mark.parametrize("sections", ["", rule(mode="observe"), guard(mode="observe")], ids=["none", "rule", "guard"])
def test_where_hasp_keeps_no_locks_they_are_the_application_s(clients, plain, sections):
    one, = clients(1, sections)
    assert one.call("SET", "hasp:mine", 1) == OK
    assert one.call("DEL", "hasp:mine", "x") == ONE
    assert one.call("EVAL", SETS, 1, OWN) == NIL


def test_replies_keep_their_order(share_hasp):
    with share_hasp(VERBS).connect() as one:
        assert pipeline(one, ("SET", "a", 1), ("SET", OWN, 1), ("GET", "a"), ("DEL", OWN), ("GET", OWN)) == \
            [OK, REFUSED, bulk("1"), REFUSED, NIL]
        one.send(encode("CLIENT", "REPLY", "OFF") + encode("SET", OWN, 1) + encode("CLIENT", "REPLY", "ON"))
        assert one.read() == OK
        assert one.call("EXISTS", OWN) == b":0\r\n"


def test_reserved_keys_are_in_keys_and_in_invalidations_of_client_tracking(start_hasp, plain):
    hasp = start_hasp(rule())
    with hasp.connect() as tracking, hasp.connect() as other:
        tracking.call("HELLO", 3)
        assert tracking.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "hasp:owner:") == OK
        assert other.call("SETNX", "lock:1", "v") == ONE
        assert tracking.read() == b">2\r\n$10\r\ninvalidate\r\n*1\r\n" + bulk("hasp:owner:{lock:1}")
        assert "hasp:owner:{lock:1}" in plain.keys()
