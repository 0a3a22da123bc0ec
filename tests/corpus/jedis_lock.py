# SPDX-License-Identifier: BSD-3-Clause
"""jedis-lock: SETNX of the time of its end, GETSET when it is over; the late holder deletes it all the same.

https://github.com/abelaska/jedis-lock/issues/2
"""

import asyncio
import time

from idioms import LATE, LEASE_MS, NIL, Idiom


class JedisLock(Idiom):
    due, line = "line", r"GETSET|not proposed|markers"

    async def serve(self, shop):
        async def worker(n):
            client, key = await shop.connect(n % 2), self.key(0)

            async def order():
                mine = b"%f" % (time.time() + LEASE_MS / 1000)
                if await client("SETNX", key, mine) != 1:
                    ends = await client("GET", key)
                    if ends is NIL or float(ends) > time.time() or await client("GETSET", key, mine) != ends:
                        return
                with shop.inside(key):
                    await asyncio.sleep(LATE * LEASE_MS / 1000 if shop.mishap() else 0.02)
                await shop.remove(key, client, "DEL", key)
                shop.done += 1
            await shop.work(order)
        await shop.serve([worker(n) for n in range(4)])


REPORT = JedisLock(__doc__)
