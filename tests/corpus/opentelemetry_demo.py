# SPDX-License-Identifier: BSD-3-Clause
"""OpenTelemetry's shop: a cart is read and written whole, and the checkout also removes what it has not ordered.

https://github.com/open-telemetry/opentelemetry-demo/issues/3824
"""

import asyncio
import collections

from idioms import NIL, Idiom


class Cart(Idiom):
    noun = "cart"

    async def serve(self, shop):
        added, ordered = set(), collections.Counter()

        async def change(client, key, *items):
            """Adds them to the cart, or empties it. Returns what it had."""
            cart = await client("HGET", key, "items")
            cart = [] if cart is NIL else cart.split()
            await asyncio.sleep(0.005)
            await client("HSET", key, "items", b" ".join((*cart, *items) if items else ()))
            shop.done += 1
            return cart

        async def buyer(n):
            client = await shop.connect()

            async def add():
                item = b"%d-%d" % (n, len(added))
                await change(client, self.some_key(), item)
                added.add(item)
            await shop.work(add)

        async def checkout():
            client = await shop.connect()

            async def order():
                ordered.update(await change(client, self.some_key()))
            await shop.work(order, 0.1)
        await shop.serve([buyer(0), buyer(1), buyer(2), checkout()])
        left = {item for key in self.keys() for item in (shop.redis.hget(key, "items") or "").encode().split()}
        shop.harm["lost"] += len(added - ordered.keys() - left)
        shop.harm["ordered twice"] += sum(n - 1 for n in ordered.values())


REPORT = Cart(__doc__, nkeys=2)
