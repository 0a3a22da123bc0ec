# SPDX-License-Identifier: BSD-3-Clause
"""Applications whose keys look like locks and are none, or whose refused clients must not wait.

The idioms that most applications use are in idioms.py.
"""

import asyncio

from idioms import Idiom


class Count(Idiom):
    """Each client counts; the last one deletes the key. With a rule, hasp would refuse some of that."""

    noun = "arrived"
    harm_free = True
    begin = ()          # the command that begins the count, without the key; then its arguments
    count = ("INCR",)   # and what counts
    ends = 3            # the reply to the last client

    async def serve(self, shop):
        clients = await shop.pool(0, 3)
        rounds = 0

        async def one_round():
            nonlocal rounds
            rounds += 1
            ends, key, first = [], self.some_key(), rounds % 3
            for client in clients[first:] + clients[:first]:
                if self.begin:
                    await client(self.begin[0], key, *self.begin[1:])
                count = await client(self.count[0], key, *self.count[1:])
                if count == 1 and not self.begin:
                    await client("PEXPIRE", key, 60_000)
                ends.append(count == self.ends)
                await asyncio.sleep(0.001)
            shop.harm["miscounted"] += ends != [False, False, True]
            await clients[(first + 2) % 3]("DEL", key)
            shop.done += 1
        await shop.serve([shop.work(one_round)])


class Ticks(Idiom):
    """At each tick, all instances try to take the lock of a job, and the first one runs it. An instance that
    is refused leaves the job out: if it waited, it would run the job again."""

    instances = 4

    async def serve(self, shop):
        clients = await shop.pool(0, self.instances)
        ticks = 0

        async def tick():
            nonlocal ticks
            ticks += 1
            first, key = ticks % self.instances, self.key(0)
            tries = [asyncio.ensure_future(client("SET", key, 1, "NX", "PX", 10_000))
                     for client in clients[first:] + clients[:first]]
            await asyncio.wait(tries, timeout=0.3)
            runs = 0
            for n, one in enumerate(tries):
                if await one == b"OK":
                    runs += 1
                    await clients[(first + n) % self.instances]("DEL", key)
            shop.harm["repeated"] += runs - 1
            shop.done += 1
        await shop.serve([shop.work(tick, 0.1)])
