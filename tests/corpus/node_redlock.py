# SPDX-License-Identifier: BSD-3-Clause
"""node-redlock: acquire([a, b]) and acquire([b, a]) wait for each other.

https://github.com/mike-marcacci/node-redlock/issues/305
"""

from mistakes import OppositeTokens

REPORT = OppositeTokens(__doc__, by_hand=("lock", "owner = value", "wait = 1s"))
