# SPDX-License-Identifier: BSD-3-Clause
"""ask-o11y: each message is appended by GET and SET of the whole chat, over any connection of a pool.

https://github.com/Consensys/ask-o11y-plugin/pull/218
"""

from idioms import Update

REPORT = Update(__doc__, pooled=True, nkeys=2, due="line")
