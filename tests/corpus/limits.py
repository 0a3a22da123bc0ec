# SPDX-License-Identifier: BSD-3-Clause
"""limits: INCR, then EXPIRE; a crash between them leaves a count that never expires.

https://github.com/alisaifee/limits/issues/14
"""

from idioms import Idiom


class Limits(Idiom):
    noun = "rate"
    due, reach = "line", "a counter, not a lock: SET ... EX NX first"

    async def serve(self, shop):
        async def worker():
            client = await shop.connect()
            while shop.is_open():
                key = self.some_key()
                if await client("INCR", key) == 1:
                    if shop.mishap():
                        client.close()
                        client = await shop.connect()
                        continue
                    await client("EXPIRE", key, 1)
                shop.done += 1
                await shop.pause()
        await shop.serve([worker() for _ in range(3)])
        for key in self.keys():
            shop.harm["stuck"] += shop.redis.ttl(key) == -1


REPORT = Limits(__doc__, nkeys=20)
