# SPDX-License-Identifier: BSD-3-Clause
"""A booking service: the key of the lock has the user's name in it, so no two users wait for each other.

https://github.com/hoangdaochuz/booking/issues/27
"""

import asyncio

from idioms import Idiom


class Seats(Idiom):
    reach = "each user locks another key"

    async def serve(self, shop):
        sold = set()

        async def user(n):
            client = await shop.connect(n % 2)

            async def book():
                key = self.key(n)
                if await client("SET", key, n, "NX", "EX", 10) != b"OK":
                    return
                seat = len(sold)  # the next one that the database calls free
                await asyncio.sleep(0.005)
                shop.harm["sold twice"] += seat in sold
                sold.add(seat)
                await client("DEL", key)
                shop.done += 1
            await shop.work(book)
        await shop.serve([user(n) for n in range(4)])


REPORT = Seats(__doc__, nkeys=4)
