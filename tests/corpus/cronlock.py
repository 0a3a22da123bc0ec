# SPDX-License-Identifier: BSD-3-Clause
"""cronlock: a host that was shut down keeps a job from running until its lock expires.

https://github.com/kvz/cronlock/pull/11
"""

from mistakes import Abandoned

REPORT = Abandoned(__doc__, by_hand=("lock", "owner = connection", "on_disconnect = release"))
