# SPDX-License-Identifier: BSD-3-Clause
"""EXPIRE, PERSIST, DEL, the longest lease, and hasp's own renewal and release: how long locks of
rules last, and how they end."""

import binascii
import itertools
import re

from harness import Connection
from harness.script_forms import VALUES
from harness.scripts import calls  # noqa: F401: a fixture for all tests here
from harness.scripts import (FENCE, HELD, KEY, LEASE, ME, OTHER, OWNERS, OWNERS_RESPS, SIDE, STATES, at, each, locked, parse,
                             to_hex)


# ---- EXPIRE and similar commands

@each(state=STATES, owner=OWNERS, name=["EXPIRE", "pexpire", "EXPIREAT", "PEXPIREAT"],
      seconds=[50, 5, 0, -3], options=[[], ["NX"], ["XX"], ["gt"], ["LT"], ["XX", "GT"], ["LT", "XX"]])
def test_expiring_goes_for_lock_and_sidecar_alike(world, state, owner, name, seconds, options):
    token = world.put(state, owner=owner)
    number = at(seconds) if name.endswith("AT") else seconds
    argv = [name, KEY, number * (1 if name in ("EXPIRE", "EXPIREAT") else 1000), *options]
    before = world.dump()
    reply = world.run(*argv, owner=owner, token=token)
    assert world.last.effect == ("expires" if int(argv[2]) > 0 else "drops")
    if state == "another's":
        assert reply == b":0\r\n"
        assert world.dump() == before
        return
    assert reply == world.plain(*argv)
    if not world.db.exists(KEY):
        assert state != "mine" or owner == "value" or not world.db.exists(SIDE)
    elif state == "wrong type":
        now, then = world.db.pexpiretime(KEY), world.other_db.pexpiretime(KEY)
        assert (now < 0) == (then < 0) and abs(now - then) <= world.elapsed()
    else:
        ttl = seconds * 1000 if reply == b":1\r\n" else 20000
        if reply == b":0\r\n" and state in ("unending", "mine unending"):
            ttl = LEASE
        mine = state in ("mine", "mine unending") and owner != "value"
        world.assert_lock("held", ttl, owner=ME if mine else None)


PROLONGS = [["EXPIRE", KEY, 90000], ["EXPIREAT", KEY, at(90000)], ["GETEX", KEY, "EX", 90000],
            ["GETEX", KEY, "PXAT", at(90000) * 1000], ["GETEX", KEY, "PERSIST"], ["MSET", KEY, "held"],
            ["SET", KEY, "held", "EX", 90000], ["GETSET", KEY, "held"]]


@each(owner=OWNERS, argv=PROLONGS)
def test_what_prolongs_a_lock_prolongs_the_record_of_its_try_too(world, owner, argv):
    """Otherwise a late answer to a refresh of the lock could not be confirmed."""
    world.run("SET", KEY, "held", "NX", "PX", 5000, owner=owner, ticket="w-1")
    world.run(*argv, owner=owner, token="held" if owner == "value" else ME)
    ends, record_ends = world.db.pexpiretime(KEY), world.db.pexpiretime(FENCE)
    assert ends > at(20) * 1000 and 0 <= record_ends - ends <= world.elapsed()


@each(argv=[["PERSIST", KEY], ["EXPIRE", KEY, 500, "XX"], ["INCR", KEY], ["APPEND", KEY, "0"]])
def test_a_lock_that_lost_its_expiry_past_hasp_gets_one_as_does_its_record(world, argv):
    world.run("INCR", KEY, lease=5000)
    world.db.persist(KEY)
    world.run(*argv)
    ends, record_ends = world.db.pexpiretime(KEY), world.db.pexpiretime(FENCE)
    assert ends > at(20) * 1000 and abs(record_ends - ends) <= world.elapsed()


def test_expiring_tells_the_tables(world):
    world.put("mine")
    for argv, lease in ((["EXPIRE", KEY, 7], 7000), (["PEXPIRE", KEY, 7000], 7000),
                        (["EXPIRE", KEY, -7], 0), (["EXPIREAT", KEY, at(7)], 0)):
        world.run(*argv)
        assert (world.last.leased, world.last.lease_ms) == (True, lease)


# ---- PERSIST

@each(state=STATES, owner=OWNERS)
def test_persist_is_refused_to_strings(world, state, owner):
    token = world.put(state, owner=owner)
    if state == "wrong type":
        for db in (world.db, world.other_db):
            db.expire(KEY, 100)
        assert world.run("PERSIST", KEY, owner=owner, token=token) == b":1\r\n"
        assert world.db.pttl(KEY) == -1
        return
    assert world.run("PERSIST", KEY, owner=owner, token=token) == b":0\r\n"
    if state in HELD:
        world.assert_lock("held", LEASE if "unending" in state else 20000,
                          owner={"mine": ME, "mine unending": ME, "another's": OTHER}.get(state)
                          if owner != "value" else None)


# ---- DEL and UNLINK

@each("owner, resp", OWNERS_RESPS, command=["DEL", "UNLINK", "del"], state=STATES)
def test_dropping_spares_others_locks(world, command, state, owner, resp):
    token = world.put(state, owner=owner)
    before = world.dump()
    reply = world.run(command, KEY, resp=resp, owner=owner, token=token)
    assert world.last.effect == "drops"
    if state == "another's":
        assert reply == b":0\r\n"
        assert world.dump() == before
        return
    assert reply == world.plain(command, KEY, resp=resp)
    assert world.last.succeeded(reply) == (state in HELD)
    assert not world.db.exists(KEY)
    assert owner == "value" or not world.db.exists(SIDE)


@each(command=["DEL", "UNLINK"])
def test_dropping_many_keys_counts_those_that_went(world, command):
    world.run("SET", "lock:mine", "1", "NX")
    world.run("SET", "lock:other", "1", "NX", token=OTHER)
    world.db.mset({"lock:nobody": "x", "free": "y", "a": 1, "b": 2})
    reply = world.run(command, "a", "lock:mine", "lock:other", "b", "lock:mine", "gone", "a",
                      "lock:nobody", "lock:gone")
    assert reply == b":4\r\n"
    assert sorted(world.db.keys()) == [b"free", b"hasp:fence:{lock:other}", b"hasp:owner:{lock:other}",
                                       b"lock:other"]


@each(count=[999, 1000, 1001, 12345])
def test_dropping_thousands_of_keys(world, count):
    pipe = world.db.pipeline()
    for i in range(count):
        pipe.set(f"k:{i}", 1)
    pipe.execute()
    for i in range(count):
        if i % 100 == 0:
            world.run("SETNX", f"lock:{i}", "v", token=OTHER if i % 200 else ME)
    keys = [f"k:{i}" for i in range(count)] + [f"lock:{i}" for i in range(count)]
    mine = len(range(0, count, 200))
    assert world.run("DEL", *keys) == b":%d\r\n" % (count + mine)
    assert world.db.dbsize() == 3 * (len(range(0, count, 100)) - mine)


# ---- max_lease

@each(owner=OWNERS, argv=[
    ["SETNX", KEY, "v"], ["SET", KEY, "v", "NX", "PX", 90000], ["SET", KEY, "v", "EX", 90],
    ["SET", KEY, "v", "NX", "EXAT", at(90000)], ["SET", KEY, "v", "PXAT", at(90000) * 1000],
    ["SET", KEY, "v", "NX", "GET", "EXAT", at(90000)], ["SETEX", KEY, 90, "v"],
    ["PSETEX", KEY, 90000, "v"], ["GETSET", KEY, "v"], ["INCR", KEY], ["MSETNX", KEY, "v"], ["APPEND", KEY, "v"],
    ["SET", KEY, "v", "NX", "PX", 9000000000000000]])
def test_max_lease_caps_a_new_lock(world, argv, owner):
    token = world.put("free", owner=owner)
    world.run(*argv, owner=owner, token=token, lease=5000, longest=8000)
    left = world.db.pttl(KEY)
    assert world.is_left(left, 5000) or world.is_left(left, 8000)
    if world.db.exists(SIDE):
        world.assert_end_together(KEY, SIDE)


@each(argv=[
    ["EXPIRE", KEY, 900], ["PEXPIRE", KEY, 900000], ["EXPIREAT", KEY, at(90000)],
    ["PEXPIREAT", KEY, at(90000) * 1000], ["EXPIRE", KEY, 900, "XX"], ["SET", KEY, "v", "KEEPTTL"],
    ["GETEX", KEY, "EX", 900], ["EXPIRE", KEY, 900, "LT"]])
def test_max_lease_caps_a_held_lock(world, argv):
    world.put("mine")
    world.run(*argv, lease=5000, longest=8000)
    if argv[-1] == "LT":
        assert world.db.pttl(KEY) <= 20000  # PEXPIRE LT does not lengthen the expiry
        return
    assert world.is_left(world.db.pttl(KEY), 8000)
    world.assert_end_together(KEY, SIDE)


def test_max_lease_is_not_for_other_types(world):
    world.db.rpush(KEY, "x")
    assert world.run("EXPIRE", KEY, 900, lease=5000, longest=8000) == b":1\r\n"
    assert world.is_left(world.db.pttl(KEY), 900000)


def test_expiries_beyond_lua_numbers_survive(world):
    world.run("SET", KEY, "v", "NX", "PX", 9000000000000000000 - 1)
    assert world.run("APPEND", KEY, "w") == b":2\r\n"
    assert world.db.get(SIDE) == ME.encode() + b" vw"
    assert world.db.pttl(KEY) > 10 ** 14
    assert world.db.pttl(SIDE) > 10 ** 14


# ---- names and values

@each("key, side", [
    ("lock", "hasp:owner:{lock}"), ("lock:{a}b", "hasp:owner:lock:{a}b:"),
    ("lock{}", "hasp:owner:{lock{}}"), ("lock{a", "hasp:owner:{lock{a}"),
    ("lock}{a}", "hasp:owner:lock}{a}:"), ("lock{}{a}", "hasp:owner:{lock{}{a}}"),
    ("lock {a b}\r\n", "hasp:owner:lock {a b}\r\n:")])
def test_the_sidecar_stands_in_the_locks_slot(world, key, side):
    assert world.run("SET", key, "v", "NX") == b"+OK\r\n"
    assert world.db.get(side) == ME.encode() + b" v"
    assert world.run("APPEND", key, "w") == b":2\r\n"
    assert world.run("DEL", key, token=OTHER) == b":0\r\n"
    assert world.run("DEL", key) == b":1\r\n"
    assert world.db.keys() == []
    if not key.startswith("lock{}"):  # Redis hashes all of such a key, so no name puts the sidecar into its slot
        assert slot(key.encode()) == slot(side.encode())


def slot(key):
    """Returns the slot of a key in a Redis Cluster (CRC16, XMODEM)."""
    tag = re.search(rb"\{(.*?)\}", key, re.S)
    if tag and tag[1]:
        key = tag[1]
    return binascii.crc_hqx(key, 0) % 16384


@each(value=VALUES)
def test_any_value_is_owned(world, value):
    for argv in (["SET", KEY, value, "NX"], ["SET", KEY, value], ["SET", KEY, value, "XX"]):
        assert world.run(*argv) == b"+OK\r\n"
        world.assert_lock(value, LEASE)
        assert world.run("SET", KEY, value, token=OTHER) == locked(KEY)
        assert world.run("DEL", KEY, token=OTHER) == b":0\r\n"
    assert world.run("DEL", KEY) == b":1\r\n"


# ---- hasp's own calls

def test_renewal_prolongs_the_owners_lock_only(world):
    world.put("mine")
    assert world.renew(("r", KEY, ME, 40000, 0)) == [1]
    world.assert_lock("held", 40000)
    assert world.renew(("r", KEY, ME, 10000, 0)) == [1]
    world.assert_lock("held", 40000)
    for state in ("another's", "nobody's", "stale", "free", "left over", "wrong type"):
        world.put(state)
        before = world.dump()
        is_free = state in ("free", "left over", "wrong type")  # holds no lock
        assert world.renew(("r", KEY, ME, LEASE, 0)) == [0 if is_free else -2]
        assert world.release("r", KEY, ME) == 0
        assert world.dump() == before


def test_renewal_prolongs_the_record_of_the_try_too(world):
    """hasp confirms a late answer by this record, so the record must last as long as the lock."""
    world.run("SET", KEY, "held", "NX", "PX", 5000, ticket="w-1")
    assert world.renew(("r", KEY, ME, 40000, 0)) == [1]
    assert world.is_left(world.db.pttl(f"hasp:fence:{{{KEY}}}"), 40000)


@each(expiry=[{}, {"px": 15_000}, {"px": 60_000}])
def test_lock_that_was_retaken_past_hasp_with_its_value_is_neither_renewed_nor_released(world, expiry):
    world.run("SET", KEY, "held", "NX", "PX", 20000, ticket="w-1")
    assert world.poll("r", ME, "w-1", 0, "held")[0] == "granted"
    world.db.set(KEY, "held", **expiry)
    before = world.dump()
    assert world.renew(("r", KEY, ME, 40000, 0)) == [-2]
    assert world.release("r", KEY, ME, "w-1") == 0
    assert world.poll("r", ME, "w-1", 0, "held", 40000)[0] == "gone"
    assert world.dequeue("r", ME, "w-1", 0, value="held") == ["gone", 0, 0]
    assert world.dump() == before


def test_renewal_by_value_gives_an_unending_lock_an_end(world):
    world.put("unending", owner="value")
    assert world.renew(("v", KEY, "held", LEASE, 0)) == [1]
    world.assert_lock("held", LEASE, owner=None)


def test_many_rules_locks_are_renewed_in_one_call(world):
    for i in range(40):
        world.run("SET", f"lock:{i}", "v", "NX", "PX", 5000, token=OTHER if i % 4 == 1 else ME)
    world.db.delete("lock:2")
    world.db.lpush("lock:2", "of another type")
    world.db.set("lock:v", "mine", px=5000)
    locks = [("r", f"lock:{i}", ME, LEASE + i, 0) for i in range(41)]
    assert world.renew(*locks, ("v", "lock:v", "mine", LEASE, 0), ("v", "lock:v", "x", 1, 0)) == \
        [0 if i in (2, 40) else -2 if i % 4 == 1 else 1 for i in range(41)] + [1, -2]
    assert world.is_left(world.db.pttl("lock:39"), LEASE + 39)
    assert world.is_left(world.db.pttl("hasp:owner:{lock:39}"), LEASE + 39)
    assert world.db.pttl("lock:1") <= 5000 and world.db.pttl("lock:2") == -1
    assert world.is_left(world.db.pttl("lock:v"), LEASE)


def test_a_lock_that_redis_refuses_to_renew_holds_up_no_other(world, server):
    world.run("SET", "lock:a", "v", "NX", "PX", 5000)
    world.run("SET", "lock:b", "v", "NX", "PX", 5000)
    world.db.delete("hasp:owner:{lock:a}")
    world.db.lpush("hasp:owner:{lock:a}", "x")
    world.db.acl_setuser("limited", enabled=True, nopass=True, keys=["lock:*", "hasp:*"],
                         commands=["+@all", "-get"])
    locks = [("r", "lock:a", ME, LEASE, 0), ("r", "lock:b", ME, LEASE, 0)]
    assert world.renew(*locks) == [-2, 1]  # the sidecar of lock:a names no owner
    with Connection(server.unix) as c:
        c.call("AUTH", "limited", "x")
        c.send(world.tool.own("renew", *itertools.chain(*(
            (kind, to_hex(key), to_hex(token), lease, fence)
            for kind, key, token, lease, fence in locks))))
        assert parse(c.read()) == [-1, -1]


@each("owner, kind", [("connection", "r"), ("value", "v")])
def test_release_leaves_what_the_same_owner_has_taken_since(world, owner, kind):
    world.run("SET", KEY, "held", "NX", "PX", 5000, owner=owner, ticket="w-1")
    world.db.delete(KEY)
    world.run("SET", KEY, "held", "NX", "PX", 3000, owner=owner, ticket="w-2")
    before = world.dump()
    token = "held" if kind == "v" else ME
    assert world.release(kind, KEY, token, "w-1", 5000) == 0
    assert world.dump() == before
    world.db.delete(FENCE)  # the record ends before a lock whose owner set a longer expiry
    assert world.release(kind, KEY, token, "w-2", 1000) == 0
    assert world.release(kind, KEY, token, "w-2", 3000) == 1
    assert world.db.keys() == []


def test_release_of_a_refreshed_lock_names_the_latest_try_or_none(world):
    for ticket in "w-1", "w-2":
        assert world.run("SETNX", KEY, "held", reentrant="refresh", ticket=ticket) == b":1\r\n"
    assert world.release("r", KEY, ME, "w-1") == 0
    assert world.release("r", KEY, ME, "-") == 1


def test_release_takes_lock_and_sidecar(world):
    world.put("mine")
    assert world.release("r", KEY, ME) == 1
    assert world.db.keys() == []


def test_renewal_and_release_by_value(world):
    world.put("nobody's")
    assert world.renew(("v", KEY, "else", LEASE, 0)) == [-2]
    assert world.release("v", KEY, "else") == 0
    assert world.renew(("v", KEY, "held", LEASE, 0)) == [1]
    world.assert_lock("held", LEASE, owner=None)
    assert world.release("v", KEY, "held") == 1
    assert world.db.keys() == []
