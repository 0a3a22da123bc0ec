# SPDX-License-Identifier: BSD-3-Clause
"""redis-semaphore: GETSET says whether others are inside, then EXPIRE. A killed process leaves the lock for good.

https://github.com/bluele/redis-semaphore/pull/12
"""

from idioms import NIL
from mistakes import Abandoned


class GetSetLock(Abandoned):
    async def take(self, client, key, n):
        return await client("GETSET", key, "ok") is NIL


REPORT = GetSetLock(__doc__, late=None, due="question")
