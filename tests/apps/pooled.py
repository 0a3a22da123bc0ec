# SPDX-License-Identifier: BSD-3-Clause
"""A service whose client has a connection pool: one connection takes the lock, another lets go.

    REDIS_HOST, REDIS_PORT  where Redis is
    CLIENT_NAME             what the pool's connections call themselves, if anything

It watches its data while it works, which keeps the connection that took the lock
busy, so that the pool gives out another for the DEL. Prints what the DEL was
answered, and the expiry of what it left (-2: nothing).
"""

import os

import redis

LOCK = "lock:pooled"
DATA = "data"
LEASE_MS = 1000


def main():
    pool = redis.ConnectionPool(host=os.environ.get("REDIS_HOST", "127.0.0.1"),
                                port=int(os.environ.get("REDIS_PORT", 6379)),
                                client_name=os.environ.get("CLIENT_NAME"))
    r = redis.Redis(connection_pool=pool)

    acquired = r.set(LOCK, 1, px=LEASE_MS, nx=True)
    with r.pipeline() as transaction:
        transaction.watch(DATA)
        count = int(transaction.get(DATA) or 0)
        released = r.delete(LOCK)
        connections = pool._created_connections  # pylint: disable=protected-access
        transaction.multi()
        transaction.set(DATA, count + 1)
        transaction.execute()

    print(f"connections={connections} acquired={int(bool(acquired))} released={released}"
          f" left_ms={r.pttl(LOCK)}")


if __name__ == "__main__":
    main()
