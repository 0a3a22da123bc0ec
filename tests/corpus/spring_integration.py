# SPDX-License-Identifier: BSD-3-Clause
"""Spring Integration: unlock() compares by GET, then deletes. In between, another owner may get the lock.

https://github.com/spring-projects/spring-integration/issues/8699
"""

import asyncio

from idioms import Lock


class Paused(Lock):
    """Now and then, a garbage collection pauses the client between GET and DEL."""

    async def let_go(self, shop, client, key, token):
        if await client("GET", key) == token:
            if shop.mishap(4):
                await asyncio.sleep(1.2 * self.lease_ms / 1000)
            await shop.remove(key, client, "DEL", key)


REPORT = Paused(__doc__, take="EVAL", value="token", release="GET DEL", work=0.15, protects=False,
                by_hand=("lock", "owner = value", "renew = yes"))
