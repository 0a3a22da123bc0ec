# SPDX-License-Identifier: BSD-3-Clause
"""The rate limiter of Redis' own manual: GET, compare, then INCR. Many pass the comparison at once.

https://github.com/redis/redis-doc/issues/777
"""

import asyncio

from idioms import NIL, Idiom


class Limiter(Idiom):
    noun = "rate"
    due, by_hand = "line", ("guard", "acquire_on = GET", "strategy = check")

    async def serve(self, shop):
        async def worker():
            client, key = await shop.connect(), self.key(0)

            async def call():
                current = await client("GET", key)
                if current is not NIL and int(current) >= 10:
                    return
                await asyncio.sleep(0.002)
                await client("MULTI")
                await client("INCR", key)
                await client("EXPIRE", key, 1)
                shop.harm["over the limit"] += (await client("EXEC"))[0] > 10
                shop.done += 1
            await shop.work(call)
        await shop.serve([worker() for _ in range(6)])


REPORT = Limiter(__doc__)
