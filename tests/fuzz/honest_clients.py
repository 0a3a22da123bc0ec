# SPDX-License-Identifier: BSD-3-Clause
"""Honest clients of tests/fuzz/hostile, and checks of their locks and guarded values.

A client that has a lock stores its name in a second key over the same connection, and reads the name
again before it releases the lock. Within the lease, no other client may have written that key. A
client changes a guarded value by appending a name to the value that it has read, so each value ever
seen must be a prefix of the last one.
"""

import asyncio
import random

from campaign import NIL, Error, Wire, now

LEASE, WAIT = 6.0, 1.5            # seconds; the lease outlives what is slow
GUARD_LEASE, GUARD_WAIT = 0.3, 0.5
LOCKS = ["verb:1", "verb:2", "verb:3", "lock:connection:1", "lock:connection:2", "lock:value:1", "lock:value:2"]
GUARDED = [f"{prefix}:{n}" for prefix in ("mine", "checked") for n in range(4)]
REFUSALS = (b"LOCKED ", b"LOCKLOST ", b"DEADLOCK ")


class World:
    """`fault(kind, text)` reports faults; `past` is a campaign.Past."""

    def __init__(self, subjects, fault, past, seed):
        self.subjects, self.fault, self.past, self.seed = subjects, fault, past, seed
        self.stopping = False
        self.tokens = dict.fromkeys(LOCKS, 0)    # the greatest fencing token that the client got
        self.seen = {key: set() for key in GUARDED}
        self.updates = {}                        # name: (key, outcome)
        self.ngranted = self.nwritten = 0

    def check(self, plain):
        """Checks the guarded values at the end."""
        final = {key: (plain.get(key) or b"") for key in GUARDED}
        for key, seen in self.seen.items():
            for value in seen:
                if not final[key].startswith(value):
                    self.fault("lost", f"{key}: {value[-60:]} was seen, there is {final[key][-60:]}")
        for name, (key, outcome) in self.updates.items():
            n = final[key].split().count(name)
            if outcome != "unknown" and n != (outcome == "written"):
                self.fault("lost", f"{name} of {key} was {outcome}, and is there {n} times")


class Client:
    """A client that runs one session after the other."""

    def __init__(self, world, number):
        self.world, self.number, self.serial = world, number, 0
        self.rng = random.Random(f"{world.seed}:{number}")

    async def run(self):
        while not self.world.stopping:
            subject = self.rng.choice(self.world.subjects)
            try:
                self.wire = await Wire.to(subject.address, subject.number)
            except OSError:
                await asyncio.sleep(0.02)
                continue
            for _ in range(self.rng.choice((1, 5, 20))):
                if self.world.stopping or self.wire.closed:
                    break
                self.serial += 1
                await self.turn(f"c{self.number}#{self.serial}")
            self.rng.choice((self.wire.close, self.wire.reset, self.wire.half_close))()

    async def ask(self, *command):
        """Sends a command and returns its reply; None: it has failed, and the connection is not
        used any more."""
        _, reply = await self.wire.ask(*command)
        if isinstance(reply, Error) and not reply.startswith(REFUSALS):
            if not reply.startswith(b"ERR hasp: "):
                self.world.fault("answer", f"{command[:2]}: {reply}")
            self.wire.close()
            return None
        return reply


class Locker(Client):
    async def turn(self, who):
        key, began = self.rng.choice(LOCKS), now()
        if self.rng.random() < 0.1 and not key.startswith("lock:value"):
            await self.steal(key)
            return
        known = self.world.tokens[key]
        if key.startswith("verb:"):
            reply = await self.ask("LOCK", key, "WAIT", self.rng.choice((30, 600, 1500)))
        else:
            reply = await self.ask("SET", key, who, "NX")
        if reply in (None, NIL) or isinstance(reply, Error):
            return
        if key.startswith("verb:"):
            if reply <= known:
                self.world.fault("token", f"{key}: {reply} after {known}")
            self.world.tokens[key] = max(self.world.tokens[key], reply)
        self.world.ngranted += 1
        await self.hold(key, who, began)

    async def hold(self, key, who, began):
        rng = self.rng
        await self.ask("SET", f"name:{key}", who)
        await asyncio.sleep(rng.choice((0, 0.01, 0.03, 0.1)))
        name = await self.ask("GET", f"name:{key}")
        if now() < began + LEASE and name not in (None, who.encode()):
            self.world.fault("overlap", f"{key}: {who} has it, and finds {name}")
        if name is None or rng.random() < 0.05:
            self.wire.close()
            return
        released = await self.ask(*(("UNLOCK", key) if key.startswith("verb:") else ("DEL", key)))
        if released == 0 and now() < began + LEASE:
            self.world.fault("stolen", f"{key}: {who} has it, and cannot release it")
        if released == 1 and rng.random() < 0.3:
            await self.check_gone(key, who)

    async def steal(self, key):
        """Deletes the lock, as a client does that was too slow."""
        command = ("UNLOCK", key, "AS", "thief") if key.startswith("verb:") else ("DEL", key)
        if await self.ask(*command) not in (0, None):
            self.world.fault("stolen", f"{key}: released by a client that never had it")

    async def check_gone(self, key, who):
        """The token of a verb's owner begins with its connection."""
        found = await self.world.past.ask("HKEYS" if key.startswith("verb:") else "GET", key)
        mine = self.wire.name + "/" if key.startswith("verb:") else who
        if any(value.startswith(mine.encode()) for value in (found if isinstance(found, list) else [found])
               if isinstance(value, bytes)):
            self.world.fault("not freed", f"{key}: {who} has released it")


class Writer(Client):
    async def turn(self, who):
        key, name = self.rng.choice(GUARDED), who.encode()
        value = await self.ask("GET", key)
        if value is None or isinstance(value, Error):
            return
        value = b"" if value is NIL else value
        self.world.seen[key].add(value)
        if len(value) > 20000 or self.rng.random() < 0.05:
            return
        await asyncio.sleep(self.rng.choice((0, 0.001, 0.01, 1.3 * GUARD_LEASE)))
        self.world.updates[name] = (key, "unknown")
        reply = await self.ask("SET", key, value + name + b" ")
        if reply is not None:
            outcome = "refused" if isinstance(reply, Error) else "written"
            self.world.updates[name] = (key, outcome)
            self.world.nwritten += outcome == "written"
