# SPDX-License-Identifier: BSD-3-Clause
"""redis-mutex: a method that has the lock calls another one that takes it, too, and waits until it expires.

https://github.com/kenn/redis-mutex/issues/39
"""

import asyncio
import time

from idioms import Idiom


class Nested(Idiom):
    async def serve(self, shop):
        async def lock(client, key):
            while await client("SET", key, "1", "NX", "PX", 1000) != b"OK":
                await asyncio.sleep(0.02)

        async def worker():
            client = await shop.connect()

            async def outer():
                key = self.some_key()
                await lock(client, key)
                since = time.monotonic()
                await lock(client, key)
                shop.harm["waited for itself"] += time.monotonic() - since > 0.5
                await client("DEL", key)
                shop.done += 1
            await shop.work(outer)
        await shop.serve([worker()])


REPORT = Nested(__doc__, nkeys=3, by_hand=("lock", "reentrant = refresh"))
