# SPDX-License-Identifier: BSD-3-Clause
"""Eventra: the lock of a cached value ends before the value is computed, and a waiter computes it without a lock.

https://github.com/SandeepVashishtha/Eventra/issues/19040
"""

import asyncio

from idioms import COMPARE_AND_DELETE, NIL, Idiom


class Stampede(Idiom):
    async def serve(self, shop):
        async def worker(n):
            client, lock, page = await shop.connect(n), self.key(0), b"page:" + self.key(0)

            async def compute():
                with shop.inside(page, "computed twice"):
                    await asyncio.sleep(0.4)
                    shop.done += 1

            async def request():
                if await client("GET", page) is not NIL:
                    return
                token = b"%016x" % self.chance.getrandbits(64)
                if await client("SET", lock, token, "NX", "PX", 300) == b"OK":
                    await compute()
                    await client("SET", page, "page", "PX", 100)
                    await client("EVAL", COMPARE_AND_DELETE, 1, lock, token)
                    return
                await asyncio.sleep(0.15)
                if await client("GET", page) is NIL:
                    await compute()
            await shop.work(request)
        await shop.serve([worker(n) for n in range(2)])


REPORT = Stampede(__doc__, by_hand=("lock", "owner = value", "renew = yes", "wait = 2s"))
