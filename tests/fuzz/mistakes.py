# SPDX-License-Identifier: BSD-3-Clause
"""Mistakes that several public reports have in common. Their programs in tests/corpus differ in settings only.

The idioms that most applications use are in idioms.py.
"""

import asyncio
import time

from idioms import COMPARE_AND_DELETE, NIL, Idiom, Lock, Refused, Update


class Once(Idiom):
    """Looks whether a thing was done, does it, and writes that it was done: two clients do it."""

    noun = "done"
    due, line = "line", r"several clients found missing and then set"
    mark = ("EX", 60)  # options of SET

    async def serve(self, shop):
        done = set()

        async def worker():
            client = await shop.connect()
            for n in range(self.nkeys):
                await asyncio.sleep(self.chance.random() * 0.01)
                try:
                    if await client("GET", self.key(n)) is NIL:
                        await asyncio.sleep(0.01)
                        shop.harm["done twice"] += n in done
                        done.add(n)
                        await client("SET", self.key(n), "done", *self.mark)
                    shop.done += 1
                except Refused as error:
                    shop.errors[str(error)] += 1
        await shop.serve([worker() for _ in range(4)])


class Abandoned(Idiom):
    """A holder dies. The others do not get its lock, although nobody is inside."""

    late = 0.5  # seconds until the next client should be inside; None: at some time

    async def take(self, client, key, n):
        return await client("SET", key, n, "NX", "PX", 2000) == b"OK"

    async def serve(self, shop):
        free = time.monotonic()  # since when no client is inside

        async def worker(n):
            nonlocal free
            client, key = await shop.connect(n), self.key(0)
            while shop.is_open():
                if not await self.take(client, key, n):
                    is_late = self.late and time.monotonic() > free + self.late
                    shop.harm["kept out"] += bool(is_late) and not shop.holders[key]
                else:
                    with shop.inside(key):
                        await asyncio.sleep(0.02)
                    free = time.monotonic()
                    if shop.mishap(3):
                        client.close()
                        client = await shop.connect(n)
                    else:
                        await client("DEL", key)
                    shop.done += 1
                await asyncio.sleep(0.1)
        await shop.serve([worker(n) for n in range(3)])
        shop.harm["stuck"] += shop.redis.pttl(self.key(0)) == -1


class Opposite(Idiom):
    """Takes several locks one after the other, and others take them in the opposite order."""

    def __init__(self, name, names=None, **settings):
        super().__init__(name, names, nkeys=2, **settings)

    async def take(self, client, key, token):
        until = time.monotonic() + 0.5
        while await client("SET", key, token, "NX", "PX", 10_000) != b"OK":
            if time.monotonic() > until:
                return False
            await asyncio.sleep(0.01)
        return True

    async def let_go(self, client, key, _):
        await client("DEL", key)

    async def serve(self, shop):
        async def workflow(keys):
            client = await shop.connect()

            async def run():
                has, token = [], b"%016x" % self.chance.getrandbits(64)
                try:
                    for key in keys:
                        if not await self.take(client, key, token):
                            shop.harm["gave up"] += 1
                            return
                        has.append(key)
                        await asyncio.sleep(0.01)
                    shop.done += 1
                finally:
                    for key in has:
                        await self.let_go(client, key, token)
            await shop.work(run)
        await shop.serve([workflow(self.keys()), workflow(self.keys()[::-1])])


class OppositeTokens(Opposite):
    """Each lock has a token, which a script compares before it deletes the key."""

    async def let_go(self, client, key, token):
        await client("EVAL", COMPARE_AND_DELETE, 1, key, token)


class Requests(Lock):
    """A request takes the lock over one connection and deletes it over another one. So no connection shows that
    its client is late."""

    due, protects, mishap = "question", False, "late"

    async def serve(self, shop):
        async def worker(n):
            async def request():
                client, key = await shop.connect(n % 2), self.key(0)
                taken = await self.acquire(client, key, 1)
                client.close()
                if not taken:
                    return
                with shop.inside(key):
                    await asyncio.sleep(self.late * self.lease_ms / 1000 if shop.mishap() else self.work)
                client = await shop.connect(n % 2)
                await self.let_go(shop, client, key, 1)
                client.close()
                shop.done += 1
            await shop.work(request)
        await shop.serve([worker(n) for n in range(4)])


class OneConnection(Update):
    """All requests of a process share its connection: a guard belongs to one."""

    due, reach = "line", "the requests share a connection"

    async def serve(self, shop):
        client = await shop.connect()
        shop.connect = lambda *_: asyncio.sleep(0, client)
        await super().serve(shop)
