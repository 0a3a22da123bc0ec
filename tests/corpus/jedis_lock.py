# SPDX-License-Identifier: BSD-3-Clause
"""jedis-lock: SETNX of the time of its end, GETSET when it is over; the late holder deletes it all the same.

https://github.com/abelaska/jedis-lock/issues/2
"""

from idioms import GetSet

REPORT = GetSet(__doc__, looks=False)
