# SPDX-License-Identifier: BSD-3-Clause
"""jedis-lock: SETNX of the time of the lock's end, GETSET after that time; a late holder still deletes the lock.

https://github.com/abelaska/jedis-lock/issues/2
"""

from idioms import GetSet

REPORT = GetSet(__doc__, looks=False)
