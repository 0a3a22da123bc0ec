# SPDX-License-Identifier: BSD-3-Clause
"""aioredis: tasks WATCH, GET, and send MULTI, SET, EXEC over one connection: EXEC sees no other's write.

https://github.com/aio-libs-abandoned/aioredis-py/issues/995
"""

import asyncio

from idioms import NIL
from mistakes import OneConnection


class Watched(OneConnection):
    async def update(self, reader, writer, key):
        await reader("WATCH", key)
        number = await reader("GET", key)
        await asyncio.sleep(self.think)
        number = 1 if number is NIL else int(number) + 1
        replies = await asyncio.gather(reader("MULTI"), reader("SET", key, number), reader("EXEC"))
        return replies[2] == [b"OK"]


REPORT = Watched(__doc__)
