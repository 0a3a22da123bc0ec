# SPDX-License-Identifier: BSD-3-Clause
"""idempot-js: SETEX overwrites the record of a request that is being processed.

https://github.com/idempot-dev/idempot-js/issues/182
"""

import asyncio

from idioms import NIL, Idiom


class Record(Idiom):
    noun = "record"
    due, reach = "line", "a record, not a lock: SET NX at once"

    async def serve(self, shop):
        async def worker():
            client = await shop.connect()
            for n in range(self.nkeys):
                key = self.key(n)
                await asyncio.sleep(self.chance.random() * 0.01)
                if await client("GET", key) is not NIL:
                    continue
                await client("SETEX", key, 60, "processing")
                with shop.inside(key, "processed twice"):
                    await asyncio.sleep(0.01)
                await client("SETEX", key, 60, "complete")
                shop.done += 1
        await shop.serve([worker() for _ in range(5)])


REPORT = Record(__doc__, nkeys=60)
