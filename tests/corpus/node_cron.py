# SPDX-License-Identifier: BSD-3-Clause
"""node-cron: each instance sends the mail of the day. There is no lock that hasp could see.

https://github.com/node-cron/node-cron/issues/93
"""

from idioms import Idiom


class Mails(Idiom):
    noun = "mails"
    due, reach = "line", "no lock is taken"

    async def serve(self, shop):
        sent = set()

        async def replica(n):
            client, day = await shop.connect(n), 0
            while shop.is_open():
                await client("INCR", self.key(0))  # a count of the instances' runs, which is no lock
                shop.harm["sent twice"] += day in sent
                sent.add(day)
                shop.done += 1
                day += 1
                await shop.pause(0.1)
        await shop.serve([replica(n) for n in range(3)])


REPORT = Mails(__doc__)
