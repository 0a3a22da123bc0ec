# SPDX-License-Identifier: BSD-3-Clause
"""LoopBack's catalog: an authorization code is looked up among the revoked ones, used, then revoked: two tokens.

https://github.com/sourcefuse/loopback4-microservice-catalog/issues/2504
"""

from mistakes import Once

REPORT = Once(__doc__, nkeys=60, mark=("PX", 60_000))
