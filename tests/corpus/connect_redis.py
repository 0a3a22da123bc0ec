# SPDX-License-Identifier: BSD-3-Clause
"""connect-redis: a slow request saves the session over what a fast one has saved meanwhile.

https://github.com/tj/connect-redis/issues/75
"""

import asyncio

from idioms import Update


class OneConnection(Update):
    """All requests of the process share a connection: a guard belongs to one."""

    due = "line"
    reach = "the requests share a connection"

    async def serve(self, shop):
        client = await shop.connect()
        shop.connect = lambda *_: asyncio.sleep(0, client)
        await super().serve(shop)


REPORT = OneConnection(__doc__, how="GET SETEX", nkeys=4)
