# SPDX-License-Identifier: BSD-3-Clause
"""Chatwoot: two workers get the same webhook. GET finds nothing, the database finds nothing, SETEX: two messages.

https://github.com/chatwoot/chatwoot/pull/13523
"""

from mistakes import Once

REPORT = Once(__doc__, nkeys=60)
