# SPDX-License-Identifier: BSD-3-Clause
"""Artemis: the owner sustains its lock by SET, even if it was starved and another owner has the lock.

https://github.com/CERT-Polska/Artemis/pull/2670
"""

import asyncio
import uuid

from idioms import Idiom


class Artemis(Idiom):
    async def serve(self, shop):
        async def worker(n):
            client, key = await shop.connect(n % 2), self.key(0)

            async def scan():
                mine = str(uuid.UUID(int=self.chance.getrandbits(128)))
                if await client("SET", key, mine, "EX", 1, "NX") != b"OK":
                    return
                starved = shop.mishap(4)
                with shop.inside(key):
                    for _ in range(3):
                        await asyncio.sleep(1.3 if starved else 0.02)
                        starved = False
                        await client("SET", key, mine, "EX", 1)
                await shop.remove(key, client, "DEL", key)
                shop.done += 1
            await shop.work(scan)
        await shop.serve([worker(n) for n in range(4)])


REPORT = Artemis(__doc__)
