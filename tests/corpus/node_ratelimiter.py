# SPDX-License-Identifier: BSD-3-Clause
"""node-ratelimiter: two requests read the count, and both write one more.

https://github.com/tj/node-ratelimiter/issues/6
"""

from idioms import Update

REPORT = Update(__doc__, nkeys=3)
