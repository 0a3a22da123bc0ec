# SPDX-License-Identifier: BSD-3-Clause
"""NeuroLink: a conversation is read by LRANGE and replaced by DEL and RPUSH: turns of others are lost.

https://github.com/juspay/neurolink/pull/1292
"""

import asyncio

from idioms import Idiom


class Conversation(Idiom):
    noun = "turns"

    async def serve(self, shop):
        pushed = 0

        async def worker():
            client = await shop.connect()

            async def turn():
                nonlocal pushed
                key = self.some_key()
                turns = await client("LRANGE", key, 0, -1)
                await asyncio.sleep(0.005)
                await client("MULTI")
                await client("DEL", key)
                await client("RPUSH", key, *turns, "turn")
                await client("EXEC")
                pushed += 1
                shop.done += 1
            await shop.work(turn)
        await shop.serve([worker() for _ in range(4)])
        shop.harm["lost"] += pushed - sum(shop.redis.llen(key) for key in self.keys())


REPORT = Conversation(__doc__, nkeys=4, due="line", by_hand=("guard", "acquire_on = LRANGE"))
