# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a hasp whose Redis fails over, or whose slots move. Each client knows its possible replies:

    own keys    SET, GET, INCR, MSET, MGET, DEL, MULTI, in pipelines, of keys that only this client
                writes: a reply must follow from the client's own commands
    locks       LOCK with and without WAIT, rules with `wait`, places of semaphores (LIMIT), both sides
                of read-write locks, several locks at once (MLOCK; a client that gets nil must have
                none of them): lockchecker.py judges them
    guards      GET, then SET of the value plus a name: each value is its own history
    pub/sub     each message comes once, those of one publisher's connection in their order

The clients report faults to a World, see topology_world.py.
"""

import asyncio
import collections
import random
import re

from campaign import NIL, Error, Wire, now, parse
from lockchecker import LOST, REFUSED, Try
from topology_world import LEASE, REFUSALS

HANG = 20.0            # seconds, beyond the time that hasp may hold a command back, until a client gives up
LOOKS = 0.05
RULE_WAIT = 1.5
GUARD_LENGTH = 150     # updates after which clients change to another key
PLACES = {"places:2": 2, "places:3": 3}  # semaphores
SIDES = [f"sides:{n}" for n in range(3)]  # read-write locks
SEVERAL = [[f"{{several:{group}}}:{n}" for n in range(4)] for group in range(3)]  # keys of one slot in each group

RULES = """
[lock waited]
pattern = lock:*
lease = 4s
wait = 1500ms
{own}
[guard kept]
pattern = guarded:*
acquire_on = GET
lease = 1s
wait = 1s
[verbs]
lease = 4s
{own}
"""


def waiter_of(entry):
    """Who stands there, of an entry in a queue: the value of a rule's lock, a verb's owner."""
    _, _, _, _, kind, _, _, token, value = entry.split(" ", 8)
    return value if kind in "rv" else token.partition("/")[0]


class Value:
    """A key that only one client writes: its possible values."""

    def __init__(self):
        self.may_be = {NIL}
        self.was = {NIL}
        self.confirmed = now()

    def written(self, value, failed):
        self.was.add(value)
        self.may_be = self.may_be | {value} if failed else {value}
        if not failed:
            self.confirmed = now()

    def read(self, world, key, reply):
        if reply not in self.may_be:
            if reply not in self.was:
                world.fault("wrong reply", f"{key} is {reply}, which it never was")
            else:
                world.lost(key, self.confirmed, f"is {reply}, not {self.may_be}", "values")
        self.may_be, self.confirmed = {reply}, now()


class Count:
    """A key that only one client counts: its possible counts."""

    def __init__(self):
        self.low = self.high = 0
        self.confirmed = now()

    def unknown(self, n=1):
        self.high += n

    def counted(self, world, key, reply):
        if reply > self.high + 1:
            world.fault("doubled", f"{key} is {reply}, at most {self.high + 1} were asked for")
        elif reply < self.low + 1:
            world.lost(key, self.confirmed, f"is {reply}, not {self.low + 1}", "increments", self.low + 1 - reply)
        self.low = self.high = reply
        self.confirmed = now()
        world.counts["increments"] += 1


class Client:
    """Does one thing after the other, over one connection as long as that lives. `turns`: names of
    the methods below, drawn by chance."""

    def __init__(self, world, number, turns):
        self.world, self.number, self.turns = world, number, turns
        self.rng = random.Random(f"{world.args.seed}:{number}")
        self.serial = self.sent_messages = self.connected = 0
        self.wire = None
        self.kept = {}  # lock that this connection may have, as its release has failed -> until when at most
        self.values = {f"own:{number}:{n}": Value() for n in range(4)}
        self.values.update({f"own:{{{number}}}:{n}": Value() for n in range(2)})
        self.counts = {f"count:{number}:{n}": Count() for n in range(2)}
        self.counts.update({f"count:{{{number}}}:{n}": Count() for n in range(2)})

    @property
    def id(self):
        return f"c{self.number}"

    async def run(self):
        while not self.world.stopping:
            try:
                self.wire = await Wire.to(self.world.subject.address, self.number % 8)
            except OSError as error:
                self.world.fault("refused a connection", str(error))
                await asyncio.sleep(0.2)
                continue
            self.world.counts["sessions"] += 1
            self.connected += 1
            self.kept = {}
            for _ in range(self.rng.choice((10, 100, 1000))):
                if self.world.stopping or self.wire.closed:
                    break
                await getattr(self, self.rng.choice(self.turns))()
                await asyncio.sleep(self.rng.choice((0, 0.01, 0.05)))
            self.wire.close()

    async def ask(self, *command, patience=0.0):
        """Returns (sent, answered, reply); a reply that is None, or an Error, has been judged."""
        sent = now()
        done, _ = await asyncio.wait((self.wire.ask(*command),), timeout=patience + self.world.args.patience + HANG)
        what = f"{self.id} {' '.join(map(str, command))[:80]}"
        if not done:
            self.world.fault("hung", f"{what}, sent {sent:.3f}")
            self.wire.close()
            return sent, now(), None
        (future,) = done
        answered, reply = future.result()
        if not (isinstance(reply, Error) and reply.startswith(REFUSALS)):
            self.world.told(sent, answered, reply, what)
        return sent, answered, reply

    # --- its own keys

    async def plain(self):
        """Some commands at once, one by one, or several keys in one."""
        asked = [self.command() for _ in range(self.rng.choice((1, 1, 4, 16)))]
        answers = await asyncio.gather(*(self.ask(*command) for command, _ in asked))
        self.world.counts["plain commands"] += len(asked)
        for (_, take), (_, _, reply) in zip(asked, answers):
            take(None if isinstance(reply, Error) else reply)

    def command(self):
        """Returns (command, function for its reply, which is None if the command failed)."""
        return getattr(self, self.rng.choice(("set", "get", "incr", "set", "get", "incr", *self.world.args.wide)))()

    def tag(self):
        self.serial += 1
        return b"%s %d %.4f" % (self.id.encode(), self.serial, now())

    def set(self):
        key, value = self.rng.choice(list(self.values)), self.tag()
        return ("SET", key, value), lambda reply: self.values[key].written(value, reply is None)

    def get(self):
        key = self.rng.choice(list(self.values))
        return ("GET", key), lambda reply: reply is None or self.values[key].read(self.world, key, reply)

    def incr(self):
        key = self.rng.choice(list(self.counts))

        def take(reply):
            if reply is None:
                self.counts[key].unknown()
            else:
                self.counts[key].counted(self.world, key, reply)

        return ("INCR", key), take

    def mset(self):
        keys, value = self.some(), self.tag()

        def take(reply):
            for key in keys:
                self.values[key].written(value, reply is None)

        return ("MSET", *(word for key in keys for word in (key, value))), take

    def mget(self):
        keys = self.some()

        def take(reply):
            if reply is not None:
                for key, value in zip(keys, reply, strict=True):
                    self.values[key].read(self.world, key, value)

        return ("MGET", *keys), take

    def delete(self):
        keys = self.some()

        def take(reply):
            known = [self.values[key].may_be for key in keys]
            least, most = sum(NIL not in may for may in known), sum(may != {NIL} for may in known)
            if reply is not None and not least <= reply <= most:
                self.world.miscounted(keys, min(self.values[key].confirmed for key in keys),
                                      f"DEL {keys} said {reply}, not {least} to {most}")
            for key in keys:
                self.values[key].written(NIL, reply is None)

        return ("DEL", *keys), take

    def some(self):
        return self.rng.sample(list(self.values), self.rng.choice((1, 2, 4)))

    async def transaction(self):
        one, other = (f"count:{{{self.number}}}:{n}" for n in range(2))
        commands = [("MULTI",), ("INCR", one), ("INCR", other), ("EXEC",)]
        answers = await asyncio.gather(*(self.ask(*command) for command in commands))
        replies = [reply for _, _, reply in answers]
        if any(reply is None or isinstance(reply, Error) for reply in replies):
            self.counts[one].unknown()
            self.counts[other].unknown()
            self.wire.close()  # it may still be open
            return
        if replies[:3] != [b"OK", b"QUEUED", b"QUEUED"] or not isinstance(replies[3], list):
            self.world.fault("wrong reply", f"MULTI ... EXEC: {replies}")
            return
        self.world.counts["transactions"] += 1
        for key, reply in zip((one, other), replies[3], strict=True):
            self.counts[key].counted(self.world, key, reply)

    # --- locks

    async def lock(self):
        rng = self.rng
        self.serial += 1
        key, wait = rng.choice(self.world.args.locks), rng.choice((0, 0.3, 1.5, 3.0))
        shared = key in SIDES and rng.random() < 0.7
        if key.startswith("lock:"):
            who, wait = f"{self.id}#{self.serial}", RULE_WAIT
            request, unlock = ("SET", key, who, "NX", "PX", int(LEASE * 1000)), ("DEL", key)
        else:
            who = f"{self.id}.{self.serial}"
            request = ["LOCK", key, "PX", int(LEASE * 1000), *(("WAIT", int(wait * 1000)) if wait else ()), "AS", who]
            if key in PLACES:
                request += ["LIMIT", PLACES[key] + (self.world.args.breaks == "more")]
            if key in SIDES:
                request.append("SHARED" if shared or self.world.args.breaks == "beside" else "EXCLUSIVE")
            unlock = ("UNLOCK", key, "AS", who)
        t = self.asks_for([key], who, wait)[0]
        t.shared = shared
        self.world.waiting[key, who] = t
        _, at, reply = await self.ask(*request, patience=wait)
        del self.world.waiting[key, who]
        if reply is None or isinstance(reply, Error):
            t.outcome, t.ended, t.why = LOST, at, str(reply)
        elif reply is NIL:
            t.outcome, t.ended = REFUSED, at
        else:
            t.grant(at, reply if isinstance(reply, int) else None)
            await self.hold(t, unlock)

    async def several(self):
        """Some locks of one slot at once; or one of them."""
        rng = self.rng
        self.serial += 1
        who, wait = f"{self.id}.{self.serial}", rng.choice((0, 0.3, 1.5, 3.0))
        keys = rng.sample(rng.choice(SEVERAL), rng.randint(1, 3))
        take, give = (("LOCK", *keys), ("UNLOCK", *keys)) if len(keys) == 1 else (
            ("MLOCK", len(keys), *keys), ("MUNLOCK", len(keys), *keys))
        if self.world.args.breaks == "part":
            await self.ask("LOCK", keys[-1], "PX", int(LEASE * 1000), "AS", who)
        tries = self.asks_for(keys, who, wait)
        _, at, reply = await self.ask(*take, "PX", int(LEASE * 1000), *(("WAIT", int(wait * 1000)) if wait else ()),
                                      "AS", who, patience=wait)
        self.world.counts["several locks at once"] += len(keys) > 1 and isinstance(reply, int)
        for t in tries:
            if reply is None or isinstance(reply, Error):
                t.outcome, t.ended, t.why = LOST, at, str(reply)
            elif reply is NIL:
                t.outcome, t.ended = REFUSED, at
                await self.has_none(t)
            else:
                t.grant(at, reply)
                t.sure.append((at, t.sent + LEASE))
        if isinstance(reply, int):
            await self.release(tries, (*give, "AS", who))

    def asks_for(self, keys, who, wait):
        """Returns a Try for each of the keys."""
        tries = [self.world.checker.note(Try(key, self.id, 0, who, now(), wait=wait, lease=LEASE)) for key in keys]
        own = max((self.kept[key] for key in keys if key in self.kept), default=None)
        for t in tries:
            t.own = own
        return tries

    async def has_none(self, t):
        """Checks that a client that got nil has nothing of the lock."""
        _, at, tokens = await self.ask("HKEYS", t.key)
        if isinstance(tokens, list) and t.owner.encode() in tokens:
            self.world.checker.has_part(t, at)

    async def hold(self, t, unlock):
        if t.key in PLACES or t.key in SIDES:
            # The lease began when Redis had the request, or later.
            t.sure.append((t.ended, t.sent + LEASE))
            await self.release([t], unlock)
            return
        asked, _, left = await self.ask("PTTL", t.key)
        if isinstance(left, int) and left > 0:
            t.sure.append((t.ended, asked + left / 1000))
        else:
            t.until(now())
        await self.release([t], unlock)

    async def release(self, tries, unlock):
        """Releases all of the locks by one command, after some work."""
        if self.rng.random() < 0.03:
            self.wire.reset()
            for t in tries:
                t.until(now())
            return
        await asyncio.sleep(self.rng.choice((0, 0.01, 0.05, 0.2)))
        released, at, reply = await self.ask(*unlock)
        is_answer = isinstance(reply, int) and not isinstance(reply, Error)
        if isinstance(reply, Error):
            self.kept.update({t.key: t.ended + LEASE for t in tries})
        for t in tries:
            t.released = released
            if is_answer and reply < len(tries):
                self.world.checker.refused(t, at)
            t.freed = at if is_answer else None
            t.until(released)

    # --- guards

    async def guarded(self):
        """Changes a key that all clients change, by reading it first."""
        slot = f"guarded:{self.rng.randrange(self.world.args.guarded)}"
        key = f"{slot}:{self.world.epochs[slot]}"
        _, _, before = await self.ask("GET", key)
        if before is None or isinstance(before, Error):
            self.world.counts["guarded reads refused"] += 1
            return
        before = b"" if before is NIL else before
        self.world.seen[key].add(before)
        if before.count(b" ") > GUARD_LENGTH:
            self.world.epochs[slot] = int(key.rpartition(":")[2]) + 1
        await asyncio.sleep(self.rng.choice((0, 0, 0.01)))
        self.serial += 1
        name = b"%s.%d" % (self.id.encode(), self.serial)
        self.world.updates[name] = (key, "unknown", now())
        _, _, reply = await self.ask("SET", key, before + b" " + name)
        if reply == b"OK":
            self.world.updates[name] = (key, "acknowledged", now())
            self.world.counts["guarded updates"] += 1
        elif isinstance(reply, Error) and reply.startswith(REFUSALS):
            self.world.updates[name] = (key, "refused", now())

    # --- messages

    async def publish(self):
        self.sent_messages += 1
        serial, sent, publisher = self.sent_messages, now(), b"%d.%d" % (self.number, self.connected)
        self.world.published[publisher][serial] = (sent, None, None)
        (_, at, reply), (*_, info) = await asyncio.gather(
            self.ask("PUBLISH", "news", b"%s %d" % (publisher, serial)), self.ask("INFO", "server"))
        if isinstance(reply, int):
            self.world.published[publisher][serial] = (sent, at, run_id(info))
            self.world.counts["messages"] += 1


def run_id(info):
    """Returns the run id that the server reports about itself; None: it has not."""
    found = isinstance(info, bytes) and re.search(rb"\brun_id:(\w+)", info)
    return found[1].decode() if found else None


class Listener(asyncio.Protocol):
    """A subscriber: which messages it got, and when."""

    def __init__(self):
        self.buffer, self.heard, self.since, self.closed = b"", [], None, None

    def connection_made(self, transport):
        self.transport = transport
        transport.write(b"SUBSCRIBE news\r\n")

    def data_received(self, data):
        self.buffer += data
        while self.buffer:
            frame, end = parse(self.buffer, 0)
            if not end:
                return
            self.buffer = self.buffer[end:]
            if isinstance(frame, Error):
                self.transport.close()
            elif frame[0] == b"subscribe":
                self.since = now()
            else:
                publisher, serial = frame[2].split(b" ")
                self.heard.append((now(), publisher, int(serial)))

    def connection_lost(self, _):
        self.closed = self.closed or now()


class Audience:
    """Subscribers, each of which connects again when its connection is lost. `by_bus`: nodes
    forward messages to each other, and promise no order between messages of two nodes."""

    def __init__(self, world, by_bus=False):
        self.world, self.by_bus = world, by_bus
        self.listeners = []

    async def run(self):
        loop = asyncio.get_running_loop()
        while True:
            try:
                _, listener = await loop.create_connection(Listener, *self.world.subject.address)
            except OSError:
                await asyncio.sleep(0.1)
                continue
            self.listeners.append(listener)
            try:
                while not listener.closed:
                    await asyncio.sleep(0.02)
            finally:
                listener.transport.close()  # else hasp would wait for the listener when it exits
            if not self.world.stopping:
                self.world.closed(listener.closed)

    def check(self):
        for listener in self.listeners:
            newest, heard = collections.Counter(), collections.defaultdict(set)
            for at, publisher, serial in listener.heard:
                if serial in heard[publisher]:
                    self.world.fault("message", f"{publisher}'s {serial} twice, at {at:.3f}")
                elif serial < newest[publisher]:
                    self._check_overtaken(at, publisher, serial, newest[publisher])
                newest[publisher] = max(newest[publisher], serial)
                heard[publisher].add(serial)
                self.world.counts["messages heard"] += 1
            if listener.since is not None:
                self._check_missing(listener, heard)

    def _check_overtaken(self, at, publisher, serial, newer):
        """Excuses the order if the publisher may have changed its node between the two messages,
        because its node was no primary any more, or did not answer."""
        messages = self.world.published[publisher]
        (begun, _, one), (_, ended, other) = messages[serial], messages[newer]
        ended = ended or float("inf")
        if self.by_bus and any(o.begin <= ended and begun <= max(o.end, o.calm) for o in self.world.outages):
            self.world.counts["messages that overtook others when their node went"] += 1
        elif self.by_bus and one and other and one != other:
            self.world.counts["messages that overtook others of another node"] += 1
        else:
            self.world.fault("message", f"{publisher}'s {serial}, sent {begun:.3f} at {one}, came at {at:.3f}, after {newer}, "
                                        f"answered {ended:.3f} at {other}; {self.world.last(ended + 1)}")

    def _check_missing(self, listener, heard):
        until = (listener.closed or now()) - HANG / 10
        for publisher, messages in self.world.published.items():
            for serial, (sent, answered, _) in messages.items():
                if (answered and listener.since < sent and answered < until and serial not in heard[publisher]
                        and not any(o.begin - 1 <= answered and sent <= o.calm + 1 for o in self.world.outages)):
                    self.world.fault("message", f"{publisher}'s {serial}, sent {sent:.3f}, was not heard")


async def pulse(world, node):
    """Measures how late a server answers: a node that gives keys away does nothing else until they
    are taken."""
    while True:
        try:
            wire = await Wire.to(node.unix)
            while not wire.closed:
                asked = now()
                at, reply = await wire.ask("PING")
                if reply is not None:
                    world.checker.pulses[node].beat(at, at - asked)
                await asyncio.sleep(LOOKS)
        except OSError:
            pass
        await asyncio.sleep(LOOKS)


class Watch:
    """Reads the queues of the locks past hasp. `where(key)`: the server that has the key, or None;
    `moved(key, address)` runs when a server answers that it has not."""

    def __init__(self, world, where, moved=None):
        self.world, self.where, self.moved = world, where, moved
        self.wires = {}
        self.known = set()

    async def run(self):
        while True:
            await asyncio.sleep(LOOKS)
            known = set()
            for key in self.world.args.locks:
                await self._look(key, known)
            self.known = known

    async def _look(self, key, known):
        node = self.where(key)
        if not node:
            return
        asked = now()
        try:
            wire = self.wires.get(node)
            if not wire or wire.closed:
                wire = self.wires[node] = await Wire.to(node.unix)
            done, _ = await asyncio.wait((wire.ask("ZRANGE", f"hasp:queue:{{{key}}}", 0, -1),), timeout=0.5)
        except OSError:
            return
        if not done:  # the server is stopped
            self.world.checker.answers.beat(now(), now() - asked)
            wire.close()
            return
        (future,) = done
        at, entries = future.result()
        self.world.checker.answers.beat(at, at - asked)
        if isinstance(entries, Error) and entries.startswith(b"MOVED"):
            self.moved(key, entries.split(b" ")[2].decode())
        for entry in entries if isinstance(entries, list) else ():
            known.add(entry)
            t = self.world.waiting.get((key, waiter_of(entry.decode()))) if entry not in self.known else None
            if t and t.queued is None and t.sent < asked:
                t.queued = at
