# SPDX-License-Identifier: BSD-3-Clause
"""All other writes on a key with a rule run in a script, and leave no string without an expiry."""

import pytest
from harness.script_forms import CONTENTS, WRITES
from harness.scripts import KEY, LEASE, ME, OTHER, OWNERS_RESPS, SIDE, STATES, at, command_table, each, locked

# ---- one by one

@each("owner, resp", OWNERS_RESPS, argv=WRITES, state=STATES)
def test_other_writes_run_inside_the_check(world, argv, state, owner, resp):
    token = world.put(state, owner=owner)
    before = world.dump()
    reply = world.run(*argv, resp=resp, owner=owner, token=token)
    assert world.last.script == "write"
    if state == "another's":
        assert reply == locked(KEY)
        assert world.dump() == before
        return
    assert reply == world.plain(*argv, resp=resp)
    value = world.db.get(KEY) if world.db.type(KEY) == b"string" else None
    assert world.db.type(KEY) == world.other_db.type(KEY)
    if value is None:
        assert not state.startswith("mine") or not world.db.exists(SIDE)
        assert world.db.type(KEY) == b"none" or world.db.pttl(KEY) == -1
        return
    assert value == world.other_db.get(KEY)
    if not reply.startswith(b"-"):
        ttl = world.other_db.pttl(KEY)
        world.assert_lock(value, LEASE if ttl == -1 else ttl + 50,
                          owner=ME if state.startswith("mine") and owner != "value" else None)


def test_a_write_names_the_first_lock_that_forbids_it(world):
    world.run("SET", "lock:a", "1", "NX")
    world.run("SET", "lock:b", "1", "NX", token=OTHER)
    assert world.run("MSET", "x", 1, "lock:a", 2, "lock:b", 3) == locked("lock:b")
    assert world.db.get("lock:a") == b"1" and not world.db.exists("x")


def test_long_names_and_control_characters_cannot_spoil_the_error(world):
    for name, shown in ((b"lock:" + b"x" * 300, "lock:" + "x" * 123),
                        (b"lock:\r\n+OK\r\n\0", "lock:??+OK???")):
        world.run("SET", name, "1", "NX", token=OTHER)
        assert world.run("SET", name, "2") == locked(shown)
        assert world.run("APPEND", name, "2") == locked(shown)


def test_mset_of_thousands_of_keys(world):
    pairs = [x for i in range(6000) for x in (f"lock:{i}" if i % 3 == 0 else f"k:{i}", i)]
    world.run("SETNX", "lock:3", "v")
    assert world.run("MSET", *pairs) == b"+OK\r\n"
    assert world.db.get("lock:5997") == b"5997" and world.db.get("k:5999") == b"5999"
    assert world.db.get("hasp:owner:{lock:3}") == ME.encode() + b" 3"
    assert 0 < world.db.pttl("lock:5997") <= LEASE and world.db.pttl("k:5999") == -1
    assert world.run("MSETNX", *pairs) == b":0\r\n"
    world.db.flushdb()
    assert world.run("MSETNX", *pairs) == b":1\r\n"
    assert world.db.get("k:5999") == b"5999"
    assert world.db.get("hasp:owner:{lock:5997}") == ME.encode() + b" 5997"
    world.run("SET", "lock:3000", "v", "NX", token=OTHER)
    world.db.delete("lock:3000")
    world.run("SET", "lock:3000", "v", "NX", token=OTHER)
    assert world.run("MSET", *pairs) == locked("lock:3000")


@each(count=[6997, 6998, 6999, 7000, 8000, 20000])
def test_writes_with_thousands_of_arguments(world, count):
    items = [f"i{i}" for i in range(count)]
    assert world.run("RPUSH", "lock:list", *items) == b":%d\r\n" % count
    reply = world.run("PFADD", "lock:hll", *items)
    if count < 7000 - 1:
        assert reply == b":1\r\n"
    else:
        assert reply == b"-ERR too many arguments for a key with a lock rule\r\n"
        assert not world.db.exists("lock:hll")


# ---- properties over all write commands of the server

def plausible(k, date, dumped):
    """Returns {write command of Redis 7.0: arguments that change or create a string}."""
    return {
        "append": [[k, "x"]], "bitfield": [[k, "SET", "u8", 0, 1], [k, "GET", "u8", 0]],
        "bitop": [["AND", k, "donor"], ["NOT", k, k], ["OR", "x", k]],
        "copy": [["donor", k], ["donor", k, "REPLACE"], [k, "x"]],
        "decr": [[k]], "decrby": [[k, 3]], "del": [[k], ["donor", k]],
        "expire": [[k, 100], [k, 100, "XX"], [k, 100, "GT"], [k, -1]],
        "expireat": [[k, date], [k, date, "XX"]],
        "geoadd": [[k, 1, 2, "m"]],
        "georadius": [["geo", 1, 2, 900, "km", "STORE", k], [k, 1, 2, 9, "km"]],
        "georadiusbymember": [["geo", "m", 9, "km", "STOREDIST", k]],
        "geosearchstore": [[k, "geo", "FROMMEMBER", "m", "BYRADIUS", 9, "km"]],
        "getdel": [[k]], "getex": [[k], [k, "PERSIST"], [k, "EX", 100], [k, "PXAT", 1]],
        "getset": [[k, "v"]], "hdel": [[k, "f"]], "hincrby": [[k, "f", 1]],
        "hincrbyfloat": [[k, "f", 1]], "hmset": [[k, "f", 1]], "hset": [[k, "f", 1]],
        "hsetnx": [[k, "f", 1]], "incr": [[k]], "incrby": [[k, 5], [k, 1]],
        "incrbyfloat": [[k, "1.5"]], "linsert": [[k, "BEFORE", "a", "b"]],
        "lmove": [["list", k, "LEFT", "LEFT"]], "lmpop": [[1, k, "LEFT"], [2, k, "list", "LEFT"]],
        "lpop": [[k], [k, 2]], "lpush": [[k, "a"]], "lpushx": [[k, "a"]], "lrem": [[k, 0, "a"]],
        "lset": [[k, 0, "a"]], "ltrim": [[k, 0, 0]], "move": [[k, 7]],
        "mset": [[k, "v"], ["x", "1", k, "v"], [k, 1, k, 2]], "msetnx": [[k, "v"]],
        "persist": [[k]], "pexpire": [[k, 100000], [k, 100000, "XX"]],
        "pexpireat": [[k, date * 1000], [k, 1]], "pfadd": [[k, "a"], [k]],
        "pfdebug": [["TODENSE", k]], "pfmerge": [[k], [k, "hll"]], "psetex": [[k, 100000, "v"]],
        "rename": [["donor", k], [k, "x"], [k, k]], "renamenx": [["donor", k], [k, "x"]],
        "restore": [[k, 0, dumped], [k, 0, dumped, "REPLACE"], [k, 5000, dumped, "REPLACE"]],
        "restore-asking": [[k, 0, dumped, "REPLACE"]],
        "rpop": [[k], [k, 1]], "rpoplpush": [["list", k]], "rpush": [[k, "a"]],
        "rpushx": [[k, "a"]], "sadd": [[k, "a"]], "sdiffstore": [[k, "set"], [k, "nil"]],
        "set": [[k, "v"], [k, "v", "KEEPTTL"], [k, "v", "GET"], [k, "v", "XX"], [k, "v", "NX"],
                [k, "v", "EX", 9], [k, "v", "PXAT", date * 1000]],
        "setbit": [[k, 7, 1]], "setex": [[k, 100, "v"]], "setnx": [[k, "v"]],
        "setrange": [[k, 0, "v"], [k, 0, ""]], "sinterstore": [[k, "set", "set"]],
        "smove": [["set", k, "a"]], "sort": [["list", "ALPHA", "STORE", k], [k, "ALPHA"]],
        "spop": [[k], [k, 1]], "srem": [[k, "a"]], "sunionstore": [[k, "set"]],
        "unlink": [[k]], "xack": [[k, "g", "1-1"]], "xadd": [[k, "1-1", "a", "b"]],
        "xautoclaim": [[k, "g", "c", 0, 0]], "xclaim": [[k, "g", "c", 0, "1-1"]],
        "xdel": [[k, "1-1"]], "xsetid": [[k, "9-9"]], "xtrim": [[k, "MAXLEN", 0]],
        "zadd": [[k, 1, "m"], [k, "INCR", "1.5", "m"]], "zdiffstore": [[k, 1, "zset"]],
        "zincrby": [[k, "2.5", "m"]], "zinterstore": [[k, 1, "zset"]],
        "zmpop": [[1, k, "MIN"], [2, "nil", k, "MAX", "COUNT", 5]], "zpopmax": [[k], [k, 2]],
        "zpopmin": [[k], [k, 1]], "zrangestore": [[k, "zset", 0, -1]], "zrem": [[k, "m"]],
        "zremrangebylex": [[k, "-", "+"]], "zremrangebyrank": [[k, 0, -1]],
        "zremrangebyscore": [[k, "-inf", "+inf"]], "zunionstore": [[k, 2, "zset", "geo"]],
    }


DUMPED = "what DUMP returns"
PLAUSIBLE = [[name, *args] for name, calls in plausible(KEY, at(90000), DUMPED).items() for args in calls]


DONORS = [("SET", "donor", 7), ("RPUSH", "list", "a", "b"), ("SADD", "set", "a", "b"),
          ("ZADD", "zset", 1.5, "m", 2, "n"), ("GEOADD", "geo", 1, 2, "m"), ("PFADD", "hll", "a")]

ELSEWHERE = {  # have no keys, or hasp gives them a private link
    "flushall", "flushdb", "swapdb", "migrate", "xreadgroup",
    "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin"}


@pytest.fixture(scope="module")
def writes(server):
    return {name for name, entry in command_table(server).items() if "write" in entry[2]} - ELSEWHERE


def test_each_write_command_has_a_plausible_call(writes):
    assert writes <= {name for name, *_ in PLAUSIBLE}


@each("owner, resp", OWNERS_RESPS, argv=PLAUSIBLE,
      having=[*((content, "nobody") for content in CONTENTS), ("string", "me"), ("hll", "me")])
def test_no_write_leaves_a_string_without_an_end(world, writes, having, argv, owner, resp):
    """The reply equals Redis' unless another owner has the key."""
    name = argv[0]
    if name not in writes:
        return  # a write command that this version of Redis lacks
    content, holder = having
    world.fill(*DONORS, *CONTENTS[content])
    token = "" if owner == "value" else ME
    if holder == "me":
        value = world.db.get(KEY)
        token = value if owner == "value" else ME
        if owner != "value":
            world.db.set(SIDE, ME.encode() + b" " + value, px=9000)
    argv = [world.db.dump("donor") if arg == DUMPED else arg for arg in argv]
    before = world.dump()
    reply = world.run(*argv, resp=resp, owner=owner, token=token)
    kind = world.db.type(KEY)
    refused = world.last.effect == "takes" and world.dump() == before
    if name != "persist" and not refused:
        assert same(reply, world.plain(*argv, resp=resp))
    if refused or world.last.passed or reply.startswith(b"-"):
        return
    if kind == b"string":
        assert world.db.pttl(KEY) > 0
    elif kind != b"none" and name not in ("expire", "pexpire", "expireat", "pexpireat"):
        assert world.db.pttl(KEY) == -1
    note = world.db.get(SIDE)
    if note is not None and kind == b"string":
        world.assert_end_together(KEY, SIDE)


def same(ours, native):
    """Compares replies. Lua cannot return a null array; clients accept either null."""
    return ours == native or (native == b"*-1\r\n" and ours == b"$-1\r\n")
