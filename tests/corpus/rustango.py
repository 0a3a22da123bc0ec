# SPDX-License-Identifier: BSD-3-Clause
"""rustango: INCR is the lock and another key has the token. A crash between the two leaves a counter without a token.

https://github.com/ujeenet/rustango/issues/1254
"""

from mistakes import Abandoned


class Counter(Abandoned):
    async def take(self, client, key, n):
        count = await client("INCR", key)
        if count == 1:
            await client("EXPIRE", key, 2)
        return count == 1


REPORT = Counter(__doc__, reach="a failed INCR counts up, too, so only the expiry frees the lock")
