# SPDX-License-Identifier: BSD-3-Clause
"""Reinhardt: any worker can release the lock of a task, which is SET NX EX of "1".

https://github.com/kent8192/reinhardt-web/issues/740
"""

from idioms import Lock

REPORT = Lock(__doc__, take="SET NX EX", mishap="steal", retries=False, protects=False)
