# SPDX-License-Identifier: BSD-3-Clause
"""Twenty: a constant value, and `finally` deletes the lock whoever has it.

https://github.com/twentyhq/twenty/issues/25661
"""

from idioms import Lock

REPORT = Lock(__doc__, mishap="late", nkeys=3, owner="shared", hosts=4, workers=1)
