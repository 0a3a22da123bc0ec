# SPDX-License-Identifier: BSD-3-Clause
"""Nexspence: each lock has a UUID as its value, and nothing ever reads it: Release is DEL.

https://github.com/nexspence/nexspence/issues/223
"""

from idioms import Lock

REPORT = Lock(__doc__, take="SET NX EX", value="token", mishap="late", protects=False, hosts=3, workers=1)
