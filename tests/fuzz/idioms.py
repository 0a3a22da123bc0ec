# SPDX-License-Identifier: BSD-3-Clause
"""The traffic of applications that lock, rightly and wrongly, for contrib/verdict and the campaign
`discover`.

An Idiom has the names of its keys and serve(shop), which runs until the shop closes. A Shop is one
run of an idiom at one address: it hands out connections and counts the results. All clients of a run
are tasks of one event loop, so the shop knows at each moment which clients are inside a lock.

    done     orders that the application completed
    harm     by kind: overlap (two holders inside at once), theft (a release removed the lock of a
             holder that was inside), lost (an update that another client overwrote), stuck (a lock
             without an expiry that no client holds)
    errors   by kind: error replies, by which hasp prevents harm

Names of keys come from benign.Names. HARM_FREE idioms need no section.
"""

import asyncio
import collections
import contextlib
import random
import re
import time
import uuid

from campaign import NIL, Error, Wire  # campaign.py adds the harness to the path

LEASE_MS = 1000
LATE = 1.4     # how many leases a late holder works
EVERY = 6      # one hold in this many has a mishap
SPOILING = ("lost", "repeated", "oversold")  # harm that spoils an order each
CLOSING = 15   # seconds that an order may take after the shop has closed

WORDS = ("lock mutex guard job cron import export sync invoice stock seat coupon wallet ledger ticket room booking "
         "payment report rollup index crawl upload render backup quotas credit transfer basket parcel shift tariff "
         "permit voucher refund batching deposit bonus").split()

COMPARE_AND_DELETE = """if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("del", KEYS[1])
else
    return 0
end"""

GO_ZERO = """if redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
    return "OK"
else
    return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])
end"""

# Discourse's DistributedMutex: the value is when the lock ends.
DISCOURSE = """local now = tonumber(redis.call("TIME")[1])
local ends = redis.call("GET", KEYS[1])
if ends and now <= tonumber(ends) then
    return nil
end
local mine = now + tonumber(ARGV[1])
redis.call("SETEX", KEYS[1], ARGV[1] + 1, tostring(mine))
return mine"""


class Refused(Exception):
    """An error reply."""


class Gone(Exception):
    """The connection is lost."""


class Shop:
    """One run of one idiom. `redis` is the server itself, for what is looked up at the end."""

    def __init__(self, address, redis, seconds, *, watched=False, enforced=False):
        self.address, self.redis = address, redis
        self.watched, self.enforced = watched, enforced
        self.seconds, self.ends = seconds, time.monotonic() + seconds
        self.done, self.holds = 0, 0
        self.harm, self.errors = collections.Counter(), collections.Counter()
        self.holders = collections.defaultdict(list)
        self.forgotten = {}  # when a lock was left that no client releases
        self.turn = asyncio.Lock()
        self.wires = []

    def is_open(self):
        return time.monotonic() < self.ends

    async def connect(self, host=0, name=None):
        wire = await Wire.to(self.address, host)
        self.wires.append(wire)

        async def client(*args):
            _, reply = await wire.ask(*args)
            if reply is None:
                raise Gone
            if isinstance(reply, Error):
                raise Refused(reply.split()[0].decode())
            return reply

        client.close = wire.close
        if name:
            await client("CLIENT", "SETNAME", name)
        return client

    async def pool(self, host, size, name=None):
        return [await self.connect(host, name) for _ in range(size)]

    def mishap(self, every=EVERY):
        """Returns true if this hold, one in `every`, is to go wrong."""
        self.holds += 1
        return self.holds % every == every - 1

    @contextlib.contextmanager
    def inside(self, key, kind="overlap"):
        me = object()
        self.harm[kind] += bool(self.holders[key])
        self.holders[key].append(me)
        try:
            yield
        finally:
            self.holders[key].remove(me)

    async def remove(self, key, client, *args):
        """Sends a command that removes the lock, for a client that is not inside: that is a theft
        if another client is."""
        others = bool(self.holders[key])
        self.harm["theft"] += await client(*args) == 1 and others

    async def pause(self, seconds=0.02):
        await asyncio.sleep(random.uniform(0.2, 1) * seconds)

    async def work(self, worker, pause=0.02):
        """Calls worker() again and again until the shop closes; an error reply ends that order only."""
        while self.is_open():
            try:
                await worker()
            except Refused as error:
                self.errors[str(error)] += 1
            except Gone:  # another worker's crash took a connection of the pool along
                self.errors["gone"] += 1
            await self.pause(pause)

    async def serve(self, workers):
        """Runs the workers to their end, which comes soon after the shop has closed unless they are
        stuck."""
        tasks = [asyncio.create_task(worker) for worker in workers]
        _, stuck = await asyncio.wait(tasks, timeout=max(0, self.ends - time.monotonic()) + CLOSING)
        for task in stuck:
            self.errors["hangs"] += 1
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def useful(self):
        """Returns how many good orders a second there were."""
        return max(0, self.done - sum(self.harm[kind] for kind in SPOILING)) / self.seconds

    def close(self):
        for wire in self.wires:
            wire.close()


class PlainNames:
    """Names of keys for readers."""

    def __init__(self, name, noun):
        self.slug = re.sub(r"[^a-z]+", "-", name.lower())[:32].strip("-")
        self.kinds = iter((noun, "value"))

    def kind(self, _):
        kind = next(self.kinds)
        return lambda n: f"{self.slug}:{kind}:{n}".encode()


class Idiom:
    """`due`: what discover must write if there was harm: a section, a question, or a line that says
    why not. A question is never wrong; but if `due` is a section, the idiom can be cured, and
    counts as missed. `line`: what a right line contains. `harm_free`: any section is needless."""

    due, line = "section", r"not proposed|that one connection reads and another one"
    harm_free = False
    noun = "lock"  # in the names of keys: discover takes a counter with the word `lock` in its name for a lock
    link = None    # address of the public report that the idiom comes from
    reach = None   # why hasp cannot cure the idiom, whatever is proposed
    by_hand = None  # a section that cures the idiom, though discover cannot know it: its kind and its other lines
    protects = False  # holders read a value under the lock and write it back
    seconds = 5
    patience = 0   # further seconds that serve() may take
    floor = 1 / 4  # share of the expected orders that the application must complete under the enforced file

    def __init__(self, name, names=None, nkeys=1, seed=1, **settings):
        self.name, self.nkeys = name, nkeys
        self.chance = random.Random(f"{seed} {name}")
        names = names or PlainNames(name, self.noun)
        self.key, data = names.kind(nkeys), names.kind(nkeys)
        self.data = {self.key(n): data(n) for n in range(nkeys)}  # what the lock of each key protects
        for setting, value in settings.items():
            getattr(type(self), setting)  # the setting has a default
            setattr(self, setting, value)
        if not self.protects:
            self.data = {key: key for key in self.data}

    def keys(self):
        return [self.key(n) for n in range(self.nkeys)]

    def is_covered(self, patterns):
        """Returns true if each key, or the value that it protects, has a section. If only the
        values have sections, locks may overlap."""
        return (any(pattern.fullmatch(key) for pattern in patterns for key in self.data)
                and all(any(pattern.fullmatch(name) for pattern in patterns for name in pair) for pair in self.data.items()))

    def touches(self, pattern):
        """Returns true if a section of that pattern is about this idiom. `pattern` is a compiled
        glob."""
        return any(pattern.fullmatch(name) for pair in self.data.items() for name in pair)

    def some_key(self):
        return self.key(self.chance.randrange(self.nkeys))

    async def serve(self, shop):
        raise NotImplementedError


# --- locks -------------------------------------------------------------------------------------------


class Lock(Idiom):
    """Takes a lock, works, and releases it. Each setting is one way in which applications differ."""

    take = "SET NX PX"      # or SET NX EX, SETNX, INCR, EVAL
    value = "constant"      # or token
    release = "DEL"         # or PEXPIRE, GET DEL, script, none
    owner = "connection"    # or pool: any connection of the host; name: any of a name; strangers; shared: all on one
    mishap = None           # or late; steal: the loser deletes, too; crash: the connection closes;
    # bare: it closes before the expiry is set; forget
    retries = True
    protects = True
    hosts, workers = 2, 3   # workers of each host
    lease_ms = LEASE_MS
    work = 0.02             # seconds
    late = LATE

    async def acquire(self, client, key, token):
        lease = self.lease_ms
        if self.take == "SET NX PX":
            return await client("SET", key, token, "NX", "PX", lease) == b"OK"
        if self.take == "SET NX EX":
            return await client("SET", key, token, "EX", lease // 1000, "NX") == b"OK"
        if self.take == "EVAL":
            return await client("EVAL", GO_ZERO, 1, key, token, lease) == b"OK"
        if self.take == "SETNX":
            return await client("SETNX", key, token) == 1
        assert self.take == "INCR"
        return await client("INCR", key) == 1

    async def expire(self, client, key):
        if self.take in ("SETNX", "INCR"):
            await client("PEXPIRE", key, self.lease_ms)

    async def let_go(self, shop, client, key, token):
        if self.release == "script":
            await shop.remove(key, client, "EVAL", COMPARE_AND_DELETE, 1, key, token)
        elif self.release == "DEL":
            await shop.remove(key, client, "DEL", key)
        elif self.release == "PEXPIRE":
            await shop.remove(key, client, "PEXPIRE", key, 1)
        elif self.release == "GET DEL":
            if await client("GET", key) == token:
                await shop.remove(key, client, "DEL", key)

    async def crash(self, pool, client, shop, host):
        client.close()
        if client in pool:
            pool.remove(client)
        pool.append(await shop.connect(host, self.names(host)))

    async def order(self, shop, pool, host, releasers, key):
        client, token = self.chance.choice(pool), b"1"
        if self.value == "token":
            token = uuid.UUID(int=self.chance.getrandbits(128)).hex.encode()
        if not await self.acquire(client, key, token):
            if self.mishap == "steal" and not self.retries:
                await shop.remove(key, client, "DEL", key)
            # Left to expire, it would be free by now.
            over = shop.forgotten.get(key, float("inf")) + 3 * self.lease_ms / 1000
            shop.harm["kept out"] += time.monotonic() > over and not shop.holders[key]
            return
        shop.forgotten.pop(key, None)
        mishap = self.mishap if self.mishap and shop.mishap() else None
        if mishap == "late or forget":
            mishap = ("late", "forget")[shop.holds // EVERY % 2]
        if mishap == "bare":
            await self.crash(pool, client, shop, host)
            return
        await self.expire(client, key)
        if mishap == "forget":
            shop.forgotten[key] = time.monotonic()
            return
        try:
            with shop.inside(key):
                if self.protects:
                    count = await self.chance.choice(pool)("GET", self.data[key])
                await asyncio.sleep(self.late * self.lease_ms / 1000 if mishap == "late" else self.work)
                if mishap == "crash":
                    await self.crash(pool, client, shop, host)
                    return
                if self.protects:
                    await self.chance.choice(pool)("SET", self.data[key], 1 if count is NIL else int(count) + 1)
            shop.done += 1
        finally:
            if mishap != "crash":
                releaser = self.chance.choice(releasers or pool)
                await self.let_go(shop, client if self.owner in ("connection", "shared") else releaser, key, token)

    def names(self, host):
        """Returns the names that the connections of a host set."""
        return f"app-{host % 2}" if self.owner == "name" else None

    async def serve(self, shop):
        workers, releasers = [], None
        if self.owner == "strangers":
            releasers = await shop.pool(8, 2)
        if self.owner == "name":  # each name has connections at two addresses
            pools = [[await shop.connect(host + 2 * n, self.names(host)) for n in range(2)] for host in range(2)]
        elif self.owner == "shared":
            pools = [await shop.pool(host, 1) for host in range(self.hosts)]
        elif self.owner == "connection":
            pools = [await shop.pool(host % 2, 1) for host in range(self.hosts * self.workers)]
        else:
            pools = [await shop.pool(host, 2) for host in range(self.hosts)]
        each = 1 if self.owner == "connection" else self.workers
        for host, pool in enumerate(pools):
            for _ in range(each):
                async def one(pool=pool, host=host % 2 if self.owner == "connection" else host):
                    await self.order(shop, pool, host, releasers, self.some_key())
                workers.append(shop.work(one, 0.02 if self.retries else 0.1))
        await shop.serve(workers)
        await self.look(shop)

    async def look(self, shop):
        """Counts the locks that no client has, and that stay for ever."""
        if self.take not in ("SETNX", "INCR"):
            return
        for key in self.keys():
            shop.harm["stuck"] += not shop.holders[key] and shop.redis.pttl(key) == -1


class Theft(Lock):
    """Ten thefts: `finally` deletes a lock that was not acquired. One key of the pattern is odd."""

    floor = 1 / 20  # the run is short, and the machine may be busy then
    odd = None      # or crash, clean-up, kept

    def __init__(self, name, names=None, **settings):
        super().__init__(name, names, nkeys=11, **settings)

    async def serve(self, shop):
        one, other = await shop.pool(0, 2)
        *stolen, odd = self.keys()
        if self.odd == "crash":
            dies = await shop.connect(1)
            await dies("SET", odd, 1, "NX", "PX", 60_000)
            dies.close()
            await one("GET", odd)
        elif self.odd == "clean-up":
            await one("DEL", odd)
        elif self.odd == "kept":
            await one("SET", odd, 1, "NX", "PX", 60_000)
            for _ in range(3):
                await one("SET", odd, 1, "XX", "PX", 60_000)

        async def steal(key):
            if await one("SET", key, 1, "NX", "PX", 60_000) != b"OK":
                return
            with shop.inside(key):
                if await other("SET", key, 1, "NX", "PX", 60_000) == b"OK":
                    shop.harm["overlap"] += 1
                await shop.remove(key, other, "DEL", key)
                await asyncio.sleep(0.01)
            await one("DEL", key)
            shop.done += 1
        for key in stolen:
            await steal(key)


class Marker(Idiom):
    """Markers by SET NX that something was done. Half are deleted, half are left to expire. If hasp
    renewed them, they would stay."""

    noun = "once"
    due, line = "line", r"markers|expire"
    deleted = 0.5
    dies = False  # each process leaves its lock and its connection

    async def serve(self, shop):
        over = {}  # when each marker has surely expired

        async def worker():
            client = await shop.connect()
            while shop.is_open():
                key = self.some_key()
                if await client("SET", key, 1, "NX", "PX", 300) != b"OK":
                    shop.harm["stays"] += time.monotonic() > over.get(key, float("inf"))
                else:
                    shop.done += 1
                    over[key] = time.monotonic() + 1.5
                    if self.chance.random() < self.deleted:
                        await asyncio.sleep(0.2)
                        await client("DEL", key)
                if self.dies:
                    client.close()
                    client = await shop.connect()
                await asyncio.sleep(0.05)
        await shop.serve([worker() for _ in range(4)])


class Forgotten(Lock):
    """Holds are short and some are late. Later one holder forgets its lock: others get it all the same."""

    lease_ms, late, protects, hosts, patience = 300, 1.2, False, 1, 30

    async def serve(self, shop):
        await super().serve(shop)
        if not shop.enforced:
            return
        forgets, client = await shop.pool(0, 2)
        until = time.monotonic() + 30
        while await forgets("SET", self.key(0), 1, "NX", "PX", self.lease_ms) != b"OK":
            await asyncio.sleep(0.05)
        while await client("SET", self.key(0), 1, "NX", "PX", self.lease_ms) != b"OK":
            if time.monotonic() > until:
                shop.harm["stuck"] += 1
                return
            await asyncio.sleep(0.1)


class Look(Idiom):
    """Looks whether there is a lock, then sets it: two get in."""

    due, line = "line", r"found missing, set, and"
    look = "EXISTS"     # or GET, TTL
    set = "SET"         # or SETEX
    one_at_a_time = False  # only one client at a time, while hasp watches

    async def serve(self, shop):
        async def worker():
            client = await shop.connect()

            async def order():
                async with shop.turn if self.one_at_a_time and shop.watched else contextlib.AsyncExitStack():
                    key = self.some_key()
                    if await client(self.look, key) not in (NIL, 0, -2):
                        return
                    await asyncio.sleep(0.002)
                    if self.set == "SET":
                        await client("SET", key, 1, "PX", 10_000)
                    else:
                        await client("SETEX", key, 10, 1)
                    with shop.inside(key):
                        await asyncio.sleep(0.02)
                    await client("DEL", key)
                    shop.done += 1
            await shop.work(order)
        await shop.serve([worker() for _ in range(6)])


class Leader(Idiom):
    """The leader prolongs its key. One that slept goes on as leader although another one leads."""

    due, line = "line", r"as leaders (do|use them)"
    prolong = "PEXPIRE"  # or "SET XX"

    async def serve(self, shop):
        async def worker(n):
            client, key = await shop.connect(n % 2), self.key(0)
            while shop.is_open():
                if await client("SET", key, n, "NX", "PX", 400) == b"OK":
                    with shop.inside(key):
                        for _ in range(5):
                            await asyncio.sleep(0.15)
                            shop.done += 1
                            if self.prolong == "PEXPIRE":
                                await client("PEXPIRE", key, 400)
                            else:
                                await client("SET", key, n, "XX", "PX", 400)
                        await asyncio.sleep(0.6)
                await asyncio.sleep(0.05)
        await shop.serve([worker(n) for n in range(3)])


class GetSet(Idiom):
    """SETNX of the time at which the lock ends; a client that finds it over takes it over."""

    due, line = "line", r"GETSET|not proposed|markers"
    over = "GETSET"  # or DEL, and then SETNX
    looks = True  # a holder looks at the time before its DEL: a late holder leaves the lock alone
    ahead = 0     # seconds that the clock of each other client is ahead
    hosts = 2

    async def serve(self, shop):
        async def worker(n):
            client, key, ahead = await shop.connect(n % self.hosts), self.key(0), self.ahead * (n % 2)

            async def order():
                mine = b"%f" % (time.time() + ahead + LEASE_MS / 1000)
                if await client("SETNX", key, mine) != 1:
                    ends = await client("GET", key)
                    if ends is NIL or float(ends) > time.time() + ahead or not await self.take_over(shop, client, key, mine, ends):
                        return
                with shop.inside(key):
                    await asyncio.sleep(LATE * LEASE_MS / 1000 if shop.mishap() else 0.02)
                if not self.looks or float(mine) > time.time() + ahead:
                    await shop.remove(key, client, "DEL", key)
                shop.done += 1
            await shop.work(order)
        await shop.serve([worker(n) for n in range(4)])

    async def take_over(self, shop, client, key, mine, ends):
        if self.over == "GETSET":
            return await client("GETSET", key, mine) == ends
        await shop.remove(key, client, "DEL", key)
        return await client("SETNX", key, mine) == 1


class Discourse(Idiom):
    """A lock that a script takes, whose value the script makes: the time at which it ends, which no rule moves."""

    due = "question"

    async def serve(self, shop):
        async def worker(n):
            client, key = await shop.connect(n % 2), self.key(0)

            async def order():
                mine = await client("EVAL", DISCOURSE, 1, key, 1)
                if mine is NIL:
                    return
                with shop.inside(key):
                    await asyncio.sleep(2.6 if shop.mishap() else 0.02)
                await shop.remove(key, client, "EVAL", COMPARE_AND_DELETE, 1, key, mine)
                shop.done += 1
            await shop.work(order)
        await shop.serve([worker(n) for n in range(4)])


# --- values that are read and written back -----------------------------------------------------------


class Update(Idiom):
    """Reads a number, thinks, and writes one more."""

    noun = "count"
    how = "GET SET"     # or MGET SET, GET SETEX, HGET HSET
    readers = 0         # clients that only read
    reads = 0           # how many more reads of each writer are not followed by a write
    pooled = False      # the write goes over another connection
    think = 0.005
    workers = 6
    checks = False      # by WATCH, whether the value has changed
    compares = False    # writes only if the value is the one that the client knows, as of a token that is used once
    one_at_a_time = False  # only one client at a time, while hasp watches

    async def read(self, client, key):
        if self.how == "MGET SET":
            return (await client("MGET", key, self.some_key()))[0]
        if self.how == "HGET HSET":
            return await client("HGET", key, "n")
        return await client("GET", key)

    async def write(self, client, key, number):
        if self.how == "GET SETEX":
            await client("SETEX", key, 600, number)
        elif self.how == "HGET HSET":
            await client("HSET", key, "n", number)
        else:
            await client("SET", key, number)

    async def update(self, reader, writer, key):
        """Updates the key. Returns true if the value was written."""
        if self.checks:
            await reader("WATCH", key)
        known = self.known.get(key, NIL)
        number = await self.read(reader, key)
        if self.compares and number != known:
            return False
        await asyncio.sleep(self.think)
        number = 1 if number is NIL else int(number) + 1
        if not self.checks:
            await self.write(writer, key, number)
            self.known[key] = b"%d" % number
            return True
        await reader("MULTI")
        await self.write(writer, key, number)
        return bool(await reader("EXEC"))

    async def serve(self, shop):
        self.written, self.known = 0, {}

        async def worker():
            reader = writer = await shop.connect()
            if self.pooled:
                writer = await shop.connect()

            async def order():
                async with shop.turn if self.one_at_a_time and shop.watched else contextlib.AsyncExitStack():
                    for _ in range(self.reads):
                        await self.read(reader, self.some_key())
                        shop.done += 1
                    if await self.update(reader, writer, self.some_key()):
                        self.written += 1
                        shop.done += 1
            await shop.work(order)

        async def read():
            client = await shop.connect(1)

            async def order():
                await self.read(client, self.some_key())
                shop.done += 1
            await shop.work(order)
        await shop.serve([worker() for _ in range(self.workers)] + [read() for _ in range(self.readers)])
        final = sum(int((shop.redis.hget(key, "n") if self.how == "HGET HSET" else shop.redis.get(key)) or 0)
                    for key in self.keys())
        shop.harm["lost"] += max(0, self.written - final)


class Nested(Idiom):
    """Reads two accounts before it writes one and the other."""

    noun = "account"
    due, line = "line", r"not proposed: .* lost updates? seen, but connections read several keys"

    def __init__(self, name, names=None, **settings):
        super().__init__(name, names, nkeys=4, **settings)

    async def serve(self, shop):
        for key in self.keys():
            shop.redis.set(key, 1000)

        async def worker():
            client = await shop.connect()

            async def order():
                a, b = self.chance.sample(self.keys(), 2)
                one, other = int(await client("GET", a)), int(await client("GET", b))
                await asyncio.sleep(0.005)
                await client("SET", a, one - 1)
                await client("SET", b, other + 1)
                shop.done += 1
            await shop.work(order)
        await shop.serve([worker() for _ in range(6)])
        shop.harm["lost"] += sum(int(shop.redis.get(key)) for key in self.keys()) != 4000


class Default(Idiom):
    """GET; if there is no value, SET the value that all are to use from now on: two clients set two
    values. Caches do the same, and need no guard, so hasp has to ask."""

    noun = "setting"
    due, line = "line", r"not proposed|cache|found missing"
    seconds = 4

    async def serve(self, shop):
        async def worker(n):
            client = await shop.connect()
            for i in range(self.nkeys):
                await asyncio.sleep(self.chance.random() * 0.02)
                used = await self.used(client, i, n)
                if used is not None:
                    uses[i].add(used)
                    shop.done += 1
        uses = collections.defaultdict(set)

        async def guarded(n):
            try:
                await worker(n)
            except Refused as error:
                shop.errors[str(error)] += 1
        await shop.serve([guarded(n) for n in range(5)])
        shop.harm["lost"] += sum(len(used) - 1 for used in uses.values())

    async def used(self, client, i, n):
        key = self.key(i)
        old = await client("GET", key)
        if old is not NIL:
            return old
        await asyncio.sleep(0.01)
        await client("SET", key, b"%d" % n)
        return b"%d" % n


class Stampede(Idiom):
    """A cache: when its value expires, all clients compute it at once. Each value is as good as the
    other."""

    noun = "page"
    due, line = "line", r"cache|no value was read and written back|not proposed|no update was lost"
    harm_free = True

    async def serve(self, shop):
        async def worker():
            client = await shop.connect()

            async def order():
                key = self.some_key()
                if await client("GET", key) is NIL:
                    with shop.inside(key, "stampede"):
                        await asyncio.sleep(0.05)
                    await client("SET", key, b"page %d" % self.chance.randrange(9), "PX", 400)
                shop.done += 1
            await shop.work(order)
        await shop.serve([worker() for _ in range(6)])
        del shop.harm["stampede"]
