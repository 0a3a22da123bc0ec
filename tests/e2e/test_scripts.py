# SPDX-License-Identifier: BSD-3-Clause
"""What the rewritten commands and their scripts do on a real Redis, without a proxy.

The rewriter is asked through rewrite_tool for the bytes that hasp would send; they
are sent as they are. Where a rule does not apply, the reply is compared byte for
byte with that of the plain command, run from the same state in another database.
$REWRITE_TOOL names the program; otherwise it is built here.
"""

import binascii
import itertools
import os
import re
import subprocess
import time

import pytest
import redis as redis_py

from harness import TOP, Connection, RedisServer, encode

LEASE = 30000
ME, OTHER = "10.0.0.1:4711/0/c0ffee", "10.0.0.2:4712/1/decade"
KEY, SIDE, FENCE = "lock:1", "hasp:owner:{lock:1}", "hasp:fence:{lock:1}"
SIDECAR_OWNERS = ["connection", "address", "name", "user"]
SOURCES = ["lock/rewrite/rule.c", "lock/rewrite/rule_take.c", "lock/rewrite/maintenance.c", "lock/rewrite/verb.c",
           "lock/scripts/script_call.c", "commands/args.c", "commands/set_options.c",
           "lock/model/key_names.c", "commands/command.c", "resp/write.c", "base/buf.c", "base/fatal.c"]


def build_tool(directory):
    proxy = TOP / "proxy"
    embedded = directory / "script_embed.c"
    embedded.write_bytes(subprocess.check_output(
        ["sh", proxy / "lock/scripts/embed.sh", proxy / "lock/scripts/scripts.def", proxy / "lock/scripts"]))
    program = directory / "rewrite_tool"
    subprocess.check_call(
        ["cc", "-std=gnu11", f"-I{proxy}", f"-I{TOP}", "-o", program,
         TOP / "tests/e2e/rewrite_tool.c", embedded, *(proxy / name for name in SOURCES)])
    return program


class Call:
    """What the rewriter said: `passed`, or the fields of a struct lock_call."""

    def __init__(self, words):
        self.passed = words[0] == "pass"
        self.effect = "none"
        if self.passed:
            return
        self.script, self.effect, self.success = words[1:4]
        self.leased, self.lease_ms = words[4] == "1", int(words[5])
        self.key, self.value, self.owner = map(unhex, words[6:9])
        self.kind, self.wait_ms, self.wire = words[9], int(words[10]), unhex(words[11])

    def succeeded(self, reply):
        return not reply.startswith(b"-") and {
            "ok": reply.startswith(b"+"),
            "one": reply == b":1\r\n",
            "positive": reply[:1] == b":" and int(reply[1:]) > 0,
            "nil": reply in (b"$-1\r\n", b"_\r\n"),
            "no-error": True}[self.success]


def as_bytes(arg):
    return arg if isinstance(arg, bytes) else str(arg).encode()


def to_hex(arg):
    return as_bytes(arg).hex() or "-"


def unhex(word):
    return b"" if word == "-" else bytes.fromhex(word)


WORKER = "00000000000000aa"


class Tool:
    def __init__(self, program):
        self.serial = itertools.count(1)
        self.child = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True)

    def ask(self, *words):
        self.child.stdin.write(" ".join(map(str, words)) + "\n")
        self.child.stdin.flush()
        return self.child.stdout.readline().split()

    def how(self, inline=False, resp=2, token=ME, ticket=None, may_wait=0, place=0):
        """`may_wait`: for how many ms at most a try may stand in line."""
        if ticket is None:
            ticket = f"{WORKER}-{next(self.serial):x}"
        return [int(inline), resp, to_hex(ticket), may_wait, place, to_hex(token)]

    def lock(self, argv, owner="connection", lease=LEASE, longest=0, reentrant="no", wait=0,
             **how):
        return Call(self.ask("lock", owner, lease, longest, reentrant, wait, *self.how(**how),
                             *map(to_hex, argv)))

    def verb(self, verb, argv, layout="count", lease=LEASE, longest=0, **how):
        return Call(self.ask("verb", verb, layout, lease, longest, *self.how(**how),
                             *map(to_hex, argv)))

    def own(self, what, *words):
        return unhex(self.ask(what, *words)[0])

    def stop(self):
        self.child.stdin.close()
        self.child.wait()


@pytest.fixture(scope="module")
def tool(tmp_path_factory):
    program = os.environ.get("REWRITE_TOOL") or build_tool(tmp_path_factory.mktemp("tool"))
    tool = Tool(program)
    yield tool
    tool.stop()
    assert tool.child.returncode == 0


@pytest.fixture(scope="module")
def server():
    with RedisServer() as server:
        yield server


def load_scripts(tool, client):
    words = tool.ask("scripts")
    for name, sha, text in zip(words[::3], words[1::3], words[2::3]):
        assert client.script_load(unhex(text)) == sha, name
    return words[::3]


class World:
    """Redis with the scripts loaded: ours works in database 0, plain Redis in 1."""

    def __init__(self, tool, server):
        self.tool, self.server = tool, server
        self.db = redis_py.Redis(unix_socket_path=str(server.unix))
        self.other_db = redis_py.Redis(unix_socket_path=str(server.unix), db=1)
        load_scripts(tool, self.db)
        self.ours = {v: self.connect(server, v, 0) for v in (2, 3)}
        self.plainly = {v: self.connect(server, v, 1) for v in (2, 3)}
        self.last = None

    @staticmethod
    def connect(server, version, db):
        c = Connection(server.unix)
        c.call("HELLO", version)
        assert c.call("SELECT", db) == b"+OK\r\n"
        return c

    def close(self):
        for c in [*self.ours.values(), *self.plainly.values()]:
            c.close()

    def run(self, *argv, resp=2, **rule):
        """The reply to a command on keys with a rule; what passes, passes."""
        self.last = call = self.tool.lock(argv, resp=resp, **rule)
        self.ours[resp].send(encode(*argv) if call.passed else call.wire)
        return self.ours[resp].read()

    def verb(self, verb, *args, resp=2, **rule):
        self.last = call = self.tool.verb(verb, [verb, *args], resp=resp, **rule)
        self.ours[resp].send(call.wire)
        return self.ours[resp].read()

    def plain(self, *argv, resp=2):
        if as_bytes(argv[0]).lower() == b"move":
            argv = [*argv[:2], argv[2] + 1]  # where ours is not in the way
        return self.plainly[resp].call(*argv)

    def own(self, what, *words):
        self.ours[2].send(self.tool.own(what, *words))
        return parse(self.ours[2].read())

    def renew(self, *locks):
        """Each: kind, key, token, lease, fence."""
        return self.own("renew", *itertools.chain(*(
            (kind, to_hex(key), to_hex(token), lease, fence)
            for kind, key, token, lease, fence in locks)))

    def release(self, kind, key, token, least=0, most=0):
        """As hasp does it at disconnect: of a lock that counts, every try gives back its hold."""
        if kind in "rv":
            return self.own("release", kind, to_hex(key), to_hex(token), least, most)
        _, _, ticket = (self.db.get(f"hasp:fence:{{{key}}}") or b"- 0 ?").decode().split(" ")
        if kind == "s":
            return self.own("unlock", kind, to_hex(key), to_hex(token), to_hex(ticket.lstrip("=")))
        joined = self.db.zrange(f"hasp:owner:{{{key}}}", 0, -1)
        tickets = [ticket, *(member.decode().split(" ")[1] for member in joined)]
        undone = [self.own("leave", kind, to_hex(key), to_hex(token), to_hex("v"), to_hex(ticket), 0,
                           "undo")[0] == "undone" for ticket in tickets]
        return int(any(undone))

    def check(self, kind, token, ticket, place, value="v", lease=0):
        return self.own("check", kind, to_hex(KEY), to_hex(token), to_hex(value),
                        to_hex(ticket), place, lease)

    def leave(self, kind, token, ticket, place, what="undo", value="v"):
        return self.own("leave", kind, to_hex(KEY), to_hex(token), to_hex(value),
                        to_hex(ticket), place, what)

    # -- states

    def put(self, state, key=KEY, owner="connection"):
        """Makes the state in both databases; returns the token of who asks."""
        self.db.flushall()
        side = f"hasp:owner:{{{key}}}"
        for db in (self.db, self.other_db):
            if state in ("mine", "another's", "nobody's", "stale"):
                db.set(key, "held", px=20000)
            elif state in ("unending", "mine unending"):
                db.set(key, "held")
            elif state == "wrong type":
                db.rpush(key, "x")
        if owner == "value":
            return {"mine": "held", "mine unending": "held", "another's": "else"}.get(state, "")
        if state in ("mine", "mine unending"):
            self.db.set(side, f"{ME} held", px=20000)
        elif state == "another's":
            self.db.set(side, f"{OTHER} held", px=20000)
        elif state == "stale":
            self.db.set(side, f"{OTHER} was", px=20000)
        elif state in ("left over", "wrong type"):
            self.db.set(side, f"{OTHER} held", px=20000)
        return ME

    def dump(self, db=None):
        """Every key with its value and the moment of its end."""
        db = self.db if db is None else db
        return {k: (db.dump(k), db.pexpiretime(k)) for k in db.keys()}

    def assert_lock(self, value, ttl, owner=ME, key=KEY, side=SIDE):
        """The lock is there, and its sidecar (owner None: no valid one)."""
        value = as_bytes(value)
        assert self.db.get(key) == value
        assert ttl - 2000 < self.db.pttl(key) <= ttl, (self.db.pttl(key), ttl)
        if owner is None:
            note = self.db.get(side)
            assert note is None or note.split(b" ", 1)[1] != value
            return
        assert self.db.get(side) == owner.encode() + b" " + value
        assert 0 <= self.db.pexpiretime(side) - self.db.pexpiretime(key) <= 50


@pytest.fixture(scope="module")
def one_world(tool, server):
    world = World(tool, server)
    yield world
    world.close()


@pytest.fixture
def world(one_world):
    one_world.db.flushall()
    one_world.db.config_resetstat()
    return one_world


STATES = ["free", "mine", "another's", "nobody's", "stale", "left over", "wrong type",
          "unending", "mine unending"]
HELD = [s for s in STATES if s not in ("free", "left over")]
NIL = {2: b"$-1\r\n", 3: b"_\r\n"}


def bulk(text):
    text = as_bytes(text)
    return b"$%d\r\n%s\r\n" % (len(text), text)


def locked(key):
    return f"-LOCKED '{key}' is held by another owner\r\n".encode()


resps = pytest.mark.parametrize("resp", [2, 3])
states = pytest.mark.parametrize("state", STATES)
owners = pytest.mark.parametrize("owner", [*SIDECAR_OWNERS, "value"])


def at(seconds):
    """An absolute time that long from now."""
    return int(time.time()) + seconds


# ---- SETNX and SET NX

TAKES = {
    "SETNX": (lambda: ["SETNX", KEY, "v"], LEASE),
    "setnx": (lambda: ["setnx", KEY, "v"], LEASE),
    "NX": (lambda: ["SET", KEY, "v", "NX"], LEASE),
    "nx px": (lambda: ["set", KEY, "v", "nx", "px", 7000], 7000),
    "PX NX": (lambda: ["SET", KEY, "v", "PX", 7000, "NX"], 7000),
    "EX NX": (lambda: ["SET", KEY, "v", "Ex", 7, "nX"], 7000),
    "EXAT NX": (lambda: ["SET", KEY, "v", "EXAT", at(60), "NX"], 60000),
    "NX PXAT": (lambda: ["SET", KEY, "v", "NX", "PXAT", at(60) * 1000], 60000),
    "NX KEEPTTL": (lambda: ["SET", KEY, "v", "NX", "KEEPTTL"], LEASE),
    "GET NX": (lambda: ["SET", KEY, "v", "GET", "NX"], LEASE),
    "NX GET EX": (lambda: ["SET", KEY, "v", "NX", "GET", "EX", 7], 7000),
    "EX twice": (lambda: ["SET", KEY, "v", "EX", 3, "NX", "EX", 7], 7000),
}


@pytest.mark.parametrize("form", TAKES)
@states
@owners
@resps
def test_taking_answers_as_redis_and_notes_the_owner(world, form, state, owner, resp):
    make, ttl = TAKES[form]
    argv = make()
    token = world.put(state, owner=owner)
    before = world.dump()
    reply = world.run(*argv, resp=resp, owner=owner, token=token)
    assert reply == world.plain(*argv, resp=resp)
    free = state in ("free", "left over")
    assert world.last.effect == "takes" and world.last.value == b"v"
    assert world.last.succeeded(reply) == free
    if not free:
        assert world.dump() == before
    elif owner == "value":
        world.assert_lock("v", ttl, owner=None)
        assert state == "left over" or not world.db.exists(SIDE)
    else:
        world.assert_lock("v", ttl)


@pytest.mark.parametrize("form", TAKES)
@pytest.mark.parametrize("state", ["mine", "mine unending"])
@pytest.mark.parametrize("owner", ["connection", "value"])
def test_taking_again_refreshes_when_the_rule_says_so(world, form, state, owner):
    make, ttl = TAKES[form]
    argv = make()
    token = world.put(state, owner=owner)
    if owner == "value":
        argv[2] = "held"  # the very same value
    reply = world.run(*argv, owner=owner, token=token, reentrant="refresh")
    assert world.last.succeeded(reply)
    if argv[0].upper() == "SETNX":
        assert reply == b":1\r\n"
    else:
        assert reply == (b"$-1\r\n" if "GET" in argv else b"+OK\r\n")
    world.assert_lock(argv[2], ttl, owner=None if owner == "value" else ME)


@pytest.mark.parametrize("state", ["another's", "nobody's", "stale", "wrong type", "unending"])
@pytest.mark.parametrize("owner", ["connection", "value"])
def test_reentrance_is_for_the_owner_only(world, state, owner):
    token = world.put(state, owner=owner)
    before = world.dump()
    assert world.run("SET", KEY, "v", "NX", owner=owner, token=token,
                     reentrant="refresh") == b"$-1\r\n"
    assert world.run("SETNX", KEY, "v", owner=owner, token=token,
                     reentrant="refresh") == b":0\r\n"
    assert world.dump() == before


# ---- SET, SETEX, PSETEX, GETSET

SETS = {
    "SET": (lambda: ["SET", KEY, "v"], LEASE),
    "set px": (lambda: ["set", KEY, "v", "px", 7000], 7000),
    "EX": (lambda: ["SET", KEY, "v", "EX", 7], 7000),
    "EXAT": (lambda: ["SET", KEY, "v", "EXAT", at(60)], 60000),
    "PXAT": (lambda: ["SET", KEY, "v", "PXAT", at(60) * 1000], 60000),
    "KEEPTTL": (lambda: ["SET", KEY, "v", "KEEPTTL"], 20000),
    "XX": (lambda: ["SET", KEY, "v", "XX"], LEASE),
    "PX XX": (lambda: ["SET", KEY, "v", "PX", 7000, "XX"], 7000),
    "XX KEEPTTL": (lambda: ["SET", KEY, "v", "XX", "KEEPTTL"], 20000),
    "GET": (lambda: ["SET", KEY, "v", "GET"], LEASE),
    "XX GET": (lambda: ["SET", KEY, "v", "XX", "GET", "EX", 7], 7000),
    "GET KEEPTTL": (lambda: ["SET", KEY, "v", "get", "keepttl"], 20000),
    "SETEX": (lambda: ["SETEX", KEY, 7, "v"], 7000),
    "psetex": (lambda: ["psetex", KEY, 7000, "v"], 7000),
    "GETSET": (lambda: ["GETSET", KEY, "v"], LEASE),
}


@pytest.mark.parametrize("form", SETS)
@states
@owners
@resps
def test_setting_is_refused_to_others_only(world, form, state, owner, resp):
    make, ttl = SETS[form]
    argv = make()
    words = [str(a).upper() for a in argv]
    token = world.put(state, owner=owner)
    before = world.dump()
    if owner == "value" and state in ("nobody's", "stale", "unending"):
        state = "another's"  # neither what we stored, nor what we are about to
    reply = world.run(*argv, resp=resp, owner=owner, token=token)
    if state == "another's":
        # Not the holder's value: a GETSET that answers what a GET before it did is how the
        # timestamp idiom knows that it was the fastest.
        assert reply == (NIL[resp] if "XX" in words else locked(KEY))
        assert world.dump() == before
        assert world.last.effect == "none" or not world.last.succeeded(reply)
        return
    assert reply == world.plain(*argv, resp=resp)
    absent = state in ("free", "left over")
    if (absent and "XX" in words) or reply.startswith(b"-"):
        assert world.dump() == before
        return
    if absent or state in ("wrong type", "unending", "mine unending"):
        ttl = min(ttl, LEASE) if "KEEPTTL" not in words else LEASE
        ttl = 60000 if form in ("EXAT", "PXAT") else ttl
    world.assert_lock("v", ttl, owner=None if owner == "value" else ME)


def test_set_of_the_value_that_is_there_is_the_owners_with_owner_value(world):
    world.put("nobody's", owner="value")
    assert world.run("SET", KEY, "held", "XX", "PX", 7000, owner="value", token="") == b"+OK\r\n"
    world.assert_lock("held", 7000, owner=None)


@pytest.mark.parametrize("argv", [["SET", KEY, "v", "PXAT", 1], ["SET", KEY, "v", "EXAT", 1],
                                  ["SET", KEY, "v", "PXAT", 1, "NX"]])
def test_an_expiry_in_the_past_leaves_no_lock(world, argv):
    assert world.run(*argv) == world.plain(*argv) == b"+OK\r\n"
    assert world.db.get(KEY) is None
    assert world.db.get(SIDE) is None


OPTIONS = [["NX"], ["XX"], ["GET"], ["KEEPTTL"], ["EX", "10"], ["px", "9000"], ["EX"], ["PX", "0"],
           ["EX", "-1"], ["PX", "abc"], ["EX", "9223372036854775807"],
           ["PX", "9223372036854775807"], ["EXAT", "99999999999"], ["PXAT", "0"], ["EX", " 10"],
           ["EX", "+10"], ["EX", "010"], ["NX\0y"], ["PERSIST"], [""], ["FOO"]]


@pytest.mark.parametrize("state", ["free", "nobody's", "mine", "wrong type", "unending"])
def test_any_options_of_set_answer_as_redis(world, state):
    """All sequences of up to three options: same reply, same value, never without an end."""
    for n in range(4):
        for options in itertools.product(OPTIONS, repeat=n):
            argv = ["SET", KEY, "v", *itertools.chain(*options)]
            token = world.put(state)
            assert world.run(*argv, token=token) == world.plain(*argv), argv
            if world.db.type(KEY) == b"string":
                assert world.db.get(KEY) == world.other_db.get(KEY), argv
                if world.db.get(KEY) == b"v":
                    assert world.db.pttl(KEY) > 0, argv


@pytest.mark.parametrize("argv", [
    ["SET"], ["SET", KEY], ["SETNX", KEY], ["SETNX", KEY, "a", "b"], ["SETEX", KEY, "10"],
    ["SETEX", KEY, "0", "v"], ["SETEX", KEY, "-5", "v"], ["SETEX", KEY, "x", "v"],
    ["SETEX", KEY, "9223372036854775807", "v"], ["PSETEX", KEY, "9223372036854775807", "v"],
    ["PSETEX", KEY, "0", "v"], ["SETEX", KEY, "1", "v", "w"], ["GETSET", KEY], ["INCR"],
    ["INCR", KEY, "1"], ["EXPIRE", KEY], ["EXPIRE", KEY, "x"], ["EXPIRE", KEY, "10", "FOO"],
    ["EXPIRE", KEY, "10", "NX", "XX"], ["EXPIRE", KEY, "10", "GT", "LT"],
    ["EXPIRE", KEY, "10", "NX", "LT"], ["EXPIRE", KEY, "9223372036854775807"],
    ["EXPIRE", KEY, "-9223372036854775808"], ["PEXPIRE", KEY, "9223372036854775807"],
    ["EXPIREAT", KEY, "9223372036854775807"], ["PEXPIREAT", KEY, "99999999999999999999"],
    ["EXPIRE", KEY, "1.5"], ["PERSIST", KEY, "1"], ["DEL"], ["UNLINK"], ["APPEND", KEY],
    ["GETEX", KEY, "EX"], ["GETEX", KEY, "EX", "0"], ["GETEX", KEY, "EX", "1", "PERSIST"],
    ["INCRBY", KEY, "x"], ["INCRBYFLOAT", KEY, "x"], ["SETRANGE", KEY, "-1", "x"],
    ["SETBIT", KEY, "x", "1"], ["MSET", KEY], ["MSET", KEY, "1", "x"], ["GETDEL", KEY, "x"],
    ["BITFIELD", KEY, "INCRBY"], ["RENAME", KEY], ["COPY", KEY], ["RESTORE", KEY, "0", "junk"],
    ["LPUSH", KEY], ["ZADD", KEY, "x", "y"], ["ZADD", KEY, "NX", "XX", "1", "y"],
    ["SORT", KEY, "STORE"], ["HSET", KEY, "a"], ["SPOP", KEY, "-1"], ["XADD", KEY, "1", "a", "b"],
    ["LMPOP", "x", KEY, "LEFT"], ["ZUNIONSTORE", KEY, "0", "a"], ["BITOP", "FOO", KEY, "a"],
])
@pytest.mark.parametrize("state", ["free", "nobody's", "mine", "wrong type"])
@resps
def test_errors_are_redis_own(world, argv, state, resp):
    token = world.put(state)
    before = world.dump()
    reply = world.run(*argv, resp=resp, token=token)
    assert reply == world.plain(*argv, resp=resp)
    if reply.startswith(b"-"):
        assert world.dump() == before


# ---- INCR

@owners
@resps
def test_counting_to_one_takes_the_lock(world, owner, resp):
    token = world.put("free", owner=owner)
    reply = world.run("INCR", KEY, owner=owner, token=token, resp=resp)
    assert reply == b":1\r\n"
    world.assert_lock("1", LEASE, owner=None if owner == "value" else ME)
    assert world.last.effect == ("none" if owner == "value" else "takes")
    assert world.last.value == b"1" and world.last.succeeded(reply)


@pytest.mark.parametrize("token", [ME, OTHER])
def test_counting_on_leaves_the_owner_and_the_expiry(world, token):
    world.run("INCR", KEY, lease=9000)
    for n in range(2, 12):
        assert world.run("INCR", KEY, token=token) == b":%d\r\n" % n
        assert not world.last.succeeded(b":%d\r\n" % n)
        world.assert_lock(n, 9000)
    assert world.run("DEL", KEY, token=OTHER) == b":0\r\n"
    assert world.run("DEL", KEY, token=ME) == b":1\r\n"


def test_counting_again_from_zero_takes_the_lock_anew(world):
    world.run("INCR", KEY, lease=9000)
    world.run("DECR", KEY)
    assert world.run("INCR", KEY, token=OTHER) == b":1\r\n"
    world.assert_lock("1", LEASE, owner=OTHER)


def test_a_count_past_hasp_makes_the_sidecar_stale_for_good(world):
    world.run("INCR", KEY)
    world.db.incr(KEY)
    note = world.db.get(SIDE)
    assert world.run("INCR", KEY) == b":3\r\n"
    assert world.db.get(SIDE) == note
    assert world.run("DEL", KEY, token=OTHER) == b":1\r\n"  # nobody's


@pytest.mark.parametrize("owner", ["connection", "value"])
def test_a_count_without_an_end_gets_the_lease(world, owner):
    world.db.set(KEY, "5")
    assert world.run("INCR", KEY, owner=owner) == b":6\r\n"
    world.assert_lock("6", LEASE, owner=None)


@states
@resps
def test_incr_of_what_is_no_count_fails_as_redis(world, state, resp):
    token = world.put(state)
    before = world.dump()
    reply = world.run("INCR", KEY, token=token, resp=resp)
    assert reply == world.plain("INCR", KEY, resp=resp)
    if state in HELD:
        assert reply.startswith(b"-") and world.dump() == before


# ---- EXPIRE and its kin

def expires():
    for name in ("EXPIRE", "pexpire", "EXPIREAT", "PEXPIREAT"):
        unit = 1 if name in ("EXPIRE", "EXPIREAT") else 1000
        start = at(0) * unit if name.endswith("AT") else 0
        for seconds in (50, 5, 0, -3):
            for options in ([], ["NX"], ["XX"], ["gt"], ["LT"], ["XX", "GT"], ["LT", "XX"]):
                yield [name, KEY, start + seconds * unit, *options], seconds


@pytest.mark.parametrize("state", STATES)
@owners
@resps
def test_expiring_goes_for_lock_and_sidecar_alike(world, state, owner, resp):
    for argv, seconds in expires():
        token = world.put(state, owner=owner)
        before = world.dump()
        reply = world.run(*argv, resp=resp, owner=owner, token=token)
        assert world.last.effect == "expires"
        if state == "another's":
            assert reply == b":0\r\n", argv
            assert world.dump() == before, argv
            continue
        assert reply == world.plain(*argv, resp=resp), argv
        if not world.db.exists(KEY):
            assert state != "mine" or owner == "value" or not world.db.exists(SIDE), argv
        elif state == "wrong type":
            now, then = world.db.pexpiretime(KEY), world.other_db.pexpiretime(KEY)
            assert (now < 0) == (then < 0) and abs(now - then) < 100, argv
        else:
            ttl = seconds * 1000 if reply == b":1\r\n" else 20000
            if reply == b":0\r\n" and state in ("unending", "mine unending"):
                ttl = LEASE
            mine = state in ("mine", "mine unending") and owner != "value"
            world.assert_lock("held", ttl, owner=ME if mine else None)


def test_expiring_tells_the_books(world):
    world.put("mine")
    for argv, lease in ((["EXPIRE", KEY, 7], 7000), (["PEXPIRE", KEY, 7000], 7000),
                        (["EXPIRE", KEY, -7], 0), (["EXPIREAT", KEY, at(7)], 0)):
        world.run(*argv)
        assert (world.last.leased, world.last.lease_ms) == (True, lease)


# ---- PERSIST

@states
@owners
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

@pytest.mark.parametrize("command", ["DEL", "UNLINK", "del"])
@states
@owners
@resps
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


@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
def test_dropping_many_keys_counts_those_that_went(world, command):
    world.run("SET", "lock:mine", "1", "NX")
    world.run("SET", "lock:other", "1", "NX", token=OTHER)
    world.db.mset({"lock:nobody": "x", "free": "y", "a": 1, "b": 2})
    reply = world.run(command, "a", "lock:mine", "lock:other", "b", "lock:mine", "gone", "a",
                      "lock:nobody", "lock:gone")
    assert reply == b":4\r\n"
    assert sorted(world.db.keys()) == [b"free", b"hasp:owner:{lock:other}", b"lock:other"]


@pytest.mark.parametrize("count", [999, 1000, 1001, 12345])
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
    assert world.db.dbsize() == 2 * (len(range(0, count, 100)) - mine)


# ---- any other write

WRITES = [["APPEND", KEY, "x"], ["SETRANGE", KEY, 1, "xy"], ["SETBIT", KEY, 3, 1], ["GETDEL", KEY],
          ["GETEX", KEY], ["GETEX", KEY, "PERSIST"], ["GETEX", KEY, "EX", 100], ["INCRBY", KEY, 1],
          ["DECR", KEY], ["MSET", KEY, "new", "b", "1"], ["MSETNX", "b", "1", KEY, "new"],
          ["BITFIELD", KEY, "SET", "u8", 0, 65], ["RENAME", KEY, "b"], ["MOVE", KEY, 5],
          ["HSET", KEY, "f", "v"], ["LPUSH", KEY, "x"], ["ZPOPMIN", KEY], ["SADD", KEY, "x"],
          ["PFADD", KEY, "x"], ["SUNIONSTORE", KEY, "b"], ["BITOP", "NOT", KEY, "b"],
          ["COPY", "b", KEY, "REPLACE"], ["SORT", "b", "STORE", KEY]]


@pytest.mark.parametrize("argv", WRITES, ids=lambda a: " ".join(map(str, a)))
@states
@pytest.mark.parametrize("owner", ["connection", "value"])
@resps
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
    world.run("SET", "lock:3000", "v", "NX", token=OTHER)
    world.db.delete("lock:3000")
    world.run("SET", "lock:3000", "v", "NX", token=OTHER)
    assert world.run("MSET", *pairs) == locked("lock:3000")


@pytest.mark.parametrize("count", [6997, 6998, 6999, 7000, 8000, 20000])
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

def command_table(server):
    with Connection(server.unix) as c:
        c.send(encode("COMMAND"))
        return {e[0]: e for e in parse(c.read())}


def parse(frame):
    """A RESP2 frame as Python values."""
    def one(at):
        end = frame.index(b"\r\n", at)
        kind, rest, at = frame[at:at + 1], frame[at + 1:end], end + 2
        if kind == b"$":
            n = int(rest)
            return (None, at) if n < 0 else (frame[at:at + n].decode("latin1"), at + n + 2)
        if kind == b"*":
            items = []
            for _ in range(int(rest)):
                item, at = one(at)
                items.append(item)
            return items, at
        return (int(rest) if kind == b":" else rest.decode()), at
    return one(0)[0]


def plausible(db):
    """For each write command of Redis 7.0, calls that do something to a string or make one."""
    dumped = db.dump("donor")
    k = KEY
    return {
        "append": [[k, "x"]], "bitfield": [[k, "SET", "u8", 0, 1], [k, "GET", "u8", 0]],
        "bitop": [["AND", k, "donor"], ["NOT", k, k], ["OR", "x", k]],
        "copy": [["donor", k], ["donor", k, "REPLACE"], [k, "x"]],
        "decr": [[k]], "decrby": [[k, 3]], "del": [[k], ["donor", k]],
        "expire": [[k, 100], [k, 100, "XX"], [k, 100, "GT"], [k, -1]],
        "expireat": [[k, at(100)], [k, at(100), "XX"]],
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
        "pexpireat": [[k, at(100) * 1000], [k, 1]], "pfadd": [[k, "a"], [k]],
        "pfdebug": [["TODENSE", k]], "pfmerge": [[k], [k, "hll"]], "psetex": [[k, 100000, "v"]],
        "rename": [["donor", k], [k, "x"], [k, k]], "renamenx": [["donor", k], [k, "x"]],
        "restore": [[k, 0, dumped], [k, 0, dumped, "REPLACE"], [k, 5000, dumped, "REPLACE"]],
        "restore-asking": [[k, 0, dumped, "REPLACE"]],
        "rpop": [[k], [k, 1]], "rpoplpush": [["list", k]], "rpush": [[k, "a"]],
        "rpushx": [[k, "a"]], "sadd": [[k, "a"]], "sdiffstore": [[k, "set"], [k, "nil"]],
        "set": [[k, "v"], [k, "v", "KEEPTTL"], [k, "v", "GET"], [k, "v", "XX"], [k, "v", "NX"],
                [k, "v", "EX", 9], [k, "v", "PXAT", at(9) * 1000]],
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


def donors(db):
    db.set("donor", "7")
    db.rpush("list", "a", "b")
    db.sadd("set", "a", "b")
    db.zadd("zset", {"m": 1.5, "n": 2})
    db.geoadd("geo", (1, 2, "m"))
    db.pfadd("hll", "a")


ELSEWHERE = {  # no keys, or on a private link for other reasons
    "flushall", "flushdb", "swapdb", "migrate", "xreadgroup",
    "blmove", "blmpop", "blpop", "brpop", "brpoplpush", "bzmpop", "bzpopmax", "bzpopmin"}

CONTENTS = {
    "nothing": lambda db: None,
    "string": lambda db: db.set(KEY, "5"),
    "hash": lambda db: db.hset(KEY, "f", 1),
    "list": lambda db: db.rpush(KEY, "a", "b", "c"),
    "set": lambda db: db.sadd(KEY, "a"),
    "zset": lambda db: db.zadd(KEY, {"m": 1.25, "n": 3}),
    "hll": lambda db: db.pfadd(KEY, "z"),
    "stream": lambda db: (db.xadd(KEY, {"f": "v"}, id="0-1"), db.xgroup_create(KEY, "g", "0")),
}


@pytest.mark.parametrize("holder", ["nobody", "me"])
@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("owner", ["connection", "value"])
@resps
def test_no_write_leaves_a_string_without_an_end(world, server, content, holder, owner, resp):
    """And where the key is not another's, every reply is what Redis' would be."""
    donors(world.db)
    calls = plausible(world.db)
    writes = {n for n, e in command_table(server).items() if "write" in e[2]}
    assert writes - ELSEWHERE == set(calls) & writes
    for name in sorted(writes - ELSEWHERE):
        for args in calls[name]:
            world.db.flushall()
            for db in (world.db, world.other_db):
                donors(db)
                CONTENTS[content](db)
            token = "" if owner == "value" else ME
            if holder == "me" and world.db.type(KEY) == b"string":
                value = world.db.get(KEY)
                token = value if owner == "value" else ME
                if owner != "value":
                    world.db.set(SIDE, ME.encode() + b" " + value, px=9000)
            argv = [name, *args]
            before = world.dump()
            reply = world.run(*argv, resp=resp, owner=owner, token=token)
            kind = world.db.type(KEY)
            refused = world.last.effect == "takes" and world.dump() == before
            if name != "persist" and not refused:
                native = world.plain(*argv, resp=resp)
                assert same(reply, native), (argv, reply, native)
            if refused or world.last.passed or reply.startswith(b"-"):
                continue
            if kind == b"string":
                assert world.db.pttl(KEY) > 0, argv
            elif kind != b"none" and name not in ("expire", "pexpire", "expireat", "pexpireat"):
                assert world.db.pttl(KEY) == -1, argv
            note = world.db.get(SIDE)
            if note is not None and kind == b"string":
                assert 0 <= world.db.pexpiretime(SIDE) - world.db.pexpiretime(KEY) <= 50, argv


def same(ours, native):
    """Lua cannot make a null array; every client takes either null for one."""
    return ours == native or (native == b"*-1\r\n" and ours == b"$-1\r\n")


# ---- max_lease

@pytest.mark.parametrize("argv", [
    ["SETNX", KEY, "v"], ["SET", KEY, "v", "NX", "PX", 90000], ["SET", KEY, "v", "EX", 90],
    ["SET", KEY, "v", "NX", "EXAT", at(900)], ["SET", KEY, "v", "PXAT", at(900) * 1000],
    ["SET", KEY, "v", "NX", "GET", "EXAT", at(900)], ["SETEX", KEY, 90, "v"],
    ["PSETEX", KEY, 90000, "v"], ["GETSET", KEY, "v"], ["INCR", KEY], ["APPEND", KEY, "v"],
    ["SET", KEY, "v", "NX", "PX", 9000000000000000]])
@pytest.mark.parametrize("owner", ["connection", "value"])
def test_max_lease_caps_a_new_lock(world, argv, owner):
    token = world.put("free", owner=owner)
    world.run(*argv, owner=owner, token=token, lease=5000, longest=8000)
    assert 3000 < world.db.pttl(KEY) <= 8000
    if world.db.exists(SIDE):
        assert 0 <= world.db.pexpiretime(SIDE) - world.db.pexpiretime(KEY) <= 50


@pytest.mark.parametrize("argv", [
    ["EXPIRE", KEY, 900], ["PEXPIRE", KEY, 900000], ["EXPIREAT", KEY, at(900)],
    ["PEXPIREAT", KEY, at(900) * 1000], ["EXPIRE", KEY, 900, "XX"], ["SET", KEY, "v", "KEEPTTL"],
    ["GETEX", KEY, "EX", 900], ["EXPIRE", KEY, 900, "LT"]])
def test_max_lease_caps_a_held_lock(world, argv):
    world.put("mine")
    world.run(*argv, lease=5000, longest=8000)
    if argv[-1] == "LT":
        assert world.db.pttl(KEY) <= 20000  # unchanged: not longer than it was
        return
    assert 6000 < world.db.pttl(KEY) <= 8000
    assert 0 <= world.db.pexpiretime(SIDE) - world.db.pexpiretime(KEY) <= 50


def test_max_lease_is_not_for_other_types(world):
    world.db.rpush(KEY, "x")
    assert world.run("EXPIRE", KEY, 900, lease=5000, longest=8000) == b":1\r\n"
    assert world.db.pttl(KEY) > 800000


def test_expiries_beyond_lua_numbers_survive(world):
    world.run("SET", KEY, "v", "NX", "PX", 9000000000000000000 - 1)
    assert world.run("APPEND", KEY, "w") == b":2\r\n"
    assert world.db.get(SIDE) == ME.encode() + b" vw"
    assert world.db.pttl(KEY) > 10 ** 14
    assert world.db.pttl(SIDE) > 10 ** 14


# ---- names

@pytest.mark.parametrize("key, side", [
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
    if not key.startswith("lock{}"):  # no name can cure those
        assert slot(key.encode()) == slot(side.encode())


def slot(key):
    """As Redis Cluster counts it (XMODEM's CRC16)."""
    tag = re.search(rb"\{(.*?)\}", key, re.S)
    if tag and tag[1]:
        key = tag[1]
    return binascii.crc_hqx(key, 0) % 16384


VALUES = [b"", b" ", b"a b", b"\0", b"\r\n", bytes(range(256)), b"x" * 100000, b" lead", b"%d%s"]


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
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
        assert world.renew(("r", KEY, ME, LEASE, 0)) == [0]
        assert world.release("r", KEY, ME) == 0
        assert world.dump() == before


def test_renewal_gives_an_unending_lock_an_end(world):
    world.put("mine unending")
    assert world.renew(("r", KEY, ME, LEASE, 0)) == [1]
    world.assert_lock("held", LEASE)


def test_many_rules_locks_are_renewed_in_one_call(world):
    for i in range(40):
        world.run("SET", f"lock:{i}", "v", "NX", "PX", 5000, token=OTHER if i % 4 == 1 else ME)
    world.db.delete("lock:2")
    world.db.lpush("lock:2", "of another type")
    world.db.set("lock:v", "mine", px=5000)
    locks = [("r", f"lock:{i}", ME, LEASE + i, 0) for i in range(41)]
    assert world.renew(*locks, ("v", "lock:v", "mine", LEASE, 0), ("v", "lock:v", "x", 1, 0)) == \
        [0 if i % 4 == 1 or i in (2, 40) else 1 for i in range(41)] + [1, 0]
    assert LEASE < world.db.pttl("lock:39") <= LEASE + 39
    assert LEASE < world.db.pttl("hasp:owner:{lock:39}") <= LEASE + 39
    assert world.db.pttl("lock:1") <= 5000 and world.db.pttl("lock:2") == -1
    assert world.db.pttl("lock:v") > 5000


def test_a_lock_that_redis_refuses_to_renew_holds_up_no_other(world, server):
    world.run("SET", "lock:a", "v", "NX", "PX", 5000)
    world.run("SET", "lock:b", "v", "NX", "PX", 5000)
    world.db.delete("hasp:owner:{lock:a}")
    world.db.lpush("hasp:owner:{lock:a}", "x")
    world.db.acl_setuser("limited", enabled=True, nopass=True, keys=["lock:*", "hasp:*"],
                         commands=["+@all", "-get"])
    locks = [("r", "lock:a", ME, LEASE, 0), ("r", "lock:b", ME, LEASE, 0)]
    assert world.renew(*locks) == [0, 1]  # its sidecar says nothing: nobody's
    with Connection(server.unix) as c:
        c.call("AUTH", "limited", "x")
        c.send(world.tool.own("renew", *itertools.chain(*(
            (kind, to_hex(key), to_hex(token), lease, fence)
            for kind, key, token, lease, fence in locks))))
        assert parse(c.read()) == [-1, -1]


def test_a_lock_that_was_taken_before_is_not_released(world):
    """hasp undoes a try that may have taken it: it would have nearly the whole lease left."""
    world.put("mine")  # 20 seconds left
    before = world.dump()
    assert world.release("r", KEY, ME, 29990) == 0
    assert world.dump() == before
    assert world.release("r", KEY, ME, 15000) == 1
    assert world.db.keys() == []


def test_a_lock_without_an_end_is_released(world):
    world.put("mine unending")
    assert world.release("r", KEY, ME) == 1
    assert world.db.keys() == []


def test_release_takes_lock_and_sidecar(world):
    world.put("mine")
    assert world.release("r", KEY, ME) == 1
    assert world.db.keys() == []


def test_renewal_and_release_by_value(world):
    world.put("nobody's")
    assert world.renew(("v", KEY, "else", LEASE, 0)) == [0]
    assert world.release("v", KEY, "else") == 0
    assert world.renew(("v", KEY, "held", LEASE, 0)) == [1]
    world.assert_lock("held", LEASE, owner=None)
    assert world.release("v", KEY, "held") == 1
    assert world.db.keys() == []


# ---- verbs

layouts = pytest.mark.parametrize("layout", ["count", "refresh", "no"])


def fence_of(world):
    return int(world.db.get("hasp:fence") or 0)


@layouts
@resps
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


@layouts
@pytest.mark.parametrize("args, ttl, leased", [([], LEASE, False), (["PX", 7000], 7000, True),
                                               (["ex", 7], 7000, True)])
def test_lock_sets_the_lease(world, layout, args, ttl, leased):
    assert world.verb("LOCK", KEY, *args, layout=layout) == b":1\r\n"
    assert (world.last.leased, world.last.lease_ms) == (leased, ttl)
    assert world.last.owner == ME.encode() and world.last.key == KEY.encode()
    for key in (KEY, FENCE):
        assert ttl - 1000 < world.db.pttl(key) <= ttl
    assert world.db.get(FENCE).startswith(ME.encode() + f" 1 {WORKER}-".encode())
    if layout == "count":
        assert world.db.hgetall(KEY) == {ME.encode(): b"1"}
    else:
        assert world.db.get(KEY) == ME.encode()


def test_a_counted_lock_counts_and_keeps_its_fence(world):
    for n in (1, 2, 3):
        assert world.verb("LOCK", KEY, "PX", 7000) == b":1\r\n"
        assert world.db.hget(KEY, ME) == b"%d" % n
    world.db.pexpire(KEY, 5000)
    assert world.verb("UNLOCK", KEY) == b":1\r\n"
    assert world.db.hget(KEY, ME) == b"2" and world.db.pttl(KEY) <= 5000
    assert world.db.exists(FENCE)
    assert world.verb("UNLOCK", KEY) == b":1\r\n"
    assert world.verb("UNLOCK", KEY) == b":1\r\n"
    assert world.db.keys() == [b"hasp:fence"]
    assert world.verb("UNLOCK", KEY) == b":0\r\n"


def test_refresh_refreshes_and_keeps_its_fence(world):
    assert world.verb("LOCK", KEY, "PX", 5000, layout="refresh") == b":1\r\n"
    assert world.verb("LOCK", KEY, "PX", 9000, layout="refresh") == b":1\r\n"
    assert world.db.pttl(KEY) > 8000 and world.db.pttl(FENCE) > 8000
    assert world.verb("LOCK", KEY, layout="no") == b"$-1\r\n"
    assert world.verb("UNLOCK", KEY, layout="refresh") == b":1\r\n"


@pytest.mark.parametrize("layout", ["count", "refresh"])
@pytest.mark.parametrize("record", [None, f"{OTHER} 1 x-1", f"{ME} - x-1", "junk", "list"])
def test_reentry_without_its_record_gets_a_new_fence(world, layout, record):
    assert world.verb("LOCK", KEY, layout=layout) == b":1\r\n"
    world.db.delete(FENCE)
    if record == "list":
        world.db.rpush(FENCE, "x")
    elif record:
        world.db.set(FENCE, record)
    assert world.verb("LOCK", KEY, layout=layout) == b":2\r\n"
    assert world.db.get(FENCE).startswith(ME.encode() + b" 2 ")
    assert world.db.pttl(FENCE) > 0


@pytest.mark.parametrize("name, channel", [
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


@layouts
def test_as_names_the_owner(world, layout):
    assert world.verb("LOCK", KEY, "AS", "bob", "PX", 9000, layout=layout) == b":1\r\n"
    assert world.last.owner == b"bob" and world.last.lease_ms == 9000
    assert world.verb("UNLOCK", KEY, layout=layout) == b":0\r\n"
    assert world.verb("EXTEND", KEY, "EX", 60, layout=layout) == b":0\r\n"
    assert world.verb("EXTEND", KEY, "as", "bob", "EX", 60, layout=layout) == b":1\r\n"
    assert world.last.effect == "expires" and world.last.owner == b"bob"
    assert world.db.pttl(KEY) > 59000 and world.db.pttl(FENCE) > 59000
    assert world.verb("UNLOCK", KEY, "AS", "bob", layout=layout) == b":1\r\n"
    assert world.verb("EXTEND", KEY, "EX", 60, layout=layout) == b":0\r\n"


@layouts
def test_max_lease_caps_the_verbs(world, layout):
    world.verb("LOCK", KEY, "EX", 900, layout=layout, longest=8000)
    assert 6000 < world.db.pttl(KEY) <= 8000 and world.last.lease_ms == 8000
    world.verb("EXTEND", KEY, "EX", 900, layout=layout, longest=9000)
    assert 8000 < world.db.pttl(KEY) <= 9000


@layouts
@resps
def test_info_tells_all_there_is(world, layout, resp):
    assert world.verb("INFO", KEY, layout=layout, resp=resp) == NIL[resp]
    world.verb("LOCK", KEY, layout=layout)
    holds = 1
    if layout == "count":
        world.verb("LOCK", KEY, layout=layout)
        holds = 2
    reply = world.verb("INFO", KEY, layout=layout, resp=resp)
    ttl = int(re.search(rb"ttl\r\n:(\d+)", reply)[1])
    assert LEASE - 1000 < ttl <= LEASE
    pairs = [bulk("owner") + bulk(ME), bulk("holds") + b":%d\r\n" % holds,
             bulk("ttl") + b":%d\r\n" % ttl, bulk("fence") + b":1\r\n",
             bulk("waiters") + b":0\r\n"]
    if resp == 2:
        assert reply == b"*10\r\n" + b"".join(pairs)
    else:
        assert reply.startswith(b"%5\r\n")
        assert len(reply) == len(b"%5\r\n" + b"".join(pairs)) and all(p in reply for p in pairs)
    world.db.delete(FENCE)
    assert bulk("fence") + NIL[resp] in world.verb("INFO", KEY, layout=layout, resp=resp)


WRONGTYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"


@layouts
@resps
def test_verbs_on_another_type(world, layout, resp):
    contents = ["list", "set", "zset", "stream", "string" if layout == "count" else "hash"]
    for content in contents:
        world.db.flushdb()
        CONTENTS[content](world.db)
        before = world.dump()
        for verb, args in (("LOCK", []), ("UNLOCK", []), ("EXTEND", ["PX", 1000])):
            assert world.verb(verb, KEY, *args, layout=layout, resp=resp) == WRONGTYPE
        if content not in ("string", "hash"):
            assert world.verb("INFO", KEY, layout=layout, resp=resp) == WRONGTYPE
        assert world.dump() == before


@pytest.mark.parametrize("verb, args, error", [
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
])
@resps
def test_wrong_verbs_get_an_error(world, verb, args, error, resp):
    assert world.verb(verb, *args, resp=resp) == f"-ERR {error}\r\n".encode()
    assert world.last.effect == "none"
    assert world.db.keys() == []


@layouts
def test_a_spoiled_fence_counter_takes_no_lock(world, layout):
    world.db.set("hasp:fence", "x")
    assert world.verb("LOCK", KEY, layout=layout) == \
        b"-ERR value is not an integer or out of range\r\n"
    assert not world.db.exists(KEY)


@layouts
def test_hasps_own_calls_on_verbs(world, layout):
    world.verb("LOCK", KEY, layout=layout, ticket="w-1")
    if layout == "count":
        world.verb("LOCK", KEY, layout=layout, ticket="w-2")
    kind = "h" if layout == "count" else "s"
    assert world.renew((kind, KEY, OTHER, 60000, 1)) == [0]
    assert world.release(kind, KEY, OTHER) == 0
    assert world.db.pttl(KEY) <= LEASE
    assert world.renew((kind, KEY, ME, 60000, 1)) == [1]
    assert world.db.pttl(KEY) > 59000 and world.db.pttl(FENCE) > 59000
    assert world.renew((kind, KEY, ME, 10000, 1)) == [1]
    assert world.db.pttl(KEY) > 59000
    assert world.release(kind, KEY, ME) == 1
    assert world.db.keys() == [b"hasp:fence"]
    assert world.renew((kind, KEY, ME, LEASE, 1)) == [0]


def test_many_verbs_locks_are_renewed_in_one_call(world):
    for i in range(8):
        assert world.verb("LOCK", f"job:{i}", "PX", 5000, layout="count" if i % 2 else "no",
                          token=OTHER if i == 4 else ME) == b":%d\r\n" % (i + 1)
    world.db.delete("job:5", "job:6")
    world.db.lpush("job:6", "x")
    locks = [("h" if i % 2 else "s", f"job:{i}", ME, LEASE, i + 1) for i in range(9)]
    # -1: it is a list now, which Redis refuses to read as a lock.
    assert world.renew(*locks) == [1, 1, 1, 1, 0, 0, -1, 1, 0]
    assert world.db.pttl("job:7") > 5000 and world.db.pttl("hasp:fence:{job:7}") > 5000
    assert world.db.pttl("job:4") <= 5000


@layouts
def test_a_lock_that_was_taken_again_since_is_not_renewed(world, layout):
    """By the same owner: it may have asked for another lease, and not for renewal."""
    kind = "h" if layout == "count" else "s"
    world.verb("LOCK", KEY, layout=layout)
    world.verb("UNLOCK", KEY, layout=layout)
    assert world.verb("LOCK", KEY, "PX", 5000, layout=layout) == b":2\r\n"
    assert world.renew((kind, KEY, ME, LEASE, 1)) == [0]
    assert world.db.pttl(KEY) <= 5000
    assert world.renew((kind, KEY, ME, LEASE, 2)) == [1]
    assert world.db.pttl(KEY) > 5000


# ---- waiting

OTHERS = [f"10.0.0.{n}:4711/0/beef{n}" for n in range(3, 9)]
QUEUE = "hasp:queue:{lock:1}"
DEAF = "00000000000000dd"  # a worker that is gone
SECOND = "00000000000000bb"  # one more that listens
RULES = {"r": {"owner": "connection"}, "v": {"owner": "value"}}
LAYOUTS = {"h": "count", "s": "no"}

kinds = pytest.mark.parametrize("kind", "hsrv")


class Workers:
    """The workers that listen: what they are told, in the order in which it was published."""

    def __init__(self, server, *numbers):
        self.c = Connection(server.unix)
        for number in numbers:
            self.c.call("SUBSCRIBE", f"hasp:worker:{number}")

    def told(self):
        """[(ticket, fencing token or -)] since the last call."""
        grants = []
        self.c.send(encode("PING", "all"))
        while (frame := parse(self.c.read()))[0] == "message":
            assert frame[1] == "hasp:worker:" + frame[2].split("-")[0]
            ticket, fence, _ = frame[2].split(" ")
            grants.append((ticket, fence))
        return grants


@pytest.fixture
def workers(server):
    workers = Workers(server, WORKER, SECOND)
    yield workers
    workers.c.close()


def value_of(token):
    """What that owner stores under a rule; with owner = value its identity."""
    return f"value of {token}"


def ask(world, kind, token, wait=5000, key=KEY, lease=None, argv=None, **options):
    """One try; `ticket` and `place` are options. Returns the reply, decoded."""
    if kind in LAYOUTS:
        options.setdefault("layout", LAYOUTS[kind])
        args = (["PX", lease] if lease else []) + ["WAIT", wait]
        return parse(world.verb("LOCK", key, *args, token=token, may_wait=wait, **options))
    argv = argv or ["SET", key, value_of(token), "NX", *(["PX", lease] if lease else [])]
    return parse(world.run(*argv, token=token, wait=max(wait, 1), may_wait=wait, **RULES[kind],
                           **options))


def place_in(reply):
    """Of `QUEUED place now held`."""
    word, place, now, _ = reply.split(" ")
    assert word == "QUEUED" and int(now) > 1e12
    return int(place)


def give_back(world, kind, token, key=KEY):
    if kind in LAYOUTS:
        return parse(world.verb("UNLOCK", key, layout=LAYOUTS[kind], token=token))
    identity = value_of(token) if kind == "v" else token
    return parse(world.run("DEL", key, token=identity, wait=1, **RULES[kind]))


def own_token(kind, token):
    """As hasp's books name the owner."""
    return value_of(token) if kind == "v" else token


def assert_holder(world, kind, token, lease=LEASE, key=KEY):
    if kind == "h":
        assert world.db.hgetall(key) == {token.encode(): b"1"}
    else:
        assert world.db.get(key) == (token if kind == "s" else value_of(token)).encode()
    if kind == "r":
        assert world.db.get(f"hasp:owner:{{{key}}}") == f"{token} {value_of(token)}".encode()
        assert lease - 2000 < world.db.pttl(f"hasp:owner:{{{key}}}") <= lease
    assert lease - 2000 < world.db.pttl(key) <= lease


def assert_record(world, kind, token, ticket, key=KEY):
    owner, fence, first = world.db.get(f"hasp:fence:{{{key}}}").decode().split(" ")
    assert (owner, first) == ("-" if kind == "v" else token, ticket)
    assert fence == ("-" if kind in RULES else world.db.get("hasp:fence").decode())
    assert 0 <= world.db.pexpiretime(f"hasp:fence:{{{key}}}") - world.db.pexpiretime(key) <= 50


def assert_joined(world, *tickets, key=KEY):
    """Who got the lock that its owner has already, under its latest fencing token."""
    side, fence = f"hasp:owner:{{{key}}}", world.db.get("hasp:fence").decode()
    assert world.db.zrange(side, 0, -1) == [f"{fence} {ticket}".encode() for ticket in tickets]
    assert 59000 < world.db.pexpiretime(side) - world.db.pexpiretime(key) < 61000


def assert_nothing_left(world):
    """No lock, no queue, no record, no sidecar."""
    assert set(world.db.keys()) <= {b"hasp:fence"}


def until_redis_time(world, ms):
    """Polls: a deadline is over when it is in Redis' past."""
    while (lambda t: t[0] * 1000 + t[1] // 1000)(world.db.time()) <= ms:
        pass


def expire_now(world, key=KEY):
    """The holder's lease ends, and no script runs."""
    world.db.delete(key, f"hasp:owner:{{{key}}}", f"hasp:fence:{{{key}}}")


@kinds
def test_who_finds_the_lock_taken_stands_in_line(world, kind):
    ask(world, kind, ME, ticket=f"{WORKER}-1")
    assert_holder(world, kind, ME)
    assert_record(world, kind, ME, f"{WORKER}-1")
    before = world.dump()
    reply = ask(world, kind, OTHER, ticket=f"{WORKER}-2", lease=7000, wait=5000)
    now = int(reply.split(" ")[2])
    assert LEASE - 1000 < int(reply.split(" ")[3]) <= LEASE
    assert world.last.wait_ms == 5000 and world.last.kind == kind
    entry = f"{WORKER}-2 {now + 5000} {kind} 7000 0 {'-' if kind == 'v' else OTHER} " + \
        (value_of(OTHER) if kind in RULES else "")
    assert world.db.zrange(QUEUE, 0, -1, withscores=True) == [(entry.encode(), place_in(reply))]
    assert place_in(reply) // 1000 == now
    assert 5000 < world.db.pttl(QUEUE) <= 7000
    world.db.delete(QUEUE)
    assert world.dump() == before


@kinds
def test_who_does_not_wait_is_refused_and_stands_nowhere(world, kind):
    ask(world, kind, ME)
    before = world.dump()
    assert ask(world, kind, OTHER, wait=0) is None
    if kind in RULES:
        assert ask(world, kind, OTHER, wait=0, argv=["SETNX", KEY, "v"]) == 0
    assert world.dump() == before


@kinds
def test_a_release_hands_over_to_the_first_in_line(world, workers, kind):
    ask(world, kind, ME)
    for n, token in enumerate(OTHERS[:3]):
        place_in(ask(world, kind, token, ticket=f"{WORKER}-{n}", lease=7000 + n))
    before = ME
    for n, token in enumerate(OTHERS[:3]):
        assert give_back(world, kind, before) == 1
        fence = "-" if kind in RULES else str(n + 2)
        assert workers.told() == [(f"{WORKER}-{n}", fence)]
        assert_holder(world, kind, token, 7000 + n)
        assert_record(world, kind, token, f"{WORKER}-{n}")
        assert world.db.zcard(QUEUE) == 2 - n
        assert give_back(world, kind, before) == 0
        before = token
    assert give_back(world, kind, before) == 1
    assert workers.told() == []
    assert_nothing_left(world)


@kinds
def test_hasps_own_release_hands_over_too(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHER, ticket=f"{SECOND}-2")
    assert world.release(kind, KEY, own_token(kind, ME)) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{SECOND}-2"]
    assert_holder(world, kind, OTHER)
    assert world.release(kind, KEY, own_token(kind, OTHER)) == 1
    assert_nothing_left(world)


def test_a_counted_lock_is_handed_over_with_its_last_hold(world, workers):
    ask(world, "h", ME)
    ask(world, "h", ME)
    ask(world, "h", OTHER, ticket=f"{WORKER}-3")
    assert give_back(world, "h", ME) == 1
    assert workers.told() == []
    assert give_back(world, "h", ME) == 1
    assert workers.told() == [(f"{WORKER}-3", "2")]


def test_a_counted_lock_lets_in_all_of_one_owner_that_wait_together(world, workers):
    ask(world, "h", ME)
    for n, token in enumerate([OTHER, OTHER, OTHERS[0], OTHER]):
        ask(world, "h", token, ticket=f"{WORKER}-{n}")
    assert give_back(world, "h", ME) == 1
    assert workers.told() == [(f"{WORKER}-0", "2"), (f"{WORKER}-1", "2")]
    assert world.db.hgetall(KEY) == {OTHER.encode(): b"2"}
    assert_record(world, "h", OTHER, f"{WORKER}-0")
    assert_joined(world, f"{WORKER}-1")
    assert world.db.zcard(QUEUE) == 2
    assert give_back(world, "h", OTHER) == give_back(world, "h", OTHER) == 1
    assert workers.told() == [(f"{WORKER}-2", "3")]


def test_of_one_owner_who_wait_together_only_those_count_who_are_there(world, workers):
    ask(world, "h", ME)
    for n, worker in enumerate([DEAF, WORKER, DEAF, SECOND, "00000000000000de"]):
        ask(world, "h", OTHER, ticket=f"{worker}-{n}", lease=7000 if worker in (WORKER, SECOND) else 100)
    assert give_back(world, "h", ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1", f"{SECOND}-3"]
    assert world.db.hgetall(KEY) == {OTHER.encode(): b"2"}
    assert 5000 < world.db.pttl(KEY) <= 7000
    assert_record(world, "h", OTHER, f"{WORKER}-1")
    assert_joined(world, f"{SECOND}-3")
    assert not world.db.exists(QUEUE)


@pytest.mark.parametrize("kind", "srv")
def test_a_lock_that_does_not_count_lets_in_one_at_a_time(world, workers, kind):
    ask(world, kind, ME)
    for n in range(2):
        ask(world, kind, OTHER, ticket=f"{WORKER}-{n}")
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-0"]
    assert world.db.zcard(QUEUE) == 1


@kinds
def test_who_is_past_its_deadline_is_passed_over(world, workers, kind):
    ask(world, kind, ME)
    late = ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1", wait=1)
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")
    until_redis_time(world, int(late.split(" ")[2]) + 1)
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-2"]
    assert_holder(world, kind, OTHERS[1])
    assert not world.db.exists(QUEUE)


@kinds
def test_a_worker_that_is_gone_is_passed_over_and_forgotten(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], ticket=f"{DEAF}-1")
    ask(world, kind, OTHERS[1], ticket=f"{DEAF}-2")
    ask(world, kind, OTHERS[2], ticket=f"{WORKER}-1")
    ask(world, kind, OTHERS[3], ticket=f"{DEAF}-3")
    world.db.config_resetstat()
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1"]
    # Once is enough to know that it is gone, and nobody is told who is not there.
    stats = world.db.info("commandstats")
    assert stats["cmdstat_pubsub|numsub"]["calls"] == 2
    assert stats["cmdstat_publish"]["calls"] == 1
    assert_holder(world, kind, OTHERS[2])
    assert_record(world, kind, OTHERS[2], f"{WORKER}-1")
    assert world.db.zcard(QUEUE) == 1
    assert give_back(world, kind, OTHERS[2]) == 1
    assert_nothing_left(world)


@kinds
def test_who_listens_to_everything_is_no_worker(world, workers, kind):
    """PUBLISH counts patterns, too."""
    with Connection(world.server.unix) as monitor:
        monitor.call("PSUBSCRIBE", "*")
        ask(world, kind, ME)
        ask(world, kind, OTHERS[0], ticket=f"{DEAF}-1")
        ask(world, kind, OTHERS[1], ticket=f"{WORKER}-1")
        assert give_back(world, kind, ME) == 1
        assert_holder(world, kind, OTHERS[1])


@kinds
def test_who_has_lost_its_place_gets_it_back(world, kind):
    """It was forgotten because its worker did not listen for a moment."""
    ask(world, kind, ME)
    places = [place_in(ask(world, kind, token, ticket=f"{WORKER}-{n}"))
              for n, token in enumerate(OTHERS[:3])]
    world.db.zpopmin(QUEUE)
    again = ask(world, kind, OTHERS[0], ticket=f"{WORKER}-9", place=places[0])
    assert place_in(again) == places[0]
    assert [entry.split(b" ")[0] for entry in world.db.zrange(QUEUE, 0, -1)] == \
        [f"{WORKER}-{n}".encode() for n in (9, 1, 2)]


@kinds
def test_places_keep_their_order_when_redis_clock_steps_back(world, kind):
    ask(world, kind, ME)
    first = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    # As if that had been said an hour from now.
    world.db.zincrby(QUEUE, 3600e6, world.db.zrange(QUEUE, 0, 0)[0])
    assert place_in(ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")) == first + 3600e6 + 1
    assert place_in(ask(world, kind, OTHERS[2], ticket=f"{WORKER}-3")) == first + 3600e6 + 2


@kinds
def test_a_queue_lasts_as_long_as_anybody_waits(world, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], wait=60000)
    assert 60000 < world.db.pttl(QUEUE) <= 62000
    ask(world, kind, OTHERS[1], wait=10)
    assert 60000 < world.db.pttl(QUEUE) <= 62000
    ask(world, kind, OTHERS[2], wait=90000)
    assert 90000 < world.db.pttl(QUEUE) <= 92000


@kinds
def test_a_newcomer_does_not_overtake_who_waits(world, workers, kind):
    """The lock is free, and nobody has looked yet."""
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1")
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")
    expire_now(world)
    assert ask(world, kind, OTHERS[2], wait=0) is None
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1"]
    assert_holder(world, kind, OTHERS[0])
    expire_now(world)
    place_in(ask(world, kind, OTHERS[2], ticket=f"{WORKER}-3"))
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-2"]
    assert world.db.zcard(QUEUE) == 1


@kinds
def test_a_newcomer_takes_what_nobody_is_there_to_take(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], ticket=f"{DEAF}-1")
    expire_now(world)
    reply = ask(world, kind, OTHERS[1], ticket=f"{WORKER}-1")
    assert reply == "OK" if kind in RULES else reply > 1
    assert workers.told() == []
    assert_holder(world, kind, OTHERS[1])
    assert_record(world, kind, OTHERS[1], f"{WORKER}-1")
    assert not world.db.exists(QUEUE)


@pytest.mark.parametrize("holder, kind", ["hr", "hv", "sr", "sv", "rs", "vs"])
def test_each_kind_in_one_line_gets_the_lock_that_it_asked_for(world, workers, holder, kind):
    """LOCK on a key with a rule."""
    ask(world, holder, ME)
    ask(world, kind, OTHER, ticket=f"{WORKER}-1")
    assert give_back(world, holder, ME) == 1
    assert len(workers.told()) == 1
    assert_holder(world, kind, OTHER)
    assert give_back(world, kind, OTHER) == 1
    assert_nothing_left(world)


@pytest.mark.parametrize("holder, kind", ["sh", "rh", "vh", "hs"])
def test_nobody_waits_for_a_lock_of_another_type(world, holder, kind):
    ask(world, holder, ME)
    before = world.dump()
    assert ask(world, kind, OTHER).startswith("WRONGTYPE")
    assert world.dump() == before


def test_a_waiter_of_a_rule_that_was_changed_keeps_its_value(world, workers):
    """The rule was reloaded with owner = value while somebody waited under the old one."""
    ask(world, "r", ME)
    ask(world, "r", OTHER, ticket=f"{WORKER}-1")
    assert give_back(world, "v", ME) == 1
    assert len(workers.told()) == 1
    assert world.db.get(KEY) == value_of(OTHER).encode()


# -- who waits under a rule

@pytest.mark.parametrize("form", [f for f in TAKES if "GET" not in f])
@states
@owners
@resps
def test_a_rule_with_wait_answers_as_redis_to_who_does_not(world, form, state, owner, resp):
    """In a transaction, say."""
    make, ttl = TAKES[form]
    argv = make()
    token = world.put(state, owner=owner)
    before = world.dump()
    reply = world.run(*argv, resp=resp, owner=owner, token=token, wait=4000)
    assert world.last.script == "take_wait" and world.last.wait_ms == 0
    assert reply == world.plain(*argv, resp=resp)
    if state not in ("free", "left over"):
        assert world.dump() == before
    elif owner == "value":
        world.assert_lock("v", ttl, owner=None)
    else:
        world.assert_lock("v", ttl)


@pytest.mark.parametrize("kind", "rv")
@pytest.mark.parametrize("form", ["PXAT", "EXAT"])
def test_a_lease_given_as_a_date_ends_then(world, workers, kind, form):
    date = at(60)
    ask(world, kind, ME)
    argv = ["SET", KEY, value_of(OTHER), "NX", form, date * (1000 if form == "PXAT" else 1)]
    ask(world, kind, OTHER, argv=argv, ticket=f"{WORKER}-1")
    assert give_back(world, kind, ME) == 1
    assert len(workers.told()) == 1
    assert world.db.get(KEY) == value_of(OTHER).encode()
    for key in (KEY, FENCE, *([SIDE] if kind == "r" else [])):
        assert abs(world.db.pexpiretime(key) - date * 1000) <= 50
    expire_now(world)
    assert ask(world, kind, OTHER, argv=argv) == "OK"
    assert abs(world.db.pexpiretime(KEY) - date * 1000) <= 50
    assert abs(world.db.pexpiretime(FENCE) - date * 1000) <= 50


@pytest.mark.parametrize("kind", "rv")
def test_who_waits_past_the_end_of_its_lease_gets_nothing(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHERS[0], argv=["SET", KEY, "late", "NX", "PXAT", 1000],
        ticket=f"{WORKER}-1")
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-2"]
    assert_holder(world, kind, OTHERS[1])


@pytest.mark.parametrize("kind", "rv")
def test_max_lease_caps_who_had_to_wait(world, workers, kind):
    ask(world, kind, ME)
    for n, expiry in enumerate((["EXAT", at(900)], ["PX", 900000], [])):
        argv = ["SET", KEY, value_of(OTHERS[n]), "NX", *expiry]
        ask(world, kind, OTHERS[n], argv=argv, ticket=f"{WORKER}-{n}", longest=8000)
        expire_now(world)
        ask(world, kind, ME, wait=0)
        assert len(workers.told()) == 1
        assert 6000 < world.db.pttl(KEY) <= 8000 or not expiry


def test_the_owners_second_try_does_not_wait_where_it_refreshes(world):
    ask(world, "r", ME)
    ask(world, "r", OTHER)
    assert ask(world, "r", ME, reentrant="refresh", lease=50000) == "OK"
    assert_holder(world, "r", ME, 50000)
    world.db.flushall()
    ask(world, "v", ME)
    ask(world, "v", OTHER)
    assert ask(world, "v", ME, reentrant="refresh", lease=50000) == "OK"
    assert_holder(world, "v", ME, 50000)


def test_dropping_many_locks_hands_each_over(world, workers):
    for n in range(3):
        ask(world, "r", ME, key=f"lock:{n}")
        ask(world, "r", OTHERS[n], key=f"lock:{n}", ticket=f"{WORKER}-{n}")
    ask(world, "r", OTHER, key="lock:other")
    ask(world, "r", ME, key="lock:other", ticket=f"{WORKER}-9")
    world.db.mset({"a": 1, "b": 2})
    assert world.run("DEL", "a", "lock:0", "lock:other", "b", "lock:2", "lock:1", "lock:3",
                     token=ME, wait=1) == b":5\r\n"
    assert sorted(ticket for ticket, _ in workers.told()) == [f"{WORKER}-{n}" for n in range(3)]
    for n in range(3):
        assert_holder(world, "r", OTHERS[n], key=f"lock:{n}")
    assert_holder(world, "r", OTHER, key="lock:other")
    assert world.db.zcard("hasp:queue:{lock:other}") == 1
    assert not world.db.exists("a", "b")


def test_a_lock_that_is_named_twice_is_handed_over_once(world, workers):
    ask(world, "r", ME)
    ask(world, "r", OTHERS[0], ticket=f"{WORKER}-0")
    ask(world, "r", OTHERS[1], ticket=f"{WORKER}-1")
    assert world.run("DEL", KEY, KEY, token=ME, wait=1) == b":1\r\n"
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-0"]
    assert_holder(world, "r", OTHERS[0])
    assert world.db.zcard(QUEUE) == 1


@pytest.mark.parametrize("kind", "rv")
def test_a_rule_without_wait_leaves_the_record_of_a_queue_alone(world, kind):
    """Only DEL under a rule with `wait` hands over; without, hasp's own look does."""
    ask(world, kind, ME)
    ask(world, kind, OTHER)
    identity = own_token(kind, ME)
    assert world.run("DEL", KEY, token=identity, **RULES[kind]) == b":1\r\n"
    assert not world.db.exists(KEY) and world.db.zcard(QUEUE) == 1


# -- hasp's own look

@kinds
def test_a_look_hands_over_a_lock_that_is_free(world, workers, kind):
    ask(world, kind, ME)
    first = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    second = place_in(ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2"))
    owner = [own_token(kind, token) for token in OTHERS]
    value = [value_of(token) for token in OTHERS]
    what, held, _ = world.check(kind, owner[0], f"{WORKER}-1", first, value[0])
    assert what == "queued" and LEASE - 2000 < held <= LEASE
    assert workers.told() == []
    expire_now(world)
    # On behalf of the second: the first is let in all the same.
    what, held, _ = world.check(kind, owner[1], f"{WORKER}-2", second, value[1])
    assert what == "queued" and LEASE - 2000 < held <= LEASE
    fence = 0 if kind in RULES else int(world.db.get("hasp:fence"))
    assert workers.told() == [(f"{WORKER}-1", str(fence or "-"))]
    assert_holder(world, kind, OTHERS[0])
    world.db.pexpire(KEY, 20000)
    what, held, got = world.check(kind, owner[0], f"{WORKER}-1", first, value[0])
    assert (what, got) == ("granted", fence) and 18000 < held <= 20000
    assert world.check(kind, owner[2], f"{WORKER}-3", first + 1, value[2])[0] == "gone"
    assert workers.told() == []


@kinds
def test_a_look_on_behalf_of_nobody_only_hands_over(world, workers, kind):
    assert world.check(kind, "", "", 0, "") == ["gone", -2, 0]
    ask(world, kind, ME)
    assert world.check(kind, "", "", 0, "")[0] == "gone"
    ask(world, kind, OTHER, ticket=f"{WORKER}-1")
    expire_now(world)
    what, held, _ = world.check(kind, "", "", 0, "")
    assert what == "gone" and LEASE - 2000 < held <= LEASE
    assert len(workers.told()) == 1
    assert_holder(world, kind, OTHER)


@kinds
def test_a_grant_that_was_heard_of_late_begins_its_lease_again(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-1", lease=7000))
    give_back(world, kind, ME)
    for key in world.db.keys(f"*{KEY}*"):
        world.db.pexpire(key, 3000)
    what, held, _ = world.check(kind, own_token(kind, OTHER), f"{WORKER}-1", place,
                                value_of(OTHER), lease=7000)
    assert what == "granted" and 6000 < held <= 7000
    assert_holder(world, kind, OTHER, 7000)
    assert_record(world, kind, OTHER, f"{WORKER}-1")


@kinds
def test_who_lost_the_lock_again_is_told_that_it_is_gone(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-1"))
    give_back(world, kind, ME)
    expire_now(world)
    ask(world, kind, ME, ticket=f"{WORKER}-2")
    assert world.check(kind, own_token(kind, OTHER), f"{WORKER}-1", place,
                       value_of(OTHER))[0] == "gone"
    assert_holder(world, kind, ME)


# -- leaving

@kinds
@pytest.mark.parametrize("what", ["undo", "tell"])
@pytest.mark.parametrize("known", [True, False])
def test_who_leaves_the_queue_is_not_called_in(world, workers, kind, what, known):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-11")  # not mistaken for the other one
    args = own_token(kind, OTHERS[0]), f"{WORKER}-1", place if known else -1, what
    assert world.leave(kind, *args, value_of(OTHERS[0])) == ["left", 0, 0]
    assert world.leave(kind, *args, value_of(OTHERS[0])) == ["gone", 0, 0]
    assert_holder(world, kind, ME)
    give_back(world, kind, ME)
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-11"]


@kinds
def test_who_was_let_in_gives_it_back_when_it_leaves(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-1"))
    ask(world, kind, OTHERS[1], ticket=f"{WORKER}-2")
    give_back(world, kind, ME)
    args = kind, own_token(kind, OTHERS[0]), f"{WORKER}-1", place
    what, held, fence = world.leave(*args, "tell", value_of(OTHERS[0]))
    assert what == "granted" and LEASE - 2000 < held <= LEASE
    assert fence == (0 if kind in RULES else int(world.db.get("hasp:fence")))
    assert_holder(world, kind, OTHERS[0])
    assert world.leave(*args, "undo", value_of(OTHERS[0])) == ["undone", 0, 0]
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1", f"{WORKER}-2"]
    assert_holder(world, kind, OTHERS[1])
    assert world.leave(*args, "undo", value_of(OTHERS[0])) == ["gone", 0, 0]
    assert_holder(world, kind, OTHERS[1])


@kinds
def test_a_try_that_nobody_heard_of_is_undone(world, kind):
    """It took the lock at once; the answer was lost with the connection."""
    ask(world, kind, ME, ticket=f"{WORKER}-1")
    assert world.leave(kind, own_token(kind, ME), f"{WORKER}-2", 0, "undo",
                       value_of(ME)) == ["gone", 0, 0]
    assert_holder(world, kind, ME)
    assert world.leave(kind, own_token(kind, ME), f"{WORKER}-1", 0, "undo",
                       value_of(ME)) == ["undone", 0, 0]
    assert_nothing_left(world)


def test_undoing_a_hold_leaves_the_others(world):
    ask(world, "h", ME, ticket=f"{WORKER}-1")
    ask(world, "h", ME, ticket=f"{WORKER}-2")
    ask(world, "h", OTHER)
    assert world.leave("h", ME, f"{WORKER}-2", 0) == ["undone", 0, 0]
    # Once only, should the call be made again.
    assert world.leave("h", ME, f"{WORKER}-2", 0) == ["gone", 0, 0]
    assert_holder(world, "h", ME)
    assert world.db.zcard(QUEUE) == 1
    assert world.verb("LOCK", KEY) == b":1\r\n"  # the fencing token of the first


@pytest.mark.parametrize("kind", "srv")
def test_undoing_a_refresh_leaves_the_lock(world, kind):
    """Its owner had it before, maybe over another connection."""
    again = {"layout": "refresh"} if kind == "s" else {"reentrant": "refresh"}
    ask(world, kind, ME, ticket=f"{WORKER}-1", **again)
    reply = ask(world, kind, ME, ticket=f"{WORKER}-2", lease=50000, **again)
    assert reply == "OK" if kind in RULES else reply == 1
    assert world.leave(kind, own_token(kind, ME), f"{WORKER}-2", 0, "undo",
                       value_of(ME)) == ["gone", 0, 0]
    assert_holder(world, kind, ME, 50000)


# -- what goes wrong

@kinds
def test_a_lock_that_redis_has_no_room_for_stays_free_and_the_queue_whole(world, workers, kind):
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-1"))
    expire_now(world)
    entries = world.db.zrange(QUEUE, 0, -1, withscores=True)
    args = kind, own_token(kind, OTHER), f"{WORKER}-1", place, value_of(OTHER)
    world.db.config_set("maxmemory", 1)
    try:
        assert world.check(*args) == ["queued", -2, 0]
        assert ask(world, kind, OTHERS[0]).startswith("OOM")
        assert ask(world, kind, OTHERS[0], wait=0) is None
    finally:
        world.db.config_set("maxmemory", 0)
    assert workers.told() == []
    assert world.db.zrange(QUEUE, 0, -1, withscores=True) == entries
    assert not world.db.exists(KEY, SIDE, FENCE)
    assert world.check(*args)[0] == "granted"
    assert_holder(world, kind, OTHER)


@kinds
@pytest.mark.parametrize("may_not", ["-publish", "resetchannels"])
def test_whose_user_may_not_publish_leaves_the_lock_free_for_hasps_look(world, server, workers,
                                                                        kind, may_not):
    world.db.execute_command("ACL", "SETUSER", "mute", "reset", "on", "nopass", "~*", "&*",
                             "+@all", may_not)
    ask(world, kind, ME)
    place = place_in(ask(world, kind, OTHER, ticket=f"{WORKER}-1"))
    with Connection(server.unix) as c:
        c.call("AUTH", "mute", "x")
        there, world.ours[2] = world.ours[2], c
        try:
            assert give_back(world, kind, ME) == 1
        finally:
            world.ours[2] = there
    assert workers.told() == []
    assert not world.db.exists(KEY, SIDE, FENCE) and world.db.zcard(QUEUE) == 1
    assert world.check(kind, own_token(kind, OTHER), f"{WORKER}-1", place,
                       value_of(OTHER))[0] == "granted"
    assert len(workers.told()) == 1
    assert_holder(world, kind, OTHER)


@kinds
def test_what_is_no_entry_is_thrown_out_of_the_queue(world, workers, kind):
    ask(world, kind, ME)
    ask(world, kind, OTHER, ticket=f"{WORKER}-1")
    for n, junk in enumerate(["", "junk", f"{WORKER}-7 x h 1 0 t ", "- - - - - - -"]):
        world.db.zadd(QUEUE, {junk: n})
    assert give_back(world, kind, ME) == 1
    assert [ticket for ticket, _ in workers.told()] == [f"{WORKER}-1"]
    assert not world.db.exists(QUEUE)


@pytest.mark.parametrize("value", VALUES, ids=range(len(VALUES)))
def test_any_value_is_handed_over(world, workers, value):
    for kind in RULES:
        world.db.flushall()
        ask(world, kind, ME)
        place = place_in(ask(world, kind, OTHER, argv=["SET", KEY, value, "NX"],
                             ticket=f"{WORKER}-1"))
        assert give_back(world, kind, ME) == 1
        assert len(workers.told()) == 1
        assert world.db.get(KEY) == value
        token = value if kind == "v" else OTHER
        assert world.check(kind, token, f"{WORKER}-1", place, value)[0] == "granted"
        assert world.leave(kind, token, f"{WORKER}-1", place, "undo", value)[0] == "undone"
        assert_nothing_left(world)


def test_info_counts_who_waits(world):
    ask(world, "h", ME)
    for token in OTHERS:
        ask(world, "h", token)
    assert bulk("waiters") + b":%d\r\n" % len(OTHERS) in world.verb("INFO", KEY)


def test_redissons_waiters_are_told_only_when_nobody_of_ours_is_let_in(world, server, workers):
    """They would only find the lock taken."""
    with Connection(server.unix) as redisson:
        redisson.call("SUBSCRIBE", "redisson_lock__channel:{lock:1}")
        ask(world, "h", ME)
        ask(world, "h", OTHERS[0], ticket=f"{WORKER}-1")
        assert give_back(world, "h", ME) == 1
        assert redisson.call("PING") == b"*2\r\n" + bulk("pong") + bulk("")
        ask(world, "h", OTHERS[1], ticket=f"{DEAF}-1")
        assert give_back(world, "h", OTHERS[0]) == 1
        assert parse(redisson.read()) == ["message", "redisson_lock__channel:{lock:1}", "0"]
        ask(world, "h", ME, ticket=f"{WORKER}-2")
        assert world.leave("h", ME, f"{WORKER}-2", 0)[0] == "undone"
        assert parse(redisson.read()) == ["message", "redisson_lock__channel:{lock:1}", "0"]


def act_out_all_of_waiting(world, server):
    """Every way through hand_off.lua and its kin, with somebody there to be told."""
    workers = Workers(server, WORKER)
    for kind in "hsrv":
        for last in (give_back, lambda w, k, t: w.release(k, KEY, own_token(k, t))):
            world.db.flushall()
            ask(world, kind, ME, ticket=f"{WORKER}-1")
            place = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-2"))
            ask(world, kind, OTHERS[1], ticket=f"{DEAF}-3")
            ask(world, kind, OTHERS[2], ticket=f"{WORKER}-4")
            world.verb("INFO", KEY, layout=LAYOUTS.get(kind, "no"))
            last(world, kind, ME)
            args = kind, own_token(kind, OTHERS[0]), f"{WORKER}-2", place
            assert world.check(*args, value_of(OTHERS[0]), lease=LEASE)[0] == "granted"
            assert world.leave(*args, "undo", value_of(OTHERS[0]))[0] == "undone"
            assert world.leave(*args, "undo", value_of(OTHERS[0]))[0] == "gone"
            expire_now(world)
            ask(world, kind, OTHERS[3], ticket=f"{WORKER}-5")
            ask(world, kind, OTHERS[4], ticket=f"{WORKER}-6")
            world.leave(kind, own_token(kind, OTHERS[4]), f"{WORKER}-6", -1, "tell",
                        value_of(OTHERS[4]))
            last(world, kind, OTHERS[3])
    workers.c.close()


# ---- the scripts themselves

def calls_of(world, what):
    """How many commands `what` made Redis run inside a script."""
    world.db.config_resetstat()
    what()
    stats = world.db.info("commandstats")
    outside = {"cmdstat_config|resetstat", "cmdstat_info", "cmdstat_eval", "cmdstat_evalsha"}
    return sum(s["calls"] for name, s in stats.items() if name not in outside)


@pytest.mark.parametrize("state, argv, most", [
    ("free", ["SETNX", KEY, "v"], 2), ("free", ["SET", KEY, "v", "NX", "PX", 9000], 2),
    ("another's", ["SETNX", KEY, "v"], 1), ("mine", ["SET", KEY, "v", "NX", "GET"], 1),
    ("mine", ["DEL", KEY], 3), ("another's", ["DEL", KEY], 2), ("free", ["DEL", KEY], 2),
    ("free", ["SET", KEY, "v"], 3), ("mine", ["SET", KEY, "v"], 4),
    ("another's", ["SET", KEY, "v"], 2), ("free", ["INCR", KEY], 3),
    ("mine", ["EXPIRE", KEY, 10], 4), ("mine", ["PERSIST", KEY], 2),
    ("mine", ["APPEND", KEY, "x"], 6), ("another's", ["APPEND", KEY, "x"], 2),
    ("wrong type", ["RPUSH", KEY, "x"], 3),
])
def test_no_script_calls_more_than_it_must(world, state, argv, most):
    token = world.put(state)
    assert calls_of(world, lambda: world.run(*argv, token=token)) == most


@pytest.mark.parametrize("layout, verb, args, most", [
    ("count", "LOCK", [], 5), ("count", "UNLOCK", [], 4), ("no", "LOCK", [], 5),
    ("no", "UNLOCK", [], 3), ("count", "EXTEND", ["PX", 9], 3)])
def test_no_verb_calls_more_than_it_must(world, layout, verb, args, most):
    if verb != "LOCK":
        world.verb("LOCK", KEY, layout=layout)
    assert calls_of(world, lambda: world.verb(verb, KEY, *args, layout=layout)) == most


@pytest.mark.parametrize("kind, free, taken, behind, given_back, handed_over", [
    ("h", 5, 8, 6, 4, 11), ("s", 5, 7, 6, 3, 10), ("r", 4, 9, 6, 5, 12), ("v", 3, 9, 6, 4, 10)])
def test_no_script_that_waits_calls_more_than_it_must(world, workers, kind, free, taken, behind,
                                                      given_back, handed_over):
    assert calls_of(world, lambda: ask(world, kind, ME)) == free
    assert calls_of(world, lambda: give_back(world, kind, ME)) == given_back
    ask(world, kind, ME)
    assert calls_of(world, lambda: ask(world, kind, OTHER, ticket=f"{WORKER}-1")) == taken
    assert calls_of(world, lambda: ask(world, kind, OTHERS[0], ticket=f"{WORKER}-2")) == behind
    assert calls_of(world, lambda: give_back(world, kind, ME)) == handed_over
    assert len(workers.told()) == 1


def test_each_script_is_the_same_inline(world):
    """In MULTI hasp sends EVAL with the text."""
    world.db.script_flush()
    assert world.run("APPEND", KEY, "v").startswith(b"-NOSCRIPT")
    assert world.run("SET", KEY, "v", "NX", inline=True) == b"+OK\r\n"
    assert world.run("APPEND", KEY, "v", inline=True) == b":2\r\n"
    assert world.verb("LOCK", "job", inline=True) == b":1\r\n"
    assert world.run("APPEND", KEY, "v", token=OTHER) == locked(KEY)  # known by now
    load_scripts(world.tool, world.db)


def test_every_key_a_script_touches_is_declared(world, tool, server):
    """As MONITOR shows the scripts' own commands."""
    with Connection(server.unix) as monitor:
        monitor.call("MONITOR")
        for state in STATES:
            for argv in ([make() for make, _ in [*TAKES.values(), *SETS.values()]] + WRITES +
                         [["INCR", KEY], ["EXPIRE", KEY, 5], ["PERSIST", KEY],
                          ["DEL", KEY, "b"]]):
                token = world.put(state)
                world.run(*argv, token=token)
                world.run(*argv, token=token, reentrant="refresh", longest=LEASE)
        for verb in ("LOCK", "INFO", "UNLOCK"):
            world.verb(verb, KEY)
            world.verb(verb, KEY, layout="no")
        world.renew(("r", KEY, ME, LEASE, 0), ("v", "other", ME, LEASE, 0))
        world.renew(("h", KEY, ME, LEASE, 0), ("s", "other", ME, LEASE, 0))
        world.release("h", KEY, ME)
        act_out_all_of_waiting(world, server)
        world.db.ping()
        declared, checked = set(), 0
        while True:
            line = monitor.read().decode("latin1")
            words = [w.encode().decode("unicode_escape")
                     for w in re.findall(r'"((?:[^"\\]|\\.)*)"', line)]
            name = words[0].upper()
            if name == "PING":
                break
            if name == "EVALSHA":
                declared = set(words[3:3 + int(words[2])])
            elif " lua] " in line and name not in ("PUBLISH", "PUBSUB", "TIME"):
                keys = tool.ask("keys", *map(to_hex, words))[2:]
                touched = {words[int(i)] for i in keys} or {words[1]}
                assert touched <= declared, line
                checked += 1
        assert checked > 1000


def test_a_replica_refuses_as_redis_does(world):
    world.db.execute_command("REPLICAOF", "127.0.0.1", 1)
    try:
        for argv in (["SETNX", KEY, "v"], ["SET", KEY, "v"], ["INCR", KEY], ["DEL", KEY],
                     ["EXPIRE", KEY, 1], ["APPEND", KEY, "v"], ["SET", KEY, "v", "NX", "GET"]):
            assert world.run(*argv) == world.plain(*argv)
        assert world.verb("LOCK", KEY) == world.plain("SET", KEY, "v")
    finally:
        world.db.execute_command("REPLICAOF", "NO", "ONE")


@pytest.mark.parametrize("told, meant", [
    ("@user_script: 7: -READONLY You can't write against a read only replica.\r\n",
     "READONLY You can't write against a read only replica."),
    ("@user_script: 7: Wrong number of args calling Redis command From Lua script",
     "ERR wrong number of arguments for 'expire' command"),
    ("ERR Wrong number of args calling Redis command from script",
     "ERR wrong number of arguments for 'expire' command"),
    ("WRONGTYPE Operation", "WRONGTYPE Operation")])
def test_errors_of_older_servers_lose_their_line_number(world, told, meant):
    """As Redis 6's luaPushError() words them."""
    text = (TOP / "proxy/lock/scripts/includes/client_error.lua").read_text()
    world.ours[2].send(encode(
        "EVAL", text + "return client_error({err = ARGV[1]}, 'EXPIRE')", 0, told))
    assert world.ours[2].read() == f"-{meant}\r\n".encode()


def test_out_of_memory_is_told_as_redis_does(world):
    world.put("mine")
    for layout in ("count", "no"):
        world.verb("LOCK", f"job:{layout}", layout=layout)
    world.db.config_set("maxmemory", 1)
    try:
        for argv in (["SETNX", "lock:x", "v"], ["SET", KEY, "v"], ["INCR", "lock:y"],
                     ["APPEND", KEY, "v"], ["GETSET", KEY, "v"]):
            reply = world.run(*argv)
            assert reply == world.plain(*argv) and reply.startswith(b"-OOM")
        assert world.verb("LOCK", "job").startswith(b"-OOM")
        assert world.run("EXPIRE", KEY, 100) == b":1\r\n"
        world.assert_lock("held", 100000)
        for layout in ("count", "no"):
            assert world.verb("UNLOCK", f"job:{layout}", layout=layout) == b":1\r\n"
        assert world.run("DEL", KEY) == b":1\r\n"
    finally:
        world.db.config_set("maxmemory", 0)


def test_a_lock_that_cannot_be_read_is_not_taken_for_free(world, server):
    world.db.acl_setuser("blind", enabled=True, nopass=True, keys=["*"],
                         commands=["+@all", "-get"])
    world.run("SET", KEY, "v", "NX", token=OTHER)
    with Connection(server.unix) as c:
        c.call("AUTH", "blind", "x")
        for argv in (["SET", KEY, "mine"], ["DEL", KEY], ["APPEND", KEY, "x"]):
            call = world.tool.lock(argv)
            c.send(call.wire)
            assert c.read().startswith(b"-")
    world.assert_lock("v", LEASE, owner=OTHER)


# ---- the command table

def test_the_built_in_commands_are_the_servers(tool, server):
    for name, entry in command_table(server).items():
        known = tool.ask("keys", to_hex(name))[0] == "1"
        writes = "write" in entry[2] and name not in ("flushall", "flushdb", "swapdb")
        # What a guard can be taken on.
        reads = "readonly" in entry[2] and (entry[3] > 0 or "movablekeys" in entry[2]) and \
            not {"noscript", "blocking"} & set(entry[2])
        # Scripts may release a lock that is waited for.
        assert known == (name in ("eval", "evalsha", "fcall") or writes or reads), name
        if not known:
            continue
        arity = entry[1]
        for argc in range(1, 12):
            fits = argc == arity if arity > 0 else argc >= -arity
            ours = tool.ask("keys", to_hex(name), *["31"] * (argc - 1))[1]
            assert ours == str(int(fits)), (name, argc)


GETKEYS = [
    "append k v", "bitop and d a b c", "blmove a b left left 0", "blmpop 0 2 a b left",
    "blpop a b c 0", "copy a b", "del a b c", "geoadd k 1 2 m",
    "georadius k 1 2 3 km", "georadius k 1 2 3 km store d", "georadius k 1 2 3 km storedist d",
    "georadiusbymember k m 3 km store d",
    "geosearchstore d s frommember m byradius 1 km", "lmpop 2 a b left", "mset a 1 b 2",
    "pfdebug getreg k", "pfmerge d a b", "rename a b", "sort k", "sort k store d",
    "sort k by store limit 0 1", "sort k get store store d", "sort k limit store 1 store d",
    "sort k store a store b", "sort k store", "zdiffstore d 2 a b", "zunionstore d 1 a weights 2",
    "zinterstore d 2 a b", "zmpop 1 a min", "zrangestore d s 0 1", "sinterstore d a b",
    "eval text 2 a b c", "evalsha sha 1 a", "fcall f 2 a b", "eval text 0 a",
    "xadd k 1-1 a b", "expire k 1", "brpoplpush a b 0", "bzpopmin a b 0", "bzmpop 0 1 a min",
]


@pytest.mark.parametrize("line", GETKEYS)
def test_keys_stand_where_the_server_says(tool, world, line):
    words = line.split()
    theirs = parse(world.plain("COMMAND", "GETKEYS", *words))
    ours = tool.ask("keys", *map(to_hex, words))[2:]
    assert [words[int(i)] for i in ours] == theirs


@pytest.mark.parametrize("line", ["lmpop 3 a b left x", "zmpop x a min", "zunionstore d 9 a",
                                  "lmpop -1 a left", "lmpop", "zunionstore d"])
def test_a_wrong_number_of_keys_names_none_behind_it(tool, line):
    words = line.split()
    keys = tool.ask("keys", *map(to_hex, words))[2:]
    assert [words[int(i)] for i in keys] in ([], ["d"], ["a", "b", "left"])
