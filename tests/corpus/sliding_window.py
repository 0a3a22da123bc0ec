# SPDX-License-Identifier: BSD-3-Clause
"""A sliding window of Redis' developers: ZCARD, compare, ZADD. Requests at the same time all see room.

https://github.com/raphaeldelio/redis-rate-limiter-java-example/issues/1
"""

import asyncio
import time

from idioms import Idiom


class Window(Idiom):
    noun = "window"

    async def serve(self, shop):
        async def client():
            client, key = await shop.connect(), self.key(0)

            async def request():
                await client("ZREMRANGEBYSCORE", key, 0, time.time() - 0.2)
                if await client("ZCARD", key) < 5:
                    await asyncio.sleep(0.002)
                    await client("ZADD", key, time.time(), self.chance.getrandbits(64))
                    shop.harm["over the limit"] += await client("ZCARD", key) > 5
                    shop.done += 1
            await shop.work(request)
        await shop.serve([client() for _ in range(6)])


REPORT = Window(__doc__, due="line", reach="ZADD writes what ZCARD has not read")
