# SPDX-License-Identifier: BSD-3-Clause
"""grape-idempotency: the second request finds no answer yet, and is performed, too.

https://github.com/jcagarcia/grape-idempotency/issues/10
"""

from mistakes import Once

REPORT = Once(__doc__, nkeys=60, mark=("NX", "EX", 60), reach="SET NX writes what GET has not read")
