# SPDX-License-Identifier: BSD-3-Clause
"""Horizon's lock: SETNX, then EXPIRE. A process that dies between them leaves a lock for good.

https://github.com/laravel/horizon/issues/1738
"""

from idioms import Lock

REPORT = Lock(__doc__, take="SETNX", mishap="bare", nkeys=4, protects=False)
