#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Clients whose work needs no lock, beside those of tests/apps, for the campaign `discover`.

    tests/fuzz/benign.py HOST PORT CLIENTS SEED none|lost

Caches, sessions, counters, rate limiters, queues as BullMQ, RQ and Celery have them, leader boards,
streams, pub/sub, markers, transactions with WATCH, by the commands that Redis would see. The names
of keys are random: first words, separators, braces, and the parts that vary. Runs until its input
ends, then prints the number of commands. No key is a lock, and no two clients read a key and write
it back without a check, except with `lost`.
"""

import asyncio
import random
import sys
import time
import uuid

from campaign import NIL, Error, Wire  # campaign.py adds the harness to the path

THINK = 0.15             # at most so many seconds between two commands of a client

REFRESHED_MS = 5000      # expiry of the values that clients refresh

WORDS = ("page user item feed tenant mail image geo search order cart price menu news topic film song team city "
         "stats view click token device event batch thumb quota").split()

BUCKET = """local n = tonumber(redis.call('GET', KEYS[1]) or ARGV[1])
if n < 1 then return 0 end
redis.call('SET', KEYS[1], n - 1, 'PX', ARGV[2])
return 1"""

TAKE_JOB = """local job = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
if job then
    redis.call('SET', ARGV[1] .. job .. ':lock', ARGV[2], 'PX', 30000)
    redis.call('HSET', ARGV[1] .. job, 'processedOn', ARGV[3])
end
return job"""

FINISH_JOB = """if redis.call('GET', KEYS[3]) ~= ARGV[2] then return -2 end
redis.call('DEL', KEYS[3])
redis.call('LREM', KEYS[1], -1, ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
return 0"""


class Names:
    """The names of keys in one run."""

    def __init__(self, chance, words=WORDS):
        self.chance = chance
        self.before = chance.choice(["", "app:", "{app}:", "v2|", "prod/eu-1/", "\u00fcber:", "\u0000\u0001:", "a b:"])
        self.between = chance.choice([":", ":", "/", "-", "."])
        self.words = iter(chance.sample(words, len(words)))
        self.kinds = [self._number, self._uuid, self._hex, self._bytes, self._braces]
        # Words differ from others by the separators between them.
        self.kinds += [self._mail] * (self.between in ":/")

    def kind(self, many=200):
        """Returns a function that names key number n of a kind with `many` keys."""
        word, last = next(self.words), self.chance.choice(["", "", self.between + "v1", self.between + "data"])
        vary = self.chance.choice(self.kinds)
        parts = [vary(n) for n in range(many)]
        head = (self.before + word + self.between).encode()
        return lambda n: head + parts[n % many] + last.encode()

    def _number(self, n):
        return str(1000 + n).encode()

    def _uuid(self, _):
        return str(uuid.UUID(int=self.chance.getrandbits(128))).encode()

    def _hex(self, _):
        return f"{self.chance.getrandbits(64):016x}".encode()

    def _bytes(self, _):
        return self.chance.randbytes(12)

    def _mail(self, n):
        return f"{self.chance.choice(WORDS)}.{self.chance.choice(WORDS)}{n}@example.com".encode()

    def _braces(self, n):
        return b"{" + str(n % 7).encode() + b"}:" + str(n).encode()


class Client:
    def __init__(self, address, number, chance):
        self.address, self.number, self.chance = address, number, chance
        self.asked = 0

    async def connect(self):
        self.wire = await Wire.to(self.address, 0)
        return self

    async def do(self, *args):
        self.asked += 1
        _, reply = await self.wire.ask(*args)
        if reply is None or isinstance(reply, Error):
            raise RuntimeError(f"{args}: {reply}")
        return reply

    def any(self, name, most=200):
        return name(self.chance.randrange(most))


class Habits:
    """The work of clients; each method is one action of one client."""

    def __init__(self, chance):
        names = Names(chance)
        self.now = 1700000000
        self.of = {habit: names.kind() for habit in (
            "cache filled refreshed session counter rate window bucket board stream marker checked settings "
            "flags visitors profile").split()}
        self.bull = names.before.encode() + b"bull:mails:"
        self.rq = b"rq:"
        self.lost = names.kind(3)
        self.all = [getattr(self, name) for name in dir(self) if name.startswith("do_")]

    async def do_cache(self, c):
        key = c.any(self.of["cache"])
        if await c.do("GET", key) is NIL:
            await c.do("SET", key, c.chance.randbytes(40), "EX", 60)
        elif c.chance.random() < 0.05:
            await c.do("DEL", key)

    async def do_filled(self, c):
        keys = [c.any(self.of["filled"]) for _ in range(5)]
        for key, value in zip(keys, await c.do("MGET", *keys)):
            if value is NIL:
                await c.do("SETEX", key, 60, c.chance.randbytes(20))

    async def do_refreshed(self, c):
        """Renews a value before it expires, so that no client waits for it; several clients may
        renew it at once. The value says when it expires, because PTTL may describe the previous
        value."""
        key, asked = c.any(self.of["refreshed"], 3), time.monotonic()
        found = await c.do("GET", key)
        # (Where this process is late, it was read long before the answer is looked at.)
        if found is NIL or float(found.split()[0]) - asked < REFRESHED_MS / 5e3:
            await asyncio.sleep(c.chance.random() * 0.05)
            goes = time.monotonic() + REFRESHED_MS / 1e3
            await c.do("SET", key, b"%f %x" % (goes, c.chance.getrandbits(64)), "PX", REFRESHED_MS)

    async def do_session(self, c):
        key = self.of["session"](c.number)
        old = await c.do("GET", key)
        await c.do("SET", key, b"%d" % (1 if old is NIL else int(old) + 1), "EX", 3600)

    async def do_counter(self, c):
        await c.do("INCR", c.any(self.of["counter"], 9))
        await c.do("INCRBY", c.any(self.of["counter"], 9), 3)
        await c.do("GET", c.any(self.of["counter"], 9))

    async def do_rate(self, c):
        key = c.any(self.of["rate"], 50)
        if await c.do("INCR", key) == 1:
            await c.do("EXPIRE", key, 2)

    async def do_window(self, c):
        key = c.any(self.of["window"], 50)
        self.now += 1
        c.wire.ask("MULTI")
        for args in (("ZREMRANGEBYSCORE", key, 0, self.now - 60), ("ZADD", key, self.now, c.chance.randbytes(8)),
                     ("ZCARD", key), ("EXPIRE", key, 60)):
            c.wire.ask(*args)
        await c.do("EXEC")

    async def do_bucket(self, c):
        await c.do("EVAL", BUCKET, 1, c.any(self.of["bucket"], 50), 10, 1000)

    async def do_board(self, c):
        key = c.any(self.of["board"], 3)
        await c.do("ZINCRBY", key, 5, b"player %d" % c.number)
        await c.do("ZREVRANGE", key, 0, 9, "WITHSCORES")

    async def do_stream(self, c):
        await c.do("XADD", c.any(self.of["stream"], 3), "MAXLEN", "~", 100, "*", "n", c.number)
        await c.do("XRANGE", c.any(self.of["stream"], 3), "-", "+", "COUNT", 5)

    async def do_marker(self, c):
        """Marks finished work, so that no client repeats it."""
        await c.do("SET", c.any(self.of["marker"]), 1, "NX", "EX", c.chance.choice([5, 600]))
        await c.do("SETNX", c.any(self.of["marker"]) + b":once", 1)

    async def do_checked(self, c):
        key = c.any(self.of["checked"], 3)
        await c.do("WATCH", key)
        old = await c.do("GET", key)
        c.wire.ask("MULTI")
        c.wire.ask("SET", key, b"%d" % (1 if old is NIL else int(old) + 1))
        await c.do("EXEC")

    async def do_settings(self, c):
        """One client writes, and all read."""
        if c.number == 0:
            key = c.any(self.of["settings"], 4)
            await c.do("GET", key)
            await c.do("SET", key, c.chance.randbytes(30))
        else:
            await c.do("MGET", *(self.of["settings"](n) for n in range(4)))

    async def do_flags(self, c):
        await c.do("SETBIT", c.any(self.of["flags"], 5), c.chance.randrange(1000), 1)
        await c.do("BITCOUNT", c.any(self.of["flags"], 5))

    async def do_visitors(self, c):
        await c.do("PFADD", c.any(self.of["visitors"], 5), c.chance.randbytes(6))
        await c.do("SADD", c.any(self.of["visitors"], 5) + b":set", c.number)

    async def do_profile(self, c):
        key = c.any(self.of["profile"])
        await c.do("HSET", key, "seen", self.now, "by", c.number)
        await c.do("HINCRBY", key, "visits", 1)
        await c.do("HGETALL", key)

    async def do_news(self, c):
        await c.do("PUBLISH", b"news:%d" % c.chance.randrange(3), "hello")

    async def do_bullmq(self, c):
        job = await c.do("INCR", self.bull + b"id")
        await c.do("HSET", self.bull + b"%d" % job, "name", "mail", "data", "{}")
        await c.do("LPUSH", self.bull + b"wait", job)
        token = str(uuid.UUID(int=c.chance.getrandbits(128)))
        mine = await c.do("EVAL", TAKE_JOB, 2, self.bull + b"wait", self.bull + b"active", self.bull, token, self.now)
        if mine is NIL:
            return
        lock = self.bull + mine + b":lock"
        await c.do("EVAL", FINISH_JOB, 3, self.bull + b"active", self.bull + b"completed", lock, mine, token, self.now)

    async def do_rq(self, c):
        job = str(uuid.UUID(int=c.chance.getrandbits(128))).encode()
        await c.do("HSET", self.rq + b"job:" + job, "status", "queued", "data", c.chance.randbytes(30))
        await c.do("SADD", self.rq + b"queues", "rq:queue:default")
        await c.do("RPUSH", self.rq + b"queue:default", job)
        mine = await c.do("LPOP", self.rq + b"queue:default")
        if mine is not NIL:
            await c.do("HSET", self.rq + b"job:" + mine, "status", "started")
            await c.do("ZADD", self.rq + b"wip:default", self.now, mine)
            await c.do("ZREM", self.rq + b"wip:default", mine)
            await c.do("EXPIRE", self.rq + b"job:" + mine, 500)

    async def do_celery(self, c):
        task = str(uuid.UUID(int=c.chance.getrandbits(128)))
        await c.do("LPUSH", "celery", task)
        mine = await c.do("RPOP", "celery")
        if mine is NIL:
            return
        c.wire.ask("MULTI")
        c.wire.ask("ZADD", "unacked_index", self.now, mine)
        c.wire.ask("HSET", "unacked", mine, "{}")
        await c.do("EXEC")
        meta = b"celery-task-meta-" + mine
        await c.do("GET", meta)
        c.wire.ask("MULTI")
        c.wire.ask("SETEX", meta, 86400, '{"status": "SUCCESS"}')
        c.wire.ask("PUBLISH", meta, "SUCCESS")
        await c.do("EXEC")
        await c.do("HDEL", "unacked", mine)
        await c.do("GET", meta)
        await c.do("DEL", meta)


    async def lose(self, c):
        key = c.any(self.lost, 3)
        await c.do("GET", key)
        await asyncio.sleep(c.chance.random() * 0.01)
        await c.do("SET", key, c.chance.randbytes(9))


async def live(client, habits, stopping, broken):
    mine = client.chance.sample(habits.all, 5) + [habits.lose] * (broken == "lost")
    while not stopping.is_set():
        await client.chance.choice(mine)(client)
        await asyncio.sleep(client.chance.random() * THINK)
    client.wire.close()


async def subscribe(address, stopping):
    wire = await Wire.to(address, 0)
    wire.data_received = lambda data: None
    wire.transport.write(b"PSUBSCRIBE news:*\r\n")
    await stopping.wait()
    wire.close()


async def main(host, port, nclients, seed, broken):
    address, stopping, habits = (host, int(port)), asyncio.Event(), Habits(random.Random(seed))
    clients = [await Client(address, n, random.Random(f"{seed} {n}")).connect() for n in range(int(nclients))]
    tasks = [asyncio.create_task(live(client, habits, stopping, broken)) for client in clients]
    tasks += [asyncio.create_task(subscribe(address, stopping)) for _ in range(3)]
    asyncio.get_running_loop().add_reader(sys.stdin, stopping.set)
    await asyncio.gather(*tasks)
    print(sum(client.asked for client in clients))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
