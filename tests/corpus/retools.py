# SPDX-License-Identifier: BSD-3-Clause
"""retools: the value is when the lock ends by the clock of its holder. A client whose clock is ahead takes the lock.

https://github.com/bbangert/retools/issues/18
"""

from idioms import GetSet

REPORT = GetSet(__doc__, ahead=2, hosts=4)
