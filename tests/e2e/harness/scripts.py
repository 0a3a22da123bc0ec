# SPDX-License-Identifier: BSD-3-Clause
"""The rewritten commands and their scripts on a real Redis, without a proxy.

rewrite_tool returns the bytes that hasp would send, and these tests send them unchanged. If no rule
applies, a test compares the reply byte for byte with that of the plain command, run from the same
state in another database. $REWRITE_TOOL names the program; otherwise make builds it.
"""

import fcntl
import functools
import inspect
import itertools
import os
import pathlib
import subprocess
import time

import pytest
import redis as redis_py

from .processes import TOP, RedisServer
from .resp import Connection, encode, pipeline

LEASE = 30000
ME, OTHER = "10.0.0.1:4711/0/c0ffee", "10.0.0.2:4712/1/decade"
BUSY = b"+BUSY\r\n"
KEY, SIDE, FENCE = "lock:1", "hasp:owner:{lock:1}", "hasp:fence:{lock:1}"


def build_tool():
    """Builds rewrite_tool by make, where hasp was built; one test process at a time."""
    directory = pathlib.Path(os.environ.get("HASP") or TOP / "hasp").resolve().parent
    with open(directory / "Makefile") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.check_call(["make", "-s", "-C", directory, "tests/e2e/rewrite_tool"])
    return directory / "tests" / "e2e" / "rewrite_tool"


class Call:
    """The rewriter's result: `passed`, or the fields of struct lock_call."""

    def __init__(self, words):
        self.passed = words[0] == "pass"
        self.effect, self.is_short = "none", False
        if self.passed:
            return
        self.script, self.effect, self.success = words[1:4]
        self.leased, self.lease_ms = words[4] == "1", int(words[5])
        self.key, self.value, self.owner = map(unhex, words[6:9])
        self.kind, self.wait_ms, self.is_short = words[9], int(words[10]), words[11] == "1"
        self.wire = unhex(words[12])

    def succeeded(self, reply):
        return not reply.startswith(b"-") and {
            "ok": reply.startswith(b"+"),
            "one": reply == b":1\r\n",
            "positive": reply[:1] == b":" and int(reply[1:]) > 0,
            "nil": reply in (b"$-1\r\n", b"_\r\n"),
            "value": reply not in (b"$-1\r\n", b"_\r\n"),
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

    def how(self, inline=False, resp=2, token=ME, ticket=None, may_wait=0, place=0, short=False):
        """Returns arguments for rewrite_tool. `may_wait`: how many ms an attempt may wait."""
        if ticket is None:
            ticket = f"{WORKER}-{next(self.serial):x}"
        return [1 if inline else 2 if short else 0, resp, to_hex(ticket), may_wait, place, to_hex(token)]

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
def tool():
    program = os.environ.get("REWRITE_TOOL") or build_tool()
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


def parse(frame):
    """Parses a RESP2 frame into Python values."""
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


def command_table(server):
    with Connection(server.unix) as c:
        c.send(encode("COMMAND"))
        return {e[0]: e for e in parse(c.read())}


class World:
    """A Redis with the scripts loaded. hasp's calls run in database 0, plain commands in database
    1."""

    def __init__(self, tool, server):
        self.tool, self.server = tool, server
        self.db, self.other_db = (redis_py.Redis(unix_socket_path=str(server.unix), db=db, single_connection_client=True)
                                  for db in (0, 1))
        load_scripts(tool, self.db)
        self.aside = self.connect(server, 2, 0)  # for pipelines
        self.ours = {v: self.connect(server, v, 0) for v in (2, 3)}
        self.plainly = {v: self.connect(server, v, 1) for v in (2, 3)}
        self.last = None
        self.calls_are_short = False
        self.clear()

    def begin(self):
        """Marks the time after which the test sets expiries."""
        self.began = time.monotonic()

    def clear(self):
        """Empties Redis for the next test or row."""
        self.begin()
        pipeline(self.aside, ("FLUSHALL",), ("CONFIG", "RESETSTAT"))

    def elapsed(self):
        """Returns an upper bound of the milliseconds since begin()."""
        return (time.monotonic() - self.began) * 1000 + 2

    def is_left(self, left, ms):
        """Returns true if `left` ms may be left of an expiry of `ms` that was set since begin()."""
        return ms - self.elapsed() <= left <= ms

    @staticmethod
    def connect(server, version, db):
        c = Connection(server.unix)
        c.call("HELLO", version)
        assert c.call("SELECT", db) == b"+OK\r\n"
        return c

    def close(self):
        for c in [*self.ours.values(), *self.plainly.values(), self.aside, self.db, self.other_db]:
            c.close()

    def run(self, *argv, resp=2, **rule):
        """Returns the reply to a command on keys with a rule. If the rewriter passes the command,
        Redis gets it unchanged."""
        return self._call(lambda short: self.tool.lock(argv, resp=resp, short=short, **rule), resp, argv)

    def verb(self, verb, *args, resp=2, **rule):
        return self._call(lambda short: self.tool.verb(verb, [verb, *args], resp=resp, short=short, **rule), resp)

    def _call(self, rewrite, resp, argv=()):
        self.last = call = rewrite(self.calls_are_short)
        before = self.dump() if call.is_short else None
        self.ours[resp].send(encode(*argv) if call.passed else call.wire)
        reply = self.ours[resp].read()
        if reply == BUSY and call.is_short:
            assert self.dump() == before
            self.last = call = rewrite(False)
            self.ours[resp].send(call.wire)
            reply = self.ours[resp].read()
        if reply.startswith(b"+REFUSED "):  # hasp does not show this to a client
            reply = b":%s\r\n" % reply.split()[1]
        return reply

    def plain(self, *argv, resp=2):
        if as_bytes(argv[0]).lower() == b"move":
            argv = [*argv[:2], argv[2] + 1]  # a database that MOVE of hasp's calls does not use
        return self.plainly[resp].call(*argv)

    def fence(self):
        """Returns the latest fencing token."""
        return int(self.db.get("hasp:fence") or 0)

    def fenced(self):
        """Returns the reply that contains the token."""
        return b":%d\r\n" % self.fence()

    def own(self, what, *words):
        self.ours[2].send(self.tool.own(what, *words))
        return parse(self.ours[2].read())

    def renew(self, *locks):
        """Renews locks, each given as kind, key, token, lease, fence."""
        return self.own("renew", *itertools.chain(*(
            (kind, to_hex(key), to_hex(token), lease, fence)
            for kind, key, token, lease, fence in locks)))

    def release(self, kind, key, token, ticket=None, most=0):
        """Releases as hasp does when a connection ends: of a counted lock, each attempt's hold."""
        record = f"hasp:fence:{{{key}}}"
        if kind == "l":
            ticket = ticket or (self.db.hget(record, token) or b"0 ?").decode().split(" ")[1]
            return self.own("unlock", kind, to_hex(key), to_hex(token), to_hex(ticket.lstrip("=")))
        if ticket is None:
            _, _, ticket = (self.db.get(record) or b"- 0 ?").decode().split(" ")
        if kind in "rv":
            return self.own("release", kind, to_hex(key), to_hex(token), to_hex(ticket.lstrip("=")), most)
        if kind == "s":
            return self.own("unlock", kind, to_hex(key), to_hex(token), to_hex(ticket.lstrip("=")))
        joined = self.db.zrange(f"hasp:owner:{{{key}}}", 0, -1)
        tickets = [ticket, *(member.decode().split(" ")[1] for member in joined)]
        undone = [self.own("dequeue", kind, to_hex(key), to_hex(token), to_hex("v"), to_hex(ticket), 0,
                           "undo")[0] == "undone" for ticket in tickets]
        return int(any(undone))

    def poll(self, kind, token, ticket, place, value="v", lease=0):
        return self.own("poll", kind, to_hex(KEY), to_hex(token), to_hex(value),
                        to_hex(ticket), place, lease)

    def dequeue(self, kind, token, ticket, place, what="undo", value="v", age=3600000):
        """`age`: how many ms ago the attempt was made, if its place is unknown (-1)."""
        return self.own("dequeue", kind, to_hex(KEY), to_hex(token), to_hex(value),
                        to_hex(ticket), place, what, *([age] if place < 0 else []))

    # -- states of a key

    def put(self, state, key=KEY, owner="connection"):
        """Creates the state in both databases. Returns the token of the client that asks."""
        self.begin()
        end = int(time.time() * 1000) + 20000
        locks, note = {
            "free": ([], None), "left over": ([], f"{OTHER} held"),
            "mine": ([("SET", key, "held", "PXAT", end)], f"{ME} held"),
            "another's": ([("SET", key, "held", "PXAT", end)], f"{OTHER} held"),
            "stale": ([("SET", key, "held", "PXAT", end)], f"{OTHER} was"),
            "nobody's": ([("SET", key, "held", "PXAT", end)], None),
            "wrong type": ([("RPUSH", key, "x")], f"{OTHER} held"),
            "unending": ([("SET", key, "held")], None), "mine unending": ([("SET", key, "held")], f"{ME} held"),
        }[state]
        notes = [("SET", f"hasp:owner:{{{key}}}", note, "PXAT", end)] if note and owner != "value" else []
        pipeline(self.aside, ("FLUSHALL",), *notes)
        self.fill(*locks)
        if owner == "value":
            return {"mine": "held", "mine unending": "held", "another's": "else"}.get(state, "")
        return ME

    def fill(self, *commands):
        """Runs the commands in both databases."""
        pipeline(self.aside, *commands, ("SELECT", 1), *commands, ("SELECT", 0))

    def dump(self):
        """Returns every key with Redis' replies: its value and the time at which it expires."""
        keys = [key.encode("latin1") for key in parse(self.aside.call("KEYS", "*"))]
        replies = pipeline(self.aside, *((what, key) for key in keys for what in ("DUMP", "PEXPIRETIME")))
        return dict(zip(keys, zip(replies[::2], replies[1::2])))

    def assert_lock(self, value, ttl, owner=ME, key=KEY, side=SIDE, note=None):
        """Checks the lock's value, its expiry, and its sidecar, in which `note` stands for the value.
        `owner` None: the sidecar must not be valid.

        The expiry may be up to a second less than `ttl`: a test may have set a date in seconds."""
        value = as_bytes(value)
        assert self.db.get(key) == value
        left = self.db.pttl(key)
        assert ttl - 1000 - self.elapsed() <= left <= ttl, (left, ttl)
        if owner is None:
            note = self.db.get(side)
            assert note is None or note.split(b" ", 1)[1] != value
            return
        assert self.db.get(side) == owner.encode() + b" " + as_bytes(value if note is None else note)
        self.assert_end_together(key, side)

    def assert_end_together(self, key, side):
        """Checks that one script has set both expiries, `side`'s last: they differ by no more than
        its run time."""
        assert 0 <= self.db.pexpiretime(side) - self.db.pexpiretime(key) <= self.elapsed()


@pytest.fixture(scope="module")
def one_world(tool, server):
    world = World(tool, server)
    yield world
    world.close()


@pytest.fixture
def world(one_world):
    one_world.clear()
    one_world.calls_are_short = False
    return one_world


@pytest.fixture(params=["full", "short"], autouse=True)
def calls(request, world):
    """A file that imports this runs all its tests twice: with full calls, and with short ones where
    hasp may send them."""
    world.calls_are_short = request.param == "short"


def each(names="", rows=((),), **columns):
    """The test runs all rows of a table, each on an empty Redis, and reports every row that fails.

    A row has the values of one of `rows` for `names`, as pytest.mark.parametrize takes them, and
    one value of each of `columns`, in all combinations.
    """
    def decorate(test):
        words = [*filter(None, names.split(", ")), *columns]
        parameters = inspect.signature(test).parameters

        @functools.wraps(test)
        def run(world, **fixtures):
            __tracebackhide__ = True
            faults = {}  # {failure as pytest prints it: the rows that failed with it}
            for row, *others in itertools.product(rows, *columns.values()):
                values = dict(zip(words, [*row, *others], strict=True))
                world.clear()
                try:
                    test(world=world, **fixtures, **values)
                except Exception:
                    shown = ", ".join(f"{name}={value!r}"[:200] for name, value in values.items())
                    failure = str(pytest.ExceptionInfo.from_current().getrepr(style="short"))
                    faults.setdefault(failure, []).append(shown)
            if faults:
                failed = [f"{sum(map(len, faults.values()))} rows failed"]
                failed += ["\n".join([*shown, failure]) for failure, shown in faults.items()]
                pytest.fail("\n\n".join(failed), pytrace=False)

        run.__signature__ = inspect.Signature([p for name, p in parameters.items() if name not in words])
        return run
    return decorate


STATES = ["free", "mine", "another's", "nobody's", "stale", "left over", "wrong type",
          "unending", "mine unending"]
HELD = [s for s in STATES if s not in ("free", "left over")]
# Other kinds of owners lead to the same calls as a connection.
OWNERS = ["connection", "value"]
NIL = {2: b"$-1\r\n", 3: b"_\r\n"}
RESPS = [*NIL]
# Of each, all values, but not all pairs: no script looks at both.
OWNERS_RESPS = [*zip(OWNERS, RESPS)]
LOCK_LAYOUTS = ["count", "refresh", "no"]  # values of `reentrant`, for LOCK without LIMIT


def bulk(text):
    text = as_bytes(text)
    return b"$%d\r\n%s\r\n" % (len(text), text)


def locked(key):
    return f"-LOCKED '{key}' is held by another owner\r\n".encode()


def at(seconds):
    """Returns the date in `seconds` from now, in Unix seconds."""
    return int(time.time()) + seconds
