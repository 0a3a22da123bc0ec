# SPDX-License-Identifier: BSD-3-Clause
"""grape-idempotency: the second request finds no answer yet, and is performed, too.

https://github.com/jcagarcia/grape-idempotency/issues/10
"""

import asyncio

from idioms import NIL, Idiom


class Idempotency(Idiom):
    noun = "answer"
    due, reach = "line", "SET NX writes what GET has not read"

    async def serve(self, shop):
        performed = set()

        async def worker():
            client = await shop.connect()
            for n in range(self.nkeys):
                await asyncio.sleep(self.chance.random() * 0.01)
                if await client("GET", self.key(n)) is NIL:
                    await asyncio.sleep(0.01)
                    shop.harm["performed twice"] += n in performed
                    performed.add(n)
                    await client("SET", self.key(n), "answer", "NX", "EX", 60)
                shop.done += 1
        await shop.serve([worker() for _ in range(4)])


REPORT = Idempotency(__doc__, nkeys=60)
