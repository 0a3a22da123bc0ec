# SPDX-License-Identifier: BSD-3-Clause
"""Random streams of commands, valid and not, for the differential tester.

A stream is a list of steps on one or more connections:

    send NAME atoms    sends the atoms' bytes, cut as `mode` says: whole, split, paused, bytes
    sync               waits until all that was sent is answered (`unblock`: and until blocking
                       commands have timed out)
    halfclose, close   of connection NAME

An atom is the encoding of one command, or one piece of rubbish: the minimiser leaves out whole atoms.
The same seed and index make the same stream.

Streams leave out commands that Redis itself answers differently each time: TIME, CLIENT
ID/LIST/INFO/KILL by id, INFO, LASTSAVE, RANDOMKEY, S/H/ZRANDMEMBER, SPOP, `XADD *`, OBJECT IDLETIME,
PTTL, SLOWLOG/LATENCY, COMMAND without INFO, SCAN of several keys; commands that concern the whole server
(SHUTDOWN, CONFIG SET, CLIENT PAUSE, SAVE, REPLICAOF, ACL SETUSER); and SYNC/PSYNC, whose answer comes
seconds later.
"""

import base64
import json
import random
from dataclasses import dataclass, field

from stream_commands import Commands, encode, to_bytes

MODES = ("whole", "whole", "split", "split", "paused", "bytes")
# A line without an end. Redis' limit is 64 KB, looked at after each read, and a read may
# take twice what came before: only from here on does it not matter how reads fall.
TOO_BIG = 300_000
BYTES_LIMIT = 600       # longest send that is cut into single bytes

PASSWORD = "sesame"     # the password of the server that requires one
USER, USER_PASSWORD = "alice", "wonder"


@dataclass
class Step:
    act: str                    # send, sync, halfclose, close
    conn: str = ""
    atoms: list = field(default_factory=list)
    mode: str = "whole"
    unblock: bool = False


@dataclass
class Stream:
    seed: str
    kind: str
    steps: list

    def atoms(self):
        return [(s, a) for s, step in enumerate(self.steps) for a in range(len(step.atoms))]

    def only(self, keep):
        """Returns the same stream with only the named atoms."""
        keep = set(keep)
        steps = [Step(step.act, step.conn,
                      [atom for a, atom in enumerate(step.atoms) if (s, a) in keep],
                      step.mode, step.unblock) for s, step in enumerate(self.steps)]
        return Stream(self.seed, self.kind, steps)

    def to_json(self):
        return json.dumps({"seed": self.seed, "kind": self.kind, "steps": [
            {**vars(step), "atoms": [base64.b64encode(a).decode() for a in step.atoms]}
            for step in self.steps]}, indent=1)

    @staticmethod
    def from_json(text):
        raw = json.loads(text)
        steps = [Step(**{**step, "atoms": [base64.b64decode(a) for a in step["atoms"]]})
                 for step in raw["steps"]]
        return Stream(raw["seed"], raw["kind"], steps)

    def __str__(self):
        lines = [f"stream {self.seed}, {self.kind}"]
        for step in self.steps:
            lines.append(f"  {step.act} {step.conn}".rstrip()
                         + (f" ({step.mode})" if step.act == "send" else "")
                         + (" until unblocked" if step.unblock else ""))
            for atom in step.atoms:
                text = repr(atom)[1:]
                lines.append("    " + (text if len(text) < 400 else
                                       f"{text[:300]} ... {len(atom)} bytes"))
        return "\n".join(lines)


class Generator(Commands):
    """Makes the stream number `index` of a campaign."""

    KINDS = (
        ("mixed", 30), ("session", 10), ("transaction", 10), ("pubsub", 10), ("blocking", 6),
        ("reply_modes", 6), ("tracking", 6), ("scripts", 8), ("types", 8), ("big", 3),
        ("wide", 2), ("inline", 8), ("broken", 14), ("half_close", 8), ("monitor", 2),
        ("login", 6), ("jumble", 10),
    )

    def __init__(self, seed, index, kinds=None):
        self.name = f"{seed}:{index}"
        super().__init__(random.Random(self.name), prefix=f"c{index}:")  # channels of this stream alone
        self.kinds = [(k, w) for k, w in self.KINDS if not kinds or k in kinds]

    def stream(self):
        names, weights = zip(*self.kinds)
        kind = self.rng.choices(names, weights)[0]
        self.steps = []
        getattr(self, kind)()
        self.probe()
        return Stream(self.name, kind, self.steps)

    # --- building

    def send(self, conn, *atoms, mode=None):
        atoms = [atom if isinstance(atom, bytes) else encode([to_bytes(x) for x in atom])
                 for atom in atoms]
        mode = mode or self.rng.choice(MODES)
        if mode == "bytes" and sum(map(len, atoms)) > BYTES_LIMIT:
            mode = "split"
        if self.steps and self.steps[-1].act == "send" and self.steps[-1].conn != conn:
            self.sync()  # between connections only a sync makes an order
        self.steps.append(Step("send", conn, atoms, mode))

    def sync(self, unblock=False):
        self.steps.append(Step("sync", unblock=unblock))

    def probe(self):
        """Shows what state the connections were left in."""
        self.sync(unblock=True)
        for conn in sorted({step.conn for step in self.steps if step.conn}):
            if not any(step.act in ("close", "halfclose") and step.conn == conn
                       for step in self.steps):
                self.send(conn, ("PING", "probe"), mode="whole")
        self.sync(unblock=True)

    # --- kinds of streams

    def hello(self, conn="a", often=0.4):
        if self.rng.random() < often:
            self.send(conn, ("HELLO", self.pick(3, 3, 2)))

    def mixed(self):
        self.hello()
        for _ in range(self.rng.randint(1, 5)):
            self.send("a", *self.some(self.command, 1, self.pick(3, 10, 60)))
            if self.rng.random() < 0.4:
                self.sync()
        if self.rng.random() < 0.3:
            self.send("b", *self.some(self.command, 1, 10))
            self.sync()
            self.send("a", *self.some(self.command, 1, 10))
        if self.rng.random() < 0.1:
            self.send("a", ("QUIT",), *self.some(self.command, 0, 3))

    def session_command(self):
        return self.pick(
            ("HELLO",), ("HELLO", 2), ("HELLO", 3), ("HELLO", 4), ("HELLO", "abc"), ("HELLO", 3, "FOO"),
            ("HELLO", 3, "AUTH", "default", "x", "SETNAME", "n2"), ("HELLO", 2, "SETNAME", "a b"),
            ("HELLO", 3, "AUTH", "nobody", "x"), ("HELLO", 3, "SETNAME"), ("HELLO", 3, "AUTH", "x"),
            ("AUTH", "x"), ("AUTH", "default", "x"), ("AUTH", "nobody", "x"), ("AUTH",),
            ("AUTH", USER, USER_PASSWORD), ("AUTH", "a", "b", "c"),
            ("SELECT", 1), ("SELECT", 0), ("SELECT", 15), ("SELECT", 16), ("SELECT", -1),
            ("CLIENT", "SETNAME", "n3"), ("CLIENT", "SETNAME", ""), ("CLIENT", "SETNAME", "a b"),
            ("CLIENT", "GETNAME"), ("RESET",), ("RESET", "x"), ("ACL", "WHOAMI"), ("ACL", "CAT", "x"),
            ("CLIENT", "NO-EVICT", "x"), ("CLIENT", "SETINFO", "lib-name", "x"), ("PING",),
            ("CLIENT", "REPLY", "ON"))

    def session(self):
        for _ in range(self.rng.randint(1, 4)):
            self.send("a", *self.some(lambda: self.case(self.pick(self.session_command,
                                                                  self.session_command,
                                                                  self.command)()), 1, 8))
            if self.rng.random() < 0.3:
                self.sync()
        if self.rng.random() < 0.25:
            self.send("a", self.pick(("QUIT",), ("QUIT", "x"), ("quit",), b"QUIT\r\n"),
                      *self.some(self.command, 0, 4))

    def transaction(self):
        self.hello()
        for _ in range(self.rng.randint(1, 4)):
            if self.rng.random() < 0.5:
                self.send("a", ("WATCH", self.key(), *self.pick((), (self.key(),))))
                self.sync()
            if self.rng.random() < 0.5:
                self.send("b", *self.some(self.command, 1, 3))
                self.sync()
            atoms = [("MULTI",), *self.some(self.command, 0, 6)]
            if self.rng.random() < 0.3:
                atoms.insert(self.rng.randint(1, len(atoms)), self.pick(
                    ("MULTI",), ("WATCH", "s0"), ("UNWATCH",), ("BLPOP", "l0", 0), ("DISCARD",),
                    ("WAIT", 1, 0), ("SUBSCRIBE", self.prefix + "x"), ("RESET",), ("SELECT", 1),
                    ("EVAL", "return redis.call('get','s0')", 0), ("HELLO", 3), ("AUTH", "x"),
                    ("CLIENT", "SETNAME", "n4"), ("SCRIPT", "EXISTS", "x"), ("MONITOR",)))
            if self.rng.random() < 0.9:
                atoms.append(self.pick(("EXEC",), ("EXEC",), ("EXEC",), ("DISCARD",), ("EXEC", "x")))
            self.send("a", *atoms)
            if self.rng.random() < 0.3:
                self.send("a", ("UNWATCH",))
            self.sync()

    def channels(self):
        return [self.prefix + n for n in ("one", "two", "")] + [self.prefix + "\r\n"]

    def subscription(self):
        c = self.channels()
        return self.pick(
            ("SUBSCRIBE", self.pick(*c)), ("SUBSCRIBE", *c), ("PSUBSCRIBE", self.prefix + "*"),
            ("PSUBSCRIBE", self.prefix + "t?o", self.prefix + "[ot]*"), ("SSUBSCRIBE", c[0]),
            ("UNSUBSCRIBE", self.pick(*c)), ("PUNSUBSCRIBE", self.prefix + "*"),
            ("UNSUBSCRIBE",), ("PUNSUBSCRIBE",), ("SUNSUBSCRIBE",), ("SUNSUBSCRIBE", c[0]),
            ("PING",), ("PING", "x"), ("GET", "s0"), ("SUBSCRIBE",), ("RESET",), ("MULTI",),
            ("EXEC",), ("PUBLISH", c[0], "self"), ("SPUBLISH", c[0], "self"), ("HELLO", 3),
            ("PUBSUB", "NUMSUB", c[0]), ("CLIENT", "GETNAME"), ("NOSUCH",), ("SELECT", 1),
            ("PSUBSCRIBE", "__keyspace@0__:s*"))

    def pubsub(self):
        self.hello(often=0.5)
        c = self.channels()

        for _ in range(self.rng.randint(1, 5)):
            self.send("a", *self.some(self.subscription, 1, 5))
            self.sync()
            if self.rng.random() < 0.7:
                self.send("b", *[self.pick(("PUBLISH", self.pick(*c), self.value()),
                                           ("PUBLISH", self.pick(*c), "m"), ("SET", "s0", "v"),
                                           ("SPUBLISH", c[0], self.value()))
                                 for _ in range(self.rng.randint(1, 20))])
                self.sync()
        if self.rng.random() < 0.2:
            self.send("a", ("QUIT",), ("PING",))

    def blocking(self):
        self.hello()
        wait = self.pick("0.01", "0.02", "0.03")
        ms = int(float(wait) * 1000)
        block = self.pick(
            ("BLPOP", "l0", wait), ("BRPOP", "l0", "l1", wait), ("BRPOPLPUSH", "l0", "l1", wait),
            ("BLMOVE", "l0", "l1", "LEFT", "LEFT", wait), ("BZPOPMIN", "z0", wait),
            ("BLMPOP", wait, 1, "l0", "LEFT"), ("XREAD", "BLOCK", ms, "STREAMS", "x0", "$"),
            ("WAIT", 1, ms), ("BZMPOP", wait, 1, "z0", "MIN"), ("BLPOP", "l0", "bad"),
            ("BLPOP", "l0", -1))
        before = self.some(self.command, 0, 3)
        if self.rng.random() < 0.5:
            self.send("a", *before, block, *self.some(self.command, 0, 4), block)
            return
        block = self.pick(("BLPOP", "l0", "l1", 0), ("BRPOPLPUSH", "l0", "l1", 0),
                          ("BZPOPMAX", "z0", 0), ("XREAD", "BLOCK", 0, "STREAMS", "x0", "$"),
                          ("BLMOVE", "l0", "l0", "LEFT", "RIGHT", 5))
        self.send("a", ("DEL", "l0", "l1", "z0", "x0"), block, *self.some(self.command, 0, 3))
        self.sync()
        end = self.rng.random()
        if end < 0.1:
            self.steps.append(Step("halfclose", "a"))
        elif end < 0.2:
            self.steps.append(Step("close", "a"))
        self.sync()
        self.send("b", ("DEL", "l0", "z0", "x0"), ("RPUSH", "l0", self.value(), "2"),
                  ("ZADD", "z0", 1, "m"), ("XADD", "x0", "5-5", "f", "v"), mode="whole")

    def reply_modes(self):
        self.hello()

        def atom():
            return self.pick(("CLIENT", "REPLY", self.pick("ON", "OFF", "SKIP", "off", "x")),
                             self.command(), self.command(), ("SET", "s0", self.value()), ("PING",))

        for _ in range(self.rng.randint(1, 4)):
            self.send("a", *self.some(atom, 1, 8))
            self.sync()
        self.send("a", ("CLIENT", "REPLY", "ON"), ("PING",),
                  self.pick(("PING",), ("RESET",), ("QUIT",)), ("PING", "on"))

    def tracking(self):
        self.hello(often=0.7)
        self.send("a", ("CLIENT", "TRACKING", self.pick("ON", "ON", "OFF", "x"),
                        *self.pick((), (), ("NOLOOP",), ("OPTIN",), ("OPTOUT",), ("BCAST",),
                                   ("BCAST", "PREFIX", "s"), ("REDIRECT", 0), ("OPTIN", "OPTOUT"))))
        self.sync()
        for _ in range(self.rng.randint(1, 4)):
            # Read by a, written by b: BCAST sends once per turn of Redis' loop, so that
            # writes of a's own would answer in another order each time.
            self.send("a", *self.some(lambda: self.pick(
                ("GET", "s0"), ("GET", "s1"), ("MGET", "s0", "s1"), ("CLIENT", "CACHING", "yes"),
                ("CLIENT", "CACHING", "no"), ("HGETALL", "h0"), ("CLIENT", "GETREDIR"),
                ("CLIENT", "TRACKINGINFO"), ("PING",)), 1, 6))
            self.sync()
            self.send("b", self.pick(("SET", "s0", "v"), ("SET", "s1", self.value()), ("DEL", "s0"),
                                     ("MSET", "s0", 1, "s1", 2), ("HSET", "h0", "f", "v"),
                                     ("FLUSHALL",)))
            self.sync()
        if self.rng.random() < 0.4:
            self.send("a", self.pick(("CLIENT", "TRACKING", "OFF"), ("RESET",), ("HELLO", 2)))

    def jumble(self):
        """Commands that change how later replies come, in one pipeline."""
        self.hello()

        def transaction():
            return self.pick(("MULTI",), ("EXEC",), ("DISCARD",), ("WATCH", "s0"), ("UNWATCH",))

        def mode():
            return self.pick(
                ("CLIENT", "REPLY", self.pick("ON", "OFF", "SKIP")), ("CLIENT", "TRACKING", self.pick("ON", "OFF")),
                ("CLIENT", "NO-EVICT", "OFF"), ("WAIT", 0, 0), ("BLPOP", "nosuch", "0.01"), ("SCRIPT", "EXISTS", "x"))

        kinds = (self.subscription, self.session_command, transaction, transaction, mode, self.command)
        for _ in range(self.rng.randint(1, 4)):
            self.send("a", *self.some(lambda: self.pick(*kinds)(), 1, 12))
            self.sync(unblock=True)
            if self.rng.random() < 0.4:
                self.send("b", ("PUBLISH", self.pick(*self.channels()), "m"), ("SET", "s0", self.value()), ("PING",))
                self.sync()

    SOURCES = (
        "return 1", "return {1,2,{3,'x',{}}}", "return redis.error_reply('OOPS not now')",
        "return redis.status_reply('FINE')", "return nil", "return {1,nil,3}", "return 3.99",
        "return {double=3.5}", "redis.setresp(3); return redis.call('HGETALL',KEYS[1])",
        "redis.setresp(3); return {map={a=1}}", "redis.setresp(3); return {set={a=true}}",
        "return true", "return false", "redis.setresp(3); return true",
        "redis.setresp(3); return {big_number='1234567890123456789012'}",
        "redis.setresp(3); return {verbatim_string={format='txt',string='hi'}}",
        "return redis.call('SET',KEYS[1],ARGV[1])", "return redis.call('GET',KEYS[1])",
        "return redis.pcall('NOSUCH')", "return redis.call('NOSUCH')", "return x", "syntax error",
        "return redis.call('INCR',KEYS[1])", "return string.rep('y',ARGV[1])", "return KEYS",
        "return ARGV", "return redis.sha1hex('')", "return {err='ERR mine'}", "return {ok='mine'}",
        "#!lua flags=no-writes\nreturn redis.call('SET',KEYS[1],'v')")
    LIBRARY = ("#!lua name=mylib\nredis.register_function('f1', function(k,a) return a end)\n"
               "redis.register_function{function_name='f2', callback=function(k,a) "
               "return redis.call('GET',k[1]) end, flags={'no-writes'}}")

    def scripts(self):
        import hashlib
        self.hello()

        def atom():
            src = self.rng.choice(self.SOURCES)
            sha = hashlib.sha1(src.encode()).hexdigest()
            tail = (1, self.key("s"), self.pick("5", "abc", self.value()))
            return self.pick(
                ("EVAL", src, *tail), ("EVAL", src, *tail), ("EVAL", src, 0), ("EVALSHA", sha, *tail),
                ("SCRIPT", "LOAD", src), ("EVALSHA", sha.upper(), *tail), ("EVALSHA", "x", 0),
                ("SCRIPT", "EXISTS", sha, "0" * 40), ("EVAL_RO", src, *tail), ("EVALSHA_RO", sha, 0),
                ("EVAL", src, 2, "s0"), ("EVAL", src, -1), ("EVAL", src, "x"), ("SCRIPT", "FLUSH"),
                ("SCRIPT", "KILL"), ("FUNCTION", "LOAD", self.LIBRARY), ("FCALL", "f1", 0, "x"),
                ("FUNCTION", "LOAD", "REPLACE", self.LIBRARY), ("FCALL", "f2", 1, "s0"),
                ("FCALL_RO", "f2", 1, "h0"), ("FCALL_RO", "f1", 0), ("FCALL", "nosuch", 0),
                ("FUNCTION", "DELETE", "mylib"), ("FUNCTION", "FLUSH"), ("FUNCTION", "LOAD", "bad"),
                ("SCRIPT", "NOSUCH"), self.command())

        for _ in range(self.rng.randint(1, 4)):
            self.send("a", *self.some(atom, 1, 8))
            self.sync()

    def types(self):
        self.hello(often=0.8)

        def atom():
            return self.pick(
                ("DEBUG", "PROTOCOL", self.pick("string", "integer", "double", "null", "array", "set",
                                                "map", "attrib", "push", "verbatim", "true", "false",
                                                "bignum", "nosuch")),
                ("HGETALL", "h0"), ("SMEMBERS", "e0"), ("ZSCORE", "z0", "1"), self.hashes(),
                self.zsets(), self.sets(), ("CONFIG", "GET", "maxmemory*"), self.command())

        for _ in range(self.rng.randint(1, 3)):
            self.send("a", *self.some(atom, 1, 12))

    def big(self):
        self.hello()
        size = self.pick(16383, 16384, 32768, 65535, 65536, 65537, 200000, 1 << 20, 3 << 20)
        value = self.rng.randbytes(4096) * (size // 4096) + b"\r" * (size % 4096)
        self.send("a", *self.some(self.command, 0, 3), ("SET", "s0", value),
                  ("GET", "s0"), ("STRLEN", "s0"), *self.some(self.command, 0, 3))
        self.send("a", self.pick(("ECHO", value), ("APPEND", "s0", value), ("RPUSH", "l0", value, value),
                                 ("SETRANGE", "s1", 10, value), ("GETRANGE", "s0", 1, -2)),
                  ("GET", "s0"), ("GET", "s0"), ("LRANGE", "l0", 0, -1), ("PING",))
        if self.rng.random() < 0.3:
            self.send("b", ("GET", "s0"), ("QUIT",))

    def wide(self):
        n = self.pick(100, 1000, 1025, 5000, 30000)
        pairs = [x for i in range(n) for x in (f"f{i}", i)]
        self.send("a", ("RPUSH", "l0", *range(n)), ("LRANGE", "l0", 0, -1), ("MSET", *pairs),
                  ("MGET", *pairs[::2]), ("DEL", *pairs[::2]), ("MSET", *pairs[:-1]), ("PING",))
        self.hello()
        self.send("a", ("NOSUCH", *range(n)), ("EXISTS", *range(n)), ("PING",))

    def inline(self):
        def atom():
            return self.pick(
                b"PING\r\n", b"PING\n", b"  PING  \r\n", b"\r\n", b"\n", b"\r", b"   \r\n", b"\t\n",
                b"set s0 v\r\n", b"get s0\r\n", b'SET s0 "a b\\x00\\r\\n\\"c"\r\n', b"GET 's0'\r\n",
                b"SET s0 'it\\'s'\r\n", b"PING\r\r\n", b"echo \xff\xfe\r\n", b"NOSUCH a b\r\n",
                b'SET s0 ""\r\nGET s0\r\n', b"INCR s1\n" * 5, b"PING\tx\r\n", b"mset a 1 b 2\r\n",
                b'PING "\\x4"\r\n', b"PING a\x0bb\r\n", encode([b"PING"]), encode([b"GET", b"s0"]),
                b"echo " + b"x" * self.rng.randint(1, 5000) + b"\r\n")

        for _ in range(self.rng.randint(1, 4)):
            self.send("a", *self.some(atom, 1, 8))
            self.sync()
        if self.rng.random() < 0.4:
            self.send("a", self.inline_fault(), ("PING",))

    def inline_fault(self):
        return self.pick(
            b'PING "a\r\n', b"PING 'a\r\n", b'PING "a"b\r\n', b"PING 'a'b\r\n", b'"\r\n',
            b"\x00\r\n", b"PI\x00NG\r\nPING\r\n", b"GET a\x00b\r\n", b"x" * TOO_BIG,
            b"PING " + b"y" * TOO_BIG, b'SET s0 "\r\n"\r\n', b"-ERR\r\n", b"+OK\r\n", b":1\r\n",
            b"$4\r\nPING\r\n", b"HTTP/1.1 200\r\n", b"GET / HTTP/1.1\r\n")

    def fault(self):
        get = encode([b"GET", b"s0"])
        return self.pick(
            b"*0\r\n", b"*-1\r\n", b"*-2\r\n", b"*-9999999999\r\n", b"*x\r\n", b"*\r\n", b"* 1\r\n",
            b"*1x\r\n", b"*+1\r\n", b"*01\r\n", b"*2147483648\r\n", b"*9999999999999999999999\r\n",
            b"*1\r\n$-1\r\n", b"*1\r\n$x\r\n", b"*1\r\n$\r\n", b"*1\r\n$536870913\r\n", b"*1\r\n$+4\r\nPING\r\n",
            b"*1\r\n$99999999999999999999\r\n", b"*1\r\n:4\r\nPING\r\n", b"*1\r\nPING\r\n", b"*1\r\n\r\n",
            b"*1\r\n*1\r\n$4\r\nPING\r\n", b"*2\r\n$3\r\nGET\r\nx", b"*2\r\n$3\r\nGET\r\n$a\r\n",
            b"*1\r\n$4\r\nPINGxx", b"*2\r\n$3\r\nGETxy$2\r\ns0zz", b"*1\rX$4\rYPING\r\n", b"*1\r\n$04\r\nPING\r\n",
            b"*1\n$4\nPING\n" + b"\r\n", b"*1\r\n$4\r\nPING", b"*3\r\n$3\r\nSET\r\n$2\r\ns0\r\n$10\r\nabc",
            b"*" + b"1" * TOO_BIG, b"*1\r\n$" + b"1" * TOO_BIG, b"*\x00\r\n", b"*1\r\n$4\x00\r\n", b"*1\r\n\x00\r\n",
            b"*1000000\r\n$4\r\nPING\r\n", b"*2147483647\r\n$1\r\na\r\n", b"*1\r\n$0\r\n\r\n", b"*1\r\n$000\r\n\r\n",
            get[:self.rng.randint(1, len(get) - 1)], self.binary(self.rng.randint(1, 60)),
            self.binary(self.rng.randint(1, 60)) + b"\r\n", self.inline_fault(), b"*3\r\n" + get, get + b"\r\n" + get)

    def behind_fault(self):
        """A command without the word INFO. If the fault swallows the words before it, Redis runs INFO,
        whose answer differs each time."""
        args = self.command()
        while b"INFO" in map(to_bytes, args):
            args = self.command()
        return args

    def broken(self):
        self.hello()
        if self.rng.random() < 0.05:
            # Redis closes a connection with HTTP at once, and drops replies that it has not sent.
            self.send("a", *self.some(self.command, 1, 3))
            self.sync()
            self.send("a", self.pick(b"POST / HTTP/1.1\r\n", b"Host: x\r\n"), mode="whole")
            return
        self.send("a", *self.some(self.command, 0, 8), self.fault(), *self.some(self.behind_fault, 0, 3))
        if self.rng.random() < 0.5:
            self.sync()
            self.send("a", *self.some(self.behind_fault, 1, 3))
        if self.rng.random() < 0.2:
            self.send("b", ("MULTI",), ("SET", "s0", "v"), self.fault())

    def half_close(self):
        """Sends and shuts down: what Redis has read it answers, if that is not much."""
        self.hello()
        small = [b"PING\r\n", encode([b"SET", b"s0", b"v"]), encode([b"GET", b"s0"]), encode([b"NOSUCH"]),
                 encode([b"MULTI"]), encode([b"EXEC"]), encode([b"CLIENT", b"REPLY", b"SKIP"]),
                 encode([b"LPUSH", b"l0", b"x"]), encode([b"SUBSCRIBE", self.prefix.encode()])]
        tail = self.pick([], [], [b"*1\r\n$4\r\nPI"], [b"PIN"], [self.fault()], [encode([b"QUIT"])])
        if tail:
            # With replies off, Redis closes at once or at the next event, as it happens.
            tail = [encode([b"CLIENT", b"REPLY", b"ON"]), b"PING\r\n", *tail]
        self.send("a", *self.some(lambda: self.pick(*small), 0, 20), *tail)
        if self.rng.random() < 0.3:
            self.sync()
        self.steps.append(Step("halfclose", "a"))

    def monitor(self):
        self.hello()
        self.send("a", *self.some(self.command, 0, 3), ("MONITOR",))
        self.sync()
        self.send("a", *self.some(lambda: self.pick(("PING",), ("GET", "s0"), ("SET", "s0", self.value()),
                                                    ("MONITOR",), ("NOSUCH",)), 1, 6))
        self.sync()
        if self.rng.random() < 0.5:
            self.send("a", self.pick(("RESET",), ("QUIT",)), ("PING",))

    def login(self):
        """Against a server with a password: little is allowed before AUTH."""
        def atom():
            return self.pick(
                ("AUTH", "wrong"), ("AUTH", USER, "wrong"), ("PING",), ("GET", "s0"), ("NOSUCH",),
                ("HELLO", 3), ("HELLO", 3, "AUTH", "default", "wrong"), ("MULTI",), ("SUBSCRIBE", "x"),
                ("RESET",), ("CLIENT", "SETNAME", "n"), ("COMMAND", "COUNT"), ("SELECT", 1), b"PING\r\n",
                ("EXEC",), ("CLIENT", "REPLY", self.pick("SKIP", "OFF", "ON")), ("GET",))

        self.send("a", *self.some(atom, 0, 5))
        self.send("a", self.pick(
            ("AUTH", PASSWORD), ("AUTH", "default", PASSWORD), ("AUTH", USER, USER_PASSWORD),
            ("HELLO", 3, "AUTH", "default", PASSWORD), ("HELLO", 2, "AUTH", USER, USER_PASSWORD, "SETNAME", "n"),
            ("HELLO", 3, "AUTH", USER, USER_PASSWORD), ("AUTH", "x"),
            ("PING", *"abcdefghijklmn"), ("SET", "s0", "x" * 20000), b"*11\r\n", b"*1\r\n$16385\r\n"))
        if self.rng.random() < 0.5:
            self.sync()
        self.send("a", *self.some(self.command, 1, 8), ("ACL", "WHOAMI"), *self.some(self.command, 0, 3))
        if self.rng.random() < 0.3:
            self.sync()  # replies that wait would count for a client that RESET logs out, which may have 1 kB
            self.send("a", self.pick(("RESET",), ("AUTH", USER, USER_PASSWORD), ("AUTH", PASSWORD), ("AUTH", "x")),
                      *self.some(self.command, 1, 4), ("ACL", "WHOAMI"))
