# SPDX-License-Identifier: BSD-3-Clause
"""Hangfire.Redis: the lock expires when the waiting jobs give up, and the job that has it goes on.

https://github.com/marcoCasamento/Hangfire.Redis.StackExchange/pull/67
"""

from idioms import Lock

REPORT = Lock(__doc__, value="token", release="script", mishap="late", protects=False)
