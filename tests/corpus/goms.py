# SPDX-License-Identifier: BSD-3-Clause
"""GOMS: a refresh token is compared by GET and replaced by SET: two requests at the same time each get a new token.

https://github.com/team-haribo/GOMS-Backend-V3/issues/85
"""

import asyncio

from idioms import Idiom


class Refresh(Idiom):
    noun = "refresh"

    async def serve(self, shop):
        jar = {key: b"first" for key in self.keys()}  # what the tabs of a browser share: its token
        spent = set()
        for key in self.keys():
            shop.redis.set(key, "first")

        async def tab(n):
            client = await shop.connect(n)

            async def refresh():
                key = self.some_key()
                token, new = jar[key], b"%016x" % self.chance.getrandbits(64)
                if await client("GET", key) == token:
                    await asyncio.sleep(0.005)
                    shop.harm["spent twice"] += (key, token) in spent
                    spent.add((key, token))
                await client("SET", key, new, "EX", 600)  # the refresh token, as stored by a refresh or a login
                jar[key] = new
                shop.done += 1
            await shop.work(refresh)
        await shop.serve([tab(n % 2) for n in range(4)])


REPORT = Refresh(__doc__, nkeys=2)
