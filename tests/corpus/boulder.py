# SPDX-License-Identifier: BSD-3-Clause
"""Boulder: rate limits read a time, add the cost and SET it. A flood of requests is counted once.

https://github.com/letsencrypt/boulder/issues/7780
"""

from idioms import Update

REPORT = Update(__doc__, how="GET SETEX", nkeys=2, think=0.002, workers=8)
