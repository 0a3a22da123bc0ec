# SPDX-License-Identifier: BSD-3-Clause
"""ots: a secret is read by GET and then deleted: two readers get it.

https://github.com/Luzifer/ots/issues/207
"""

import asyncio
import collections

from idioms import NIL, Idiom, Refused


class Secret(Idiom):
    noun = "secret"
    due, by_hand = "line", ("guard", "acquire_on = GET", "strategy = check")

    async def serve(self, shop):
        read = collections.Counter()
        for key in self.keys():
            shop.redis.set(key, "secret")

        async def worker():
            client = await shop.connect()
            for n in range(self.nkeys):
                await asyncio.sleep(self.chance.random() * 0.005)
                try:
                    if await client("GET", self.key(n)) is not NIL:
                        await client("DEL", self.key(n))
                        read[n] += 1
                        shop.done += 1
                except Refused as error:
                    shop.errors[str(error)] += 1
        await shop.serve([worker() for _ in range(4)])
        shop.harm["read twice"] += sum(n - 1 for n in read.values())


REPORT = Secret(__doc__, nkeys=100)
