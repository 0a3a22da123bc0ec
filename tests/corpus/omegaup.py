# SPDX-License-Identifier: BSD-3-Clause
"""omegaUp: each request that misses the cache computes the value; one of them may SET it.

https://github.com/omegaup/omegaup/issues/8962
"""

import asyncio

from idioms import NIL, Idiom


class GetOrSet(Idiom):
    noun = "ranks"
    due, reach = "line", "each value is right; only the work is done twice"

    async def serve(self, shop):
        async def worker():
            client = await shop.connect()

            async def request():
                key = self.some_key()
                if await client("GET", key) is NIL:
                    with shop.inside(key, "computed twice"):
                        await asyncio.sleep(0.03)
                    await client("SET", key, "ranks", "NX", "PX", 300)
                shop.done += 1
            await shop.work(request)
        await shop.serve([worker() for _ in range(6)])


REPORT = GetOrSet(__doc__, nkeys=2)
