# SPDX-License-Identifier: BSD-3-Clause
"""connect-redis: a slow request saves the session over what a fast one has saved meanwhile.

https://github.com/tj/connect-redis/issues/75
"""

from mistakes import OneConnection

REPORT = OneConnection(__doc__, how="GET SETEX", nkeys=4)
