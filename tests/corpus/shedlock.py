# SPDX-License-Identifier: BSD-3-Clause
"""ShedLock: setNX, then pExpire. If that fails, the scheduled task never runs again.

https://github.com/lukas-krecan/ShedLock/issues/65
"""

from idioms import Lock

REPORT = Lock(__doc__, take="SETNX", mishap="bare", nkeys=2, retries=False, protects=False, hosts=3, workers=1)
