# SPDX-License-Identifier: BSD-3-Clause
"""Random streams of commands on keys with rules and guards, sent through hasp and to the model (see
rules_model.py), one command at a time. hasp's replies must be the model's. So must be, in Redis,

    keys       their values, expiry dates, and owners (by hasp's sidecars)
    guards     which exist, and their owners

A stream is a list of steps: (number of the client, command). The step `!reconnect` reconnects the
client; `!lose KEY` ends the lease of the key's guard.
"""

import json
import random
import time

from breaking_proxy import BreakingProxy
import compare  # noqa: F401 it knows where the harness is
from harness import Connection, Hasp, RedisServer, until
from rules_model import GUARDED, RULES, SECTIONS, Model, show

NAMES = ("a", "b", "a", None)
RELEASED = 10      # seconds until a guard that no client waits for is released, on a busy machine
SLACK_MS = 20_000  # ms that may pass between the two executions of a command; leases differ by more
VALUES = ("one", "two", "three", "7")
TIMES = (50, 120, 300, 1000)  # in seconds

# name -> what is broken in the scripts' sources; see lua_scripts.py
BREAKS = {
    "none": (),
    "owner": ("release_by_anybody",),    # DEL does not ask who has the lock
    "set": ("set_by_anybody",),          # SET does not ask
    "write": ("write_by_anybody",),      # other writes do not ask
    "expire": ("expire_by_anybody",),    # EXPIRE does not ask
    "persist": ("persist_locks",),       # a lock may lose its expiry
    "lease": ("forget_lease",),          # a lock that another write makes may have no expiry
    "note": ("forget_owner",),           # a write of the owner leaves the lock without an owner
    "count": ("forget_count",),          # INCR leaves the lock without an owner
    "counts": ("count_for_owner",),      # the count of other clients becomes the owner's
    "less": ("take_back_all",),          # other clients can take back what the owner has counted
    "foreign": ("foreign_as_nobody",),   # owner = value: DEL needs no knowledge
    "guard": ("write_unchecked", "finish_unchecked"),  # a write does not ask for the guard
}


class Generator:
    """Makes the stream `index` of a seed, which is always the same."""

    def __init__(self, seed, index):
        self.rng = random.Random(f"{seed}:{index}:rules")
        self.families = self.rng.sample([*RULES, GUARDED, GUARDED], 2)
        self.in_multi = set()

    def stream(self):
        return [self.step() for _ in range(self.rng.randrange(8, 45))]

    def step(self):
        rng = self.rng
        number = rng.randrange(len(NAMES))
        roll = rng.random()
        if roll < 0.03:
            self.in_multi.discard(number)
            return [number, ["!reconnect"]]
        if roll < 0.06 and GUARDED in self.families:
            return [number, ["!lose", f"{GUARDED}:{rng.randrange(2)}"]]
        if number in self.in_multi and roll < 0.4:
            self.in_multi.discard(number)
            return [number, [rng.choice(("EXEC", "EXEC", "EXEC", "DISCARD"))]]
        if number not in self.in_multi and roll < 0.12:
            self.in_multi.add(number)
            return [number, ["MULTI"]]
        family = rng.choice(self.families)
        if number in self.in_multi and family == GUARDED:
            family = next(f for f in (*self.families, "c") if f != GUARDED)
        if number not in self.in_multi and roll < 0.15 and family != GUARDED:
            return [number, ["WATCH", self.key(family)] if roll < 0.14 else ["UNWATCH"]]
        return [number, self.command(family)]

    def key(self, family):
        """Returns a key, seldom one without a rule."""
        rng = self.rng
        return f"x:{rng.randrange(2)}" if rng.random() < 0.08 else f"{family}:{rng.randrange(2)}"

    def command(self, family):
        rng = self.rng
        key, other, value, seconds = self.key(family), self.key(family), rng.choice(VALUES), rng.choice(TIMES)
        make = rng.choice((
            self.set, self.set, self.set, self.string, self.string, self.lock, self.lock, self.others,
            self.read, self.read, self.keys))
        return make(key, other, value, seconds)

    def set(self, key, _other, value, seconds):
        options = [[], ["NX"], ["XX"]][self.rng.randrange(3)][:]
        if self.rng.random() < 0.3:
            options.append("GET")
        options += self.rng.choice(([], [], ["EX", seconds], ["PX", 1000 * seconds], ["KEEPTTL"]))
        return ["SET", key, value, *options]

    def lock(self, key, other, value, seconds):
        return self.rng.choice((
            ["SETNX", key, value], ["SETNX", key, value], ["DEL", key], ["DEL", key], ["DEL", key, other],
            ["UNLINK", key, "x:0"], ["EXPIRE", key, seconds], ["EXPIRE", key, seconds], ["PEXPIRE", key, 1000 * seconds],
            ["EXPIRE", key, self.rng.choice((0, -1))], ["PERSIST", key], ["INCR", key], ["INCR", key],
            ["GETSET", key, value], ["SETEX", key, seconds, value], ["PSETEX", key, 1000 * seconds, value]))

    def string(self, key, _other, value, seconds):
        return self.rng.choice((
            ["APPEND", key, "x"], ["INCRBY", key, 5], ["DECR", key], ["DECRBY", key, 2], ["SETRANGE", key, 1, "y"], ["GETDEL", key],
            ["GETEX", key], ["GETEX", key, "PERSIST"], ["GETEX", key, "EX", seconds], ["SETBIT", key, 7, 1],
            ["INCRBYFLOAT", key, "0.5"]))

    def keys(self, key, other, value, _seconds):
        return self.rng.choice((
            ["RENAME", key, other], ["RENAME", "x:0", key], ["RENAMENX", key, other], ["COPY", key, other],
            ["COPY", key, other, "REPLACE"], ["COPY", "x:0", key, "REPLACE"], ["MSET", key, value, other, "two"],
            ["MSETNX", key, value, "x:1", "two"], ["SUNIONSTORE", key, other], ["BITOP", "NOT", key, other]))

    def others(self, key, other, value, _seconds):
        """Of other types, and scripts."""
        return self.rng.choice((
            ["LPUSH", key, value], ["LPOP", key], ["SADD", key, value], ["SREM", key, value], ["HSET", key, "f", value],
            ["HINCRBY", key, "n", 1],
            ["EVAL", "if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[1]"
             " then return redis.call('DEL', KEYS[1]) end return 0", 1, key, value]))

    def read(self, key, other, _value, _seconds):
        return self.rng.choice((["GET", key], ["GET", key], ["MGET", key, other], ["EXISTS", key, other],
                                ["STRLEN", key], ["TYPE", key], ["HGETALL", key]))


class Subject:
    """A hasp before a Redis, and the Redis of the model."""

    def __init__(self, pooling, breaks=None):
        self.name = pooling
        self.redis, self.reference = RedisServer(), RedisServer()
        self.plain = Connection(self.redis.unix)
        upstream, self.proxy = f"unix:{self.redis.unix}", None
        if breaks is not None:
            self.proxy = BreakingProxy(self.redis.unix, BREAKS[breaks])
            upstream = "{}:{}".format(*self.proxy.address)
        self.hasp = Hasp(f"[hasp]\nlisten = 127.0.0.1:0\n[upstream]\naddress = {upstream}\npooling = {pooling}\n"
                         + SECTIONS)
        self.hasp.is_up()

    def difference(self, stream):
        """Returns how hasp differs from the model, or None."""
        self.plain.call("FLUSHALL")
        run = Run(self, Model(lambda: Connection(self.reference.unix), NAMES))
        try:
            for at, (number, argv) in enumerate(stream):
                wrong = run.step(number, argv)
                if wrong:
                    return f"step {at}, client {number}: {show(list(map(str, argv)))}\n{wrong}"
            return None
        except EOFError as e:
            return f"hasp closed a connection: {e}"
        finally:
            run.close()

    def stop(self):
        fault = self.hasp.stop()
        log = self.hasp.log[-3000:]
        self.hasp.remove()
        for server in (self.redis, self.reference):
            server.stop()
            server.remove()
        return [f"{self.name}: {fault}; its log ends\n{log}"] if fault else []


class Run:
    """Runs one stream."""

    def __init__(self, subject, model):
        self.subject, self.model, self.plain = subject, model, subject.plain
        self.wires = [self.connect(name) for name in NAMES]
        self.tokens = {}  # owner's token in Redis -> the model's name of it

    def connect(self, name):
        wire = self.subject.hasp.connect()
        if name:
            wire.call("CLIENT", "SETNAME", name)
        return wire

    def close(self):
        for wire in self.wires:
            wire.close()
        self.model.close()

    def step(self, number, argv):
        """Returns the fault of a step, or None."""
        if argv[0] == "!reconnect":
            self.reconnect(number)
        elif argv[0] == "!lose":
            self.model.lose(argv[1])
            self.plain.call("DEL", guard_of(argv[1]))
        else:
            expected, reply = self.model.run(number, argv), self.wires[number].call(*argv)
            if reply != expected:
                return f"hasp   {reply}\nmodel  {expected}"
        return self.wrong_keys() or self.wrong_guards_still()

    def reconnect(self, number):
        self.wires[number].close()
        for key in self.model.reconnect(number):
            until(lambda k=key: self.plain.call("EXISTS", guard_of(k)) == b":0\r\n", "the guard's release")
        self.wires[number] = self.connect(NAMES[number])

    def names(self, connection):
        # (Keys have no blanks.)
        frame = connection.call("KEYS", "*").split(b"\r\n")[2::2]
        return sorted(key for key in frame if key)

    def wrong_keys(self):
        here = [key for key in self.names(self.plain) if not key.startswith(b"hasp:")]
        there = self.names(self.model.plain)
        if here != there:
            return f"keys   {here}\nmodel  {there}"
        for key in here:
            a, b = content(self.plain, key), content(self.model.plain, key)
            if a != b:
                return f"{key}: its value is {a}, the model's {b}"
            a, b = (int(c.call("PEXPIRETIME", key)[1:]) for c in (self.plain, self.model.plain))
            if (a < 0) != (b < 0) or abs(a - b) > SLACK_MS:
                return f"{key}: it expires at {a}, the model's at {b}"
            wrong = self.wrong_owner(key.decode())
            if wrong:
                return wrong
        return None

    def wrong_owner(self, key):
        rule, value = self.model.rule(key), self.model.string(key)
        if not rule or rule.owner == "value" or value is None:
            return None
        note = self.plain.call("GET", f"hasp:owner:{{{key}}}")
        token, _, noted = note.split(b"\r\n")[1].partition(b" ") if note != b"$-1\r\n" else (None, "", None)
        owner = self.model.owners.get(key, (None, None))
        owner = owner[0] if owner[1] == value else None
        if owner and key in self.model.own:
            value = b"~%d %s" % (self.model.own[key], value)
        if (noted == value) != (owner is not None) or owner and self.tokens.setdefault(token, owner) != owner:
            return f"{key}: its owner is {note}, the model's {owner}; tokens: {self.tokens}"
        return None

    def wrong_guards_still(self):
        """The guard of a read that failed is released when its client has been told."""
        deadline = time.monotonic() + RELEASED
        while (wrong := self.wrong_guards()) and time.monotonic() < deadline:
            time.sleep(0.001)
        return wrong

    def wrong_guards(self):
        for n in range(2):
            key = f"{GUARDED}:{n}"
            reply = self.plain.call("GET", guard_of(key))
            holder = self.model.holders.get(key)
            token = reply.split(b"\r\n")[1] if reply != b"$-1\r\n" else None
            if (token is None) != (holder is None) or holder and self.tokens.setdefault(token, holder) != holder:
                return f"{key}: its guard is {reply}, the model's {holder}; tokens: {self.tokens}"
        return None


def content(connection, key):
    """A set's members have no order of their own."""
    members = connection.call("SMEMBERS", key)
    return connection.call("DUMP", key) if members.startswith(b"-") else sorted(members.split(b"\r\n"))


def guard_of(key):
    return f"hasp:guard:{{{key}}}"


def shorten(stream, differs):
    """Removes steps while hasp still differs."""
    size = max(len(stream) // 2, 1)
    while True:
        for start in range(0, len(stream), size):
            shorter = stream[:start] + stream[start + size:]
            if shorter and differs(shorter):
                stream = shorter
                break
        else:
            if size == 1:
                return stream
            size //= 2


def streams_of(args):
    if args.replay:
        with open(args.replay, encoding="utf-8") as file:
            yield "replayed", json.load(file)["steps"]
        return
    for index in [args.only] if args.only is not None else range(args.streams):
        yield index, Generator(args.seed, index).stream()


def report(subject, index, stream, difference, args):
    print(f"\nDIFFERENCE between hasp ({subject.name}) and the model, stream {index}\n{difference}", flush=True)
    if args.minimise:
        stream = shorten(stream, subject.difference)
        print(f"shortest form: {subject.difference(stream)}")
    for number, argv in stream:
        print(f"    {number}: {show(list(map(str, argv)))}")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"rules-{args.seed}-{index}-{subject.name}.json"
    path.write_text(json.dumps({"rules": True, "steps": stream}))
    print(f"again: tests/fuzz/differential --rules --replay {path}", flush=True)


def campaign(args):
    """Runs the campaign. Returns its exit status."""
    subjects = [Subject(pooling, args.breaks) for pooling in ("shared", "session")]
    done = found = 0
    start = time.monotonic()
    try:
        for index, stream in streams_of(args):
            if args.seconds and time.monotonic() - start > args.seconds:
                break
            done += 1
            for subject in subjects:
                difference = subject.difference(stream)
                if difference:
                    found += 1
                    report(subject, index, stream, difference, args)
                    break
            if found >= args.stop_after:
                break
            if done % 500 == 0:
                print(f"{done} streams", flush=True)
    finally:
        faults = [fault for subject in subjects for fault in subject.stop()]
    for fault in faults:
        print(f"\nFAULT {fault}")
    print(f"{done} streams with rules, {found} differences, {len(faults)} other faults")
    return 1 if found or faults else 0
