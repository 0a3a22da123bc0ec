# SPDX-License-Identifier: BSD-3-Clause
"""celerybeatredis: the lock of the scheduler never expires. When its process is killed, no other one starts.

https://github.com/kongluoxing/celerybeatredis/issues/11
"""

from mistakes import Abandoned


class Forever(Abandoned):
    async def take(self, client, key, n):
        return await client("SETNX", key, n) == 1


REPORT = Forever(__doc__, late=None)
