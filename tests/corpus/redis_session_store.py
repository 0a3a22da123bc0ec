# SPDX-License-Identifier: BSD-3-Clause
"""redis-session-store: concurrent requests of a page lose each other's changes of the session.

https://github.com/roidrage/redis-session-store/issues/94
"""

from idioms import Update

REPORT = Update(__doc__, how="GET SETEX", nkeys=6)
