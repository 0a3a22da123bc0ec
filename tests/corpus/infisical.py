# SPDX-License-Identifier: BSD-3-Clause
"""Infisical: jobs count themselves by GET and SETEX. The count drifts until no job may start.

https://github.com/Infisical/infisical/pull/6287
"""

import asyncio

from idioms import NIL, Idiom

WORKERS = 6


class Jobs(Idiom):
    noun = "running"

    async def serve(self, shop):
        async def count(client, key, by):
            reply = await client("GET", key)
            number = 0 if reply is NIL else int(reply)
            shop.harm["drift"] += not 0 <= number <= WORKERS
            await asyncio.sleep(0.003)
            await client("SETEX", key, 600, number + by)

        async def worker():
            client = await shop.connect()

            async def job():
                key = self.some_key()
                await count(client, key, 1)
                await asyncio.sleep(0.01)
                await count(client, key, -1)
                shop.done += 1
            await shop.work(job)
        await shop.serve([worker() for _ in range(WORKERS)])
        shop.harm["drift"] += sum(abs(int(shop.redis.get(key) or 0)) for key in self.keys())


REPORT = Jobs(__doc__, nkeys=2)
