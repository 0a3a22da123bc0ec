# SPDX-License-Identifier: BSD-3-Clause
"""gocron: the scheduler does not look whether it got the lock: all instances run the job.

https://github.com/jasonlvhit/gocron/issues/160
"""

import asyncio

from idioms import Idiom


class GoCron(Idiom):
    reach = "the application does not look at the answer"

    async def serve(self, shop):
        async def worker(n):
            client, key = await shop.connect(n), self.key(0)

            async def tick():
                await client("SET", key, "1", "NX", "EX", 10)
                with shop.inside(key):
                    await asyncio.sleep(0.02)
                await shop.remove(key, client, "DEL", key)
                shop.done += 1
            await shop.work(tick, 0.1)
        await shop.serve([worker(n) for n in range(4)])


REPORT = GoCron(__doc__)
