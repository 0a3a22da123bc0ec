# SPDX-License-Identifier: BSD-3-Clause
"""The scripts of LOCK, UNLOCK, LOCK.EXTEND and LOCK.INFO."""

import re

from harness import Connection
from harness.script_forms import CONTENTS
from harness.scripts import calls  # noqa: F401: a fixture for all tests here
from harness.scripts import FENCE, KEY, LOCK_LAYOUTS, LEASE, ME, NIL, OTHER, RESPS, WORKER, bulk, each


@each(layout=LOCK_LAYOUTS, resp=RESPS)
def test_lock_gives_a_token_that_only_rises(world, layout, resp):
    last = 0
    for _ in range(3):
        reply = world.verb("LOCK", KEY, layout=layout, resp=resp)
        assert world.last.effect == "takes" and world.last.succeeded(reply)
        assert int(reply[1:]) > last
        last = int(reply[1:])
        assert world.verb("LOCK", KEY, layout=layout, resp=resp, token=OTHER) == NIL[resp]
        assert world.verb("UNLOCK", KEY, layout=layout, resp=resp, token=OTHER) == b":0\r\n"
        assert world.verb("UNLOCK", KEY, layout=layout, resp=resp) == b":1\r\n"
        assert world.last.effect == "drops"
        assert world.db.keys() == [b"hasp:fence"]
        assert world.verb("UNLOCK", KEY, layout=layout, resp=resp) == b":0\r\n"


@each("args, ttl, leased", [([], LEASE, False), (["PX", 7000], 7000, True), (["ex", 7], 7000, True)],
      layout=LOCK_LAYOUTS)
def test_lock_sets_the_lease(world, layout, args, ttl, leased):
    assert world.verb("LOCK", KEY, *args, layout=layout) == world.fenced()
    assert (world.last.leased, world.last.lease_ms) == (leased, ttl)
    assert world.last.owner == ME.encode() and world.last.key == KEY.encode()
    for key in (KEY, FENCE):
        assert world.is_left(world.db.pttl(key), ttl)
    assert world.db.get(FENCE).startswith(f"{ME} {world.fence()} {WORKER}-".encode())
    if layout == "count":
        assert world.db.hgetall(KEY) == {ME.encode(): b"1"}
    else:
        assert world.db.get(KEY) == ME.encode()


def test_a_counted_lock_counts_and_keeps_its_fence(world):
    first = world.verb("LOCK", KEY, "PX", 7000)
    for n in (2, 3):
        assert world.verb("LOCK", KEY, "PX", 7000) == first
        assert world.db.hget(KEY, ME) == b"%d" % n
    world.db.pexpire(KEY, 5000)
    assert world.verb("UNLOCK", KEY) == b":1\r\n"
    assert world.db.hget(KEY, ME) == b"2" and world.db.pttl(KEY) <= 5000
    assert world.db.exists(FENCE)
    assert world.verb("UNLOCK", KEY) == b":1\r\n"
    assert world.verb("UNLOCK", KEY) == b":1\r\n"
    assert world.db.keys() == [b"hasp:fence"]
    assert world.verb("UNLOCK", KEY) == b":0\r\n"


@each("side, kind, field", [((), "h", "bob"), (["SHARED"], "m", "bob"), (["EXCLUSIVE"], "x", "bob:write")],
      given_back=["1", "2", "x"])
def test_hold_that_was_given_back_is_not_given_back_again(world, side, kind, field, given_back):
    """If a connection dies after an UNLOCK, hasp also undoes the hold by its ticket."""
    for n in "12":
        assert world.verb("LOCK", KEY, "AS", "bob", *side, ticket=f"{WORKER}-{n}") == world.fenced()
    assert world.verb("UNLOCK", KEY, "AS", "bob", ticket=f"{WORKER}-{given_back}") == b":1\r\n"
    # UNLOCK with an unknown ticket releases the oldest hold.
    gone, left = ("2", "1") if given_back == "2" else ("1", "2")
    assert world.dequeue(kind, "bob", f"{WORKER}-{gone}", 0) == ["gone", 0, 0]
    assert world.db.hget(KEY, field) == b"1"
    assert world.dequeue(kind, "bob", f"{WORKER}-{left}", 0) == ["undone", 0, 0]
    assert not world.db.exists(KEY)


@each("side, layout", [((), "count"), ((), "refresh"), (["SHARED"], "count"), (["EXCLUSIVE"], "count")])
def test_unlock_of_a_hold_that_ended_leaves_the_one_that_another_connection_got_later(world, side, layout):
    """Redis may run an UNLOCK late, after the lease."""
    ended = world.verb("LOCK", KEY, "AS", "bob", *side, layout=layout, ticket=f"{WORKER}-1")
    world.db.delete(KEY)
    later = world.verb("LOCK", KEY, "AS", "bob", *side, layout=layout, ticket=f"{WORKER}-2")
    for fence, reply in (ended, b":0\r\n"), (later, b":1\r\n"):
        ticket = f"{WORKER}-1 {int(fence[1:])}"
        assert world.verb("UNLOCK", KEY, "AS", "bob", layout=layout, ticket=ticket) == reply
        assert world.db.exists(KEY) == (reply == b":0\r\n")


@each("side, kind", [((), "h"), (["SHARED"], "m"), (["EXCLUSIVE"], "x")], verb=["UNLOCK", "MUNLOCK 1"], undone=["1", "2"])
def test_unlock_of_a_hold_that_was_undone_leaves_the_one_of_another_connection(world, side, kind, verb, undone):
    """hasp undoes a hold of a connection that breaks. Redis may run an UNLOCK of that connection after that."""
    verb, *n = verb.split()
    for ticket in "12":
        fence = world.verb("LOCK", KEY, "AS", "bob", *side, ticket=f"{WORKER}-{ticket}")
    assert world.dequeue(kind, "bob", f"{WORKER}-{undone}", 0) == ["undone", 0, 0]
    for ticket, reply in (undone, b":0\r\n"), ({"1": "2", "2": "1"}[undone], b":1\r\n"):
        assert world.db.exists(KEY)
        assert world.verb(verb, *n, KEY, "AS", "bob", ticket=f"{WORKER}-{ticket} {int(fence[1:])}") == reply
    assert not world.db.exists(KEY)


@each("side, kind", [((), "h"), (["SHARED"], "m"), (["EXCLUSIVE"], "x")])
def test_hold_of_a_connection_that_was_undone_leaves_nothing_behind(world, side, kind):
    token = f"connection:{ME}"
    for ticket in "12":
        world.verb("LOCK", KEY, *side, token=token, ticket=f"{WORKER}-{ticket}")
    assert world.dequeue(kind, token, f"{WORKER}-2", 0) == ["undone", 0, 0]
    assert world.db.keys("hasp:owner:*") == []


@each("side, layout", [((), "count"), ((), "refresh"), (["SHARED"], "count"), (["EXCLUSIVE"], "count")])
def test_munlock_of_holds_that_ended_leaves_those_that_another_connection_got_later(world, side, layout):
    """Redis may run a MUNLOCK late, after the leases."""
    keys = "{k}a", "{k}b"
    ended = world.verb("MLOCK", 2, *keys, "AS", "bob", layout=layout, ticket=f"{WORKER}-1")
    world.db.delete(keys[1])
    later = world.verb("LOCK", keys[1], "AS", "bob", *side, layout=layout, ticket=f"{WORKER}-2")
    for fence, replies in (ended, (b":1\r\n", b":0\r\n")), (later, (b":1\r\n",)):
        ticket = f"{WORKER}-1 {int(fence[1:])}"
        for reply in replies:
            assert world.db.exists(keys[1])
            assert world.verb("MUNLOCK", 2, *keys, "AS", "bob", layout=layout, ticket=ticket) == reply
    assert not world.db.exists(*keys)


@each(field=["bob", "bob:write"])
def test_hold_that_another_way_gave_back_is_not_given_back_again(world, field):
    """Each UNLOCK removes one hold, also if its ticket names a hold that was released before."""
    side, kind = (["EXCLUSIVE"], "x") if field == "bob:write" else ([], "h")
    for n in "123":
        world.verb("LOCK", KEY, "AS", "bob", *side, ticket=f"{WORKER}-{n}")
    for _ in range(2):
        assert world.verb("UNLOCK", KEY, "AS", "bob", ticket=f"{WORKER}-1") == b":1\r\n"
    for n in "12":
        assert world.dequeue(kind, "bob", f"{WORKER}-{n}", 0) == ["gone", 0, 0]
    assert world.db.hget(KEY, field) == b"1"
    assert world.dequeue(kind, "bob", f"{WORKER}-3", 0) == ["undone", 0, 0]


def test_refresh_refreshes_and_keeps_its_fence(world):
    first = world.verb("LOCK", KEY, "PX", 5000, layout="refresh")
    assert world.verb("LOCK", KEY, "PX", 9000, layout="refresh") == first == world.fenced()
    assert world.is_left(world.db.pttl(KEY), 9000) and world.is_left(world.db.pttl(FENCE), 9000)
    assert world.verb("LOCK", KEY, layout="no") == b"$-1\r\n"
    assert world.verb("UNLOCK", KEY, layout="refresh") == b":1\r\n"


@each(layout=["count", "refresh"], record=[None, f"{OTHER} 1 x-1", f"{ME} - x-1", "junk", "list"])
def test_reentry_without_its_record_gets_a_new_fence(world, layout, record):
    first = world.verb("LOCK", KEY, layout=layout)
    world.db.delete(FENCE)
    if record == "list":
        world.db.rpush(FENCE, "x")
    elif record:
        world.db.set(FENCE, record)
    assert int(first[1:]) < int(world.verb("LOCK", KEY, layout=layout)[1:]) == world.fence()
    assert world.db.get(FENCE).startswith(f"{ME} {world.fence()} ".encode())
    assert world.db.pttl(FENCE) > 0


@each("name, channel", [
    ("job", "redisson_lock__channel:{job}"), ("{a}job", "redisson_lock__channel:{a}job"),
    ("job{", "redisson_lock__channel:job{")])
def test_unlocking_tells_redissons_waiters(world, server, name, channel):
    with Connection(server.unix) as listener:
        listener.call("SUBSCRIBE", channel)
        world.verb("LOCK", name)
        world.verb("LOCK", name)
        world.verb("UNLOCK", name)
        world.verb("UNLOCK", name)
        assert listener.read() == b"*3\r\n" + bulk("message") + bulk(channel) + bulk("0")
        assert listener.call("PING") == b"*2\r\n" + bulk("pong") + bulk("")


REDISSON_LOCK = """
if ((redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1)) then
redis.call('hincrby', KEYS[1], ARGV[2], 1);
redis.call('pexpire', KEYS[1], ARGV[1]);
return nil; end;
return redis.call('pttl', KEYS[1]);"""
GOZERO_LOCK = """
if redis.call("GET", KEYS[1]) == ARGV[1] then
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2]) return "OK"
else return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) end"""


def test_redisson_and_lock_exclude_each_other(world):
    assert world.db.eval(REDISSON_LOCK, 1, KEY, 9000, "uuid:1") is None
    assert world.verb("LOCK", KEY) == b"$-1\r\n"
    assert world.verb("UNLOCK", KEY) == b":0\r\n"
    world.db.delete(KEY)
    world.verb("LOCK", KEY)
    assert world.db.eval(REDISSON_LOCK, 1, KEY, 9000, "uuid:1") > 0
    assert world.verb("LOCK", KEY, "AS", "uuid:1") == b"$-1\r\n"
    assert world.verb("UNLOCK", KEY) == b":1\r\n"
    assert world.db.eval(REDISSON_LOCK, 1, KEY, 9000, "uuid:1") is None
    assert world.verb("LOCK", KEY, "AS", "uuid:1")[:1] == b":"


def test_gozero_and_lock_exclude_each_other(world):
    assert world.db.eval(GOZERO_LOCK, 1, KEY, "id", 9000) == b"OK"
    assert world.verb("LOCK", KEY, layout="refresh") == b"$-1\r\n"
    world.db.delete(KEY)
    world.verb("LOCK", KEY, layout="refresh")
    assert world.db.eval(GOZERO_LOCK, 1, KEY, "id", 9000) is None
    world.verb("UNLOCK", KEY, layout="refresh")
    assert world.db.eval(GOZERO_LOCK, 1, KEY, "id", 9000) == b"OK"


@each(layout=LOCK_LAYOUTS)
def test_as_names_the_owner(world, layout):
    assert world.verb("LOCK", KEY, "AS", "bob", "PX", 9000, layout=layout) == world.fenced()
    assert world.last.owner == b"bob" and world.last.lease_ms == 9000
    assert world.verb("UNLOCK", KEY, layout=layout) == b":0\r\n"
    assert world.verb("EXTEND", KEY, "EX", 60, layout=layout) == b":0\r\n"
    assert world.verb("EXTEND", KEY, "as", "bob", "EX", 60, layout=layout) == b":1\r\n"
    assert world.last.effect == "expires" and world.last.owner == b"bob"
    assert world.is_left(world.db.pttl(KEY), 60000) and world.is_left(world.db.pttl(FENCE), 60000)
    assert world.verb("UNLOCK", KEY, "AS", "bob", layout=layout) == b":1\r\n"
    assert world.verb("EXTEND", KEY, "EX", 60, layout=layout) == b":0\r\n"


@each(layout=LOCK_LAYOUTS)
def test_max_lease_caps_the_verbs(world, layout):
    world.verb("LOCK", KEY, "EX", 900, layout=layout, longest=8000)
    assert world.is_left(world.db.pttl(KEY), 8000) and world.last.lease_ms == 8000
    world.verb("EXTEND", KEY, "EX", 900, layout=layout, longest=9000)
    assert world.is_left(world.db.pttl(KEY), 9000)


@each(layout=LOCK_LAYOUTS, resp=RESPS)
def test_info_tells_all_there_is(world, layout, resp):
    assert world.verb("INFO", KEY, layout=layout, resp=resp) == NIL[resp]
    world.verb("LOCK", KEY, layout=layout)
    holds = 1
    if layout == "count":
        world.verb("LOCK", KEY, layout=layout)
        holds = 2
    reply = world.verb("INFO", KEY, layout=layout, resp=resp)
    ttl = int(re.search(rb"ttl\r\n:(\d+)", reply)[1])
    assert world.is_left(ttl, LEASE)
    pairs = [bulk("owner") + bulk(ME), bulk("holds") + b":%d\r\n" % holds,
             bulk("ttl") + b":%d\r\n" % ttl, bulk("fence") + world.fenced(),
             bulk("waiters") + b":0\r\n"]
    if resp == 2:
        assert reply == b"*10\r\n" + b"".join(pairs)
    else:
        assert reply.startswith(b"%5\r\n")
        assert len(reply) == len(b"%5\r\n" + b"".join(pairs)) and all(p in reply for p in pairs)
    world.db.delete(FENCE)
    assert bulk("fence") + NIL[resp] in world.verb("INFO", KEY, layout=layout, resp=resp)


WRONGTYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"


@each(layout=LOCK_LAYOUTS, resp=RESPS, content=["list", "set", "zset", "stream", "string or hash"])
def test_verbs_on_another_type(world, layout, resp, content):
    if content == "string or hash":
        content = "string" if layout == "count" else "hash"
    world.fill(*CONTENTS[content])
    before = world.dump()
    for verb, args in (("LOCK", []), ("UNLOCK", []), ("EXTEND", ["PX", 1000])):
        assert world.verb(verb, KEY, *args, layout=layout, resp=resp) == WRONGTYPE
    if content not in ("string", "hash"):
        assert world.verb("INFO", KEY, layout=layout, resp=resp) == WRONGTYPE
    assert world.dump() == before


@each("verb, args, error", [
    ("LOCK", [], "wrong number of arguments for 'lock' command"),
    ("UNLOCK", [], "wrong number of arguments for 'unlock' command"),
    ("EXTEND", [], "wrong number of arguments for 'lock.extend' command"),
    ("EXTEND", [KEY], "wrong number of arguments for 'lock.extend' command"),
    ("EXTEND", [KEY, "PX"], "wrong number of arguments for 'lock.extend' command"),
    ("INFO", [], "wrong number of arguments for 'lock.info' command"),
    ("INFO", [KEY, "x"], "wrong number of arguments for 'lock.info' command"),
    ("LOCK", [KEY, "PX"], "syntax error"), ("LOCK", [KEY, "FOO", "1"], "syntax error"),
    ("LOCK", [KEY, "WAIT"], "syntax error"), ("UNLOCK", [KEY, "WAIT", "1"], "syntax error"),
    ("LOCK", [KEY, "WAIT", "1", "WAIT", "1"], "syntax error"),
    ("LOCK", [KEY, "WAIT", "x"], "timeout is not an integer or out of range"),
    ("LOCK", [KEY, "WAIT", "0.5"], "timeout is not an integer or out of range"),
    ("LOCK", [KEY, "WAIT", "-1"], "timeout is negative"),
    ("LOCK", [KEY, "AS", ""], "syntax error"),
    ("LOCK", [KEY, "AS", "a b"], "syntax error"), ("LOCK", [KEY, "AS"], "syntax error"),
    ("LOCK", [KEY, "PX", "1", "EX", "1"], "syntax error"),
    ("LOCK", [KEY, "PX", "1", "PX", "1"], "syntax error"),
    ("LOCK", [KEY, "AS", "a", "AS", "b"], "syntax error"),
    ("LOCK", [KEY, "PX", "x", "FOO"], "syntax error"),
    ("UNLOCK", [KEY, "PX", "1"], "syntax error"), ("UNLOCK", [KEY, "AS"], "syntax error"),
    ("EXTEND", [KEY, "AS", "bob"], "syntax error"),
    ("LOCK", [KEY, "PX", "x"], "value is not an integer or out of range"),
    ("LOCK", [KEY, "PX", ""], "value is not an integer or out of range"),
    ("LOCK", [KEY, "PX", "99999999999999999999"], "value is not an integer or out of range"),
    ("EXTEND", [KEY, "EX", "1.5"], "value is not an integer or out of range"),
    ("LOCK", [KEY, "PX", "0"], "invalid expire time in 'lock' command"),
    ("LOCK", [KEY, "PX", "-1"], "invalid expire time in 'lock' command"),
    ("LOCK", [KEY, "EX", "9223372036854775"], "invalid expire time in 'lock' command"),
    ("LOCK", [KEY, "PX", "9223372036854775807"], "invalid expire time in 'lock' command"),
    ("EXTEND", [KEY, "PX", "0"], "invalid expire time in 'lock.extend' command"),
], resp=RESPS)
def test_wrong_verbs_get_an_error(world, verb, args, error, resp):
    assert world.verb(verb, *args, resp=resp) == f"-ERR {error}\r\n".encode()
    assert world.last.effect == "none"
    assert world.db.keys() == []


@each(layout=LOCK_LAYOUTS)
def test_hasps_own_calls_on_verbs(world, layout):
    world.verb("LOCK", KEY, layout=layout, ticket="w-1")
    if layout == "count":
        world.verb("LOCK", KEY, layout=layout, ticket="w-2")
    kind = "h" if layout == "count" else "s"
    fence = world.fence()
    assert world.renew((kind, KEY, OTHER, 60000, fence)) == [-2]
    assert world.release(kind, KEY, OTHER) == 0
    assert world.db.pttl(KEY) <= LEASE
    assert world.renew((kind, KEY, ME, 60000, fence)) == [1]
    assert world.is_left(world.db.pttl(KEY), 60000) and world.is_left(world.db.pttl(FENCE), 60000)
    assert world.renew((kind, KEY, ME, 10000, fence)) == [1]
    assert world.is_left(world.db.pttl(KEY), 60000)
    assert world.release(kind, KEY, ME) == 1
    assert world.db.keys() == [b"hasp:fence"]
    assert world.renew((kind, KEY, ME, LEASE, fence)) == [0]


def test_many_verbs_locks_are_renewed_in_one_call(world):
    fences = []
    for i in range(8):
        assert world.verb("LOCK", f"job:{i}", "PX", 5000, layout="count" if i % 2 else "no",
                          token=OTHER if i == 4 else ME) == world.fenced()
        fences.append(world.fence())
    world.db.delete("job:5", "job:6")
    world.db.lpush("job:6", "x")
    locks = [("h" if i % 2 else "s", f"job:{i}", ME, LEASE, fence) for i, fence in enumerate([*fences, 1])]
    # -1: Redis refuses to read job:6 as a lock, because it is a list.
    assert world.renew(*locks) == [1, 1, 1, 1, -2, 0, -1, 1, 0]
    assert world.is_left(world.db.pttl("job:7"), LEASE) and world.is_left(world.db.pttl("hasp:fence:{job:7}"), LEASE)
    assert world.db.pttl("job:4") <= 5000


@each(layout=LOCK_LAYOUTS)
def test_a_lock_that_was_taken_again_since_is_not_renewed(world, layout):
    """The same owner may have taken the lock with another lease, which hasp must not renew."""
    kind = "h" if layout == "count" else "s"
    world.verb("LOCK", KEY, layout=layout)
    before = world.fence()
    world.verb("UNLOCK", KEY, layout=layout)
    assert world.verb("LOCK", KEY, "PX", 5000, layout=layout) == world.fenced()
    assert world.renew((kind, KEY, ME, LEASE, before)) == [-2]
    assert world.db.pttl(KEY) <= 5000
    assert world.renew((kind, KEY, ME, LEASE, world.fence())) == [1]
    assert world.is_left(world.db.pttl(KEY), LEASE)
