# SPDX-License-Identifier: BSD-3-Clause
"""Redisson of 2014: GET says that the lock is mine, then PSETEX enters it again, over another owner's lock.

https://github.com/redisson/redisson/issues/84
"""

import asyncio

from idioms import COMPARE_AND_DELETE, Idiom


class Reentry(Idiom):
    async def serve(self, shop):
        async def thread(n):
            client, key = await shop.connect(n), self.key(0)

            async def work():
                token = b"%016x" % self.chance.getrandbits(64)
                if await client("SET", key, token, "NX", "PX", 1000) != b"OK":
                    return
                with shop.inside(key):
                    if await client("GET", key) == token:
                        await asyncio.sleep(1.4 if shop.mishap() else 0.01)
                        await client("PSETEX", key, 1000, token)
                    await asyncio.sleep(0.1)
                await client("EVAL", COMPARE_AND_DELETE, 1, key, token)
                shop.done += 1
            await shop.work(work)
        await shop.serve([thread(n) for n in range(3)])


REPORT = Reentry(__doc__)
