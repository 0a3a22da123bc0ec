# SPDX-License-Identifier: BSD-3-Clause
"""Laravel's cache lock: a late holder deletes the lock of the next one.

https://github.com/laravel/framework/issues/26213
"""

from idioms import Lock

REPORT = Lock(__doc__, take="SET NX EX", mishap="late")
