# SPDX-License-Identifier: BSD-3-Clause
"""Checks that hasp renews a lock.

A renewal shows as an expiry that rises; a lock that is not renewed must be gone within its lease.
hasp renews after a third of the lease, but on a busy machine perhaps two seconds late.
"""

import time

from . import sections
from .wait import prompt

LEASE_MS = 3000
LEASE = f"{LEASE_MS}ms"


def rule(**settings):
    return sections.rule(**{"lease": LEASE, **settings})


def verbs(**settings):
    return sections.verbs(**{"lease": LEASE, **settings})


# If a busy machine halts a test for this many seconds, it may halt hasp, too, until a lease ends.
HALT = 0.7


def rises(plain, count, *keys):
    """Waits until the expiry of each of `keys` has risen `count` times. Returns false if a key is
    gone."""
    risen, halted = _rises(plain, count, *keys)
    if not risen:
        prompt(halted, HALT)
    return risen


def _rises(plain, count, *keys):
    """Returns (whether the expiries have risen, how many seconds this loop was halted at most)."""
    seen, last = [0] * len(keys), [1 << 60] * len(keys)
    began = looked = time.monotonic()
    halted = 0
    while min(seen) < count:
        halted, looked = max(halted, time.monotonic() - looked), time.monotonic()
        assert looked < began + 60, f"hasp has neither renewed nor released {keys}"
        for n, key in enumerate(keys):
            left = plain.pttl(key)
            if left < 0:
                return False, max(halted, time.monotonic() - looked)
            seen[n] += left > last[n]
            last[n] = left
        time.sleep(0.005)
    return True, halted


def is_renewed(plain, *keys):
    """Waits for two renewals. The simulation shows that hasp goes on renewing for long enough."""
    return rises(plain, 2, *keys)


def runs_out(plain, key):
    """Returns true when the key is gone, or false after a renewal."""
    return not _rises(plain, 1, key)[0]
