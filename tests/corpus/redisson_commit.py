# SPDX-License-Identifier: BSD-3-Clause
"""Redisson in @Transactional: unlock() comes before the database commits, and the next owner reads the old row.

https://github.com/redisson/redisson/issues/2183
"""

import asyncio

from idioms import Idiom


class Commit(Idiom):
    reach = "the database commits after the release"

    async def serve(self, shop):
        row = orders = 0

        async def worker():
            client, key = await shop.connect(), self.key(0)

            async def order():
                nonlocal row, orders
                if await client("SET", key, "1", "NX", "EX", 10) != b"OK":
                    return
                new = row + 1
                await client("DEL", key)
                await asyncio.sleep(0.01)
                row, orders = new, orders + 1
                shop.done += 1
            await shop.work(order)
        await shop.serve([worker() for _ in range(4)])
        shop.harm["stale rows"] += orders - row


REPORT = Commit(__doc__)
