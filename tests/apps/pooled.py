# SPDX-License-Identifier: BSD-3-Clause
"""A service with a connection pool: one connection takes the lock, another one releases it.

    REDIS_HOST, REDIS_PORT  where Redis is
    CLIENT_NAME             the name of the pool's connections, if any

While the service works, it watches its data, which keeps the connection that took the lock busy; so
the pool uses another connection for DEL. Prints the reply to DEL, and the lock's expiry after it
(-2: the lock is gone).
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
