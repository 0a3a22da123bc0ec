# SPDX-License-Identifier: BSD-3-Clause
"""Seeing that a lock is renewed.

A renewal shows as an expiry that rises; what is not renewed must be gone within its lease.
hasp renews after a third of the lease: on a busy machine it may come two seconds late.
"""

import time

from . import sections

LEASE_MS = 3000
LEASE = f"{LEASE_MS}ms"


def rule(**settings):
    return sections.rule(**{"lease": LEASE, **settings})


def verbs(**settings):
    return sections.verbs(**{"lease": LEASE, **settings})


def rises(plain, count, *keys):
    """Waits until the expiry of each of `keys` has risen `count` times. False: one went."""
    seen, last = [0] * len(keys), [1 << 60] * len(keys)
    deadline = time.monotonic() + 60
    while min(seen) < count:
        assert time.monotonic() < deadline, f"neither renewed nor gone: {keys}"
        for n, key in enumerate(keys):
            left = plain.pttl(key)
            if left < 0:
                return False
            seen[n] += left > last[n]
            last[n] = left
        time.sleep(0.005)
    return True


def is_renewed(plain, *keys):
    """Longer than any lease."""
    return rises(plain, 4, *keys)


def runs_out(plain, key):
    """Without being renewed once."""
    return not rises(plain, 1, key)
