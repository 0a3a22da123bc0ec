# SPDX-License-Identifier: BSD-3-Clause
"""sidekiq-unique-jobs: a job that ran longer than its lock deletes the lock of another job.

https://github.com/zoolutions/sidekiq-unique-jobs/issues/94
"""

from idioms import Lock

REPORT = Lock(__doc__, take="SET NX EX", mishap="late", nkeys=2, owner="pool", hosts=3)
