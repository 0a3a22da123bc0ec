# SPDX-License-Identifier: BSD-3-Clause
"""Civitai: the lock of a cron job is GET, then SET. Two triggers at once run it twice; DEL removes any lock.

https://github.com/civitai/civitai/pull/2905
"""

from idioms import Look

REPORT = Look(__doc__, look="GET", set="SETEX", by_hand=("guard", "acquire_on = GET", "strategy = check"))
