# SPDX-License-Identifier: BSD-3-Clause
"""gocraft/work: a job's slots are counted by INCR and DECR; a crash takes a slot for good.

https://github.com/gocraft/work/issues/231
"""

import asyncio

from idioms import NIL, Idiom


class Slots(Idiom):
    noun = "slots"
    due, reach = "line", "a semaphore of INCR and DECR; LOCK ... LIMIT of [verbs] is one"

    async def serve(self, shop):
        crashed = 0

        async def worker(n):
            nonlocal crashed
            client, key = await shop.connect(), self.key(0)
            while shop.is_open():
                running = await client("GET", key)
                if running is NIL or int(running) < 3:
                    await client("INCR", key)
                    await asyncio.sleep(0.02)
                    if n < 2 and shop.mishap():
                        client.close()
                        client, crashed = await shop.connect(), crashed + 1
                    else:
                        await client("DECR", key)
                    shop.done += 1
                await asyncio.sleep(0.02)
        await shop.serve([worker(n) for n in range(6)])
        shop.harm["slots lost"] += int(shop.redis.get(self.key(0)) or 0)


REPORT = Slots(__doc__)
