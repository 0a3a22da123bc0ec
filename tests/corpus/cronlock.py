# SPDX-License-Identifier: BSD-3-Clause
"""cronlock: a host that was shut down keeps a job from running until its lock expires.

https://github.com/kvz/cronlock/pull/11
"""

import asyncio

from idioms import Idiom


class CronLock(Idiom):
    due, line = "line", r"markers, not locks, or every holder died|expired without a release"

    async def serve(self, shop):
        async def worker(n):
            client, key = await shop.connect(n), self.key(0)
            while shop.is_open():
                if await client("SET", key, n, "NX", "PX", 2000) != b"OK":
                    shop.harm["kept out"] += not shop.holders[key]
                else:
                    with shop.inside(key):
                        await asyncio.sleep(0.02)
                    if shop.mishap(3):
                        client.close()
                        client = await shop.connect(n)
                    else:
                        await client("DEL", key)
                    shop.done += 1
                await asyncio.sleep(0.1)
        await shop.serve([worker(n) for n in range(3)])


REPORT = CronLock(__doc__)
