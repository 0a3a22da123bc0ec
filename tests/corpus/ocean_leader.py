# SPDX-License-Identifier: BSD-3-Clause
"""Ocean: the leader compares by GET, then prolongs its key by PEXPIRE: by then another pod may lead.

https://github.com/port-labs/ocean/pull/3440
"""

import asyncio

from idioms import Idiom


class Ocean(Idiom):
    due, line = "line", r"as leaders do"

    async def serve(self, shop):
        async def pod(n):
            client, key = await shop.connect(n), self.key(0)
            while shop.is_open():
                if await client("SET", key, n, "NX", "PX", 400) == b"OK":
                    with shop.inside(key, "two leaders"):
                        while shop.is_open():
                            await asyncio.sleep(0.1)
                            if await client("GET", key) != b"%d" % n:
                                break
                            if shop.mishap(8):
                                await asyncio.sleep(0.6)
                            await client("PEXPIRE", key, 400)
                            shop.done += 1
                await asyncio.sleep(0.05)
        await shop.serve([pod(n) for n in range(3)])


REPORT = Ocean(__doc__, by_hand=("lock", "renew = yes"))
