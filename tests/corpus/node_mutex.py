# SPDX-License-Identifier: BSD-3-Clause
"""node-mutex: each failed try sets the expiry of the lock again, so the lock of a dead process never ends.

https://github.com/rogermadjos/node-mutex/issues/2
"""

from mistakes import Abandoned


class Prolonged(Abandoned):
    async def take(self, client, key, n):
        await client("MULTI")
        await client("SETNX", key, n)
        await client("EXPIRE", key, 2)
        return (await client("EXEC"))[0] == 1


REPORT = Prolonged(__doc__, late=2.5)
