# SPDX-License-Identifier: BSD-3-Clause
"""Magento without session locking: a filter's request saves the session over "add to cart", and the cart is empty.

https://github.com/colinmollenhour/Cm_RedisSession/issues/93
"""

from idioms import Update

REPORT = Update(__doc__, how="HGET HSET", nkeys=4)
