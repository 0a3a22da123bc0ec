# SPDX-License-Identifier: BSD-3-Clause
"""Medusa: two workflows take two locks in opposite order, and each gives up.

https://github.com/medusajs/medusa/issues/16285
"""

from mistakes import Opposite

REPORT = Opposite(__doc__)
