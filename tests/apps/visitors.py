# SPDX-License-Identifier: BSD-3-Clause
"""Visitors of a shop: each looks at pages, counts them, and keeps a basket, over and over.

    REDIS_HOST, REDIS_PORT  where Redis is
    REDIS_CA                the authority that signed its certificate; empty: no TLS
    PREFIX                  prefix of every key
    VISITORS                number of visitors, each with a connection of its own
    OPEN                    a file: the shop is open as long as the file exists

Each visitor has a key for its basket, which must keep what the visitor has put there. INCR counts
the pages, and each visitor must see the count rise. Prints the number of commands, of errors, and
of replies that cannot be true. Only the client library reconnects; it repeats a command during
which the connection was closed, so each command may harmlessly run twice.
"""

import os
import sys
import threading

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

HOST, PORT = os.environ.get("REDIS_HOST", "127.0.0.1"), int(os.environ.get("REDIS_PORT", "6379"))
PREFIX, OPEN = os.environ.get("PREFIX", ""), os.environ["OPEN"]
TLS = {"ssl": True, "ssl_ca_certs": os.environ["REDIS_CA"]} if os.environ.get("REDIS_CA") else {}


class Visitor(threading.Thread):
    def __init__(self, number):
        super().__init__()
        self.redis = redis.Redis(host=HOST, port=PORT, decode_responses=True,
                                 retry=Retry(NoBackoff(), 1), retry_on_error=[redis.ConnectionError], **TLS)
        self.basket = f"{PREFIX}basket:{number}"
        self.commands = self.wrong = self.seen = 0
        self.errors = []

    def look(self, item):
        self.redis.set(self.basket, item)
        self.wrong += self.redis.get(self.basket) != str(item)
        count = self.redis.incr(f"{PREFIX}pages")
        self.wrong += count <= self.seen
        self.seen = count
        self.commands += 3

    def run(self):
        item = 0
        while os.path.exists(OPEN):
            item += 1
            try:
                self.look(item)
            except redis.RedisError as error:
                self.errors.append(f"{type(error).__name__}: {error}")


def main():
    visitors = [Visitor(number) for number in range(int(os.environ.get("VISITORS", "10")))]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join()
    errors = [error for visitor in visitors for error in visitor.errors]
    print(*errors, sep="\n", end="\n" if errors else "", file=sys.stderr)
    print(f"commands={sum(visitor.commands for visitor in visitors)} errors={len(errors)} "
          f"wrong={sum(visitor.wrong for visitor in visitors)}")


main()
