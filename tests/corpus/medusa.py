# SPDX-License-Identifier: BSD-3-Clause
"""Medusa: two workflows take two locks in opposite order, and each gives up.

https://github.com/medusajs/medusa/issues/16285
"""

import asyncio
import time

from idioms import Idiom


class Medusa(Idiom):
    async def serve(self, shop):
        async def take(client, key):
            until = time.monotonic() + 0.5
            while await client("SET", key, "1", "NX", "EX", 10) != b"OK":
                if time.monotonic() > until:
                    return False
                await asyncio.sleep(0.01)
            return True

        async def workflow(keys):
            client = await shop.connect()

            async def run():
                has = []
                try:
                    for key in keys:
                        if not await take(client, key):
                            shop.harm["gave up"] += 1
                            return
                        has.append(key)
                        await asyncio.sleep(0.01)
                    shop.done += 1
                finally:
                    for key in has:
                        await client("DEL", key)
            await shop.work(run)
        await shop.serve([workflow(self.keys()), workflow(self.keys()[::-1])])


REPORT = Medusa(__doc__, nkeys=2)
