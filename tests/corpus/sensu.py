# SPDX-License-Identifier: BSD-3-Clause
"""Sensu: the leader writes the time without looking. A leader that was blocked goes on beside its successor.

https://github.com/sensu/sensu/pull/1017
"""

import asyncio
import time

from idioms import NIL, Idiom


class Sensu(Idiom):
    noun = "leader"

    async def serve(self, shop):
        async def is_elected(client, key):
            if await client("SETNX", key, time.time()) == 1:
                return True
            since = await client("GET", key)
            return since is not NIL and time.time() - float(since) > 0.5 and \
                await client("GETSET", key, time.time()) == since

        async def server(n):
            client, key = await shop.connect(n), self.key(0)

            async def term():
                if await is_elected(client, key):
                    with shop.inside(key, "two leaders"):
                        for _ in range(8):
                            await asyncio.sleep(1 if shop.mishap(8) else 0.1)
                            await client("SET", key, time.time())
                            shop.done += 1
                    await client("DEL", key)
            await shop.work(term, 0.05)
        await shop.serve([server(n) for n in range(3)])


REPORT = Sensu(__doc__)
