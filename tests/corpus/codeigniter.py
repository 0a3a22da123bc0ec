# SPDX-License-Identifier: BSD-3-Clause
"""CodeIgniter: the lock of a session is TTL, then SETEX if there is none: two requests have it.

https://github.com/bcit-ci/CodeIgniter/issues/6030
"""

from idioms import Look

REPORT = Look(__doc__, look="TTL", set="SETEX", nkeys=2)
