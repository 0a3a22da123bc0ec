# SPDX-License-Identifier: BSD-3-Clause
"""Seeing that a lock is renewed.

A renewal shows as an expiry that rises; what is not renewed must be gone within its lease.
hasp renews after a third of the lease: on a busy machine it may come two seconds late.
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


# A machine on which these tests' own loops come to a halt for so long, in seconds, may do the same
# to hasp for the rest of a lease.
HALT = 0.7


def rises(plain, count, *keys):
    """Waits until the expiry of each of `keys` has risen `count` times. False: one went."""
    risen, halted = _rises(plain, count, *keys)
    if not risen:
        prompt(halted, HALT)
    return risen


def _rises(plain, count, *keys):
    """Has it, and for how long was this loop halted?"""
    seen, last = [0] * len(keys), [1 << 60] * len(keys)
    began = looked = time.monotonic()
    halted = 0
    while min(seen) < count:
        halted, looked = max(halted, time.monotonic() - looked), time.monotonic()
        assert looked < began + 60, f"neither renewed nor gone: {keys}"
        for n, key in enumerate(keys):
            left = plain.pttl(key)
            if left < 0:
                return False, max(halted, time.monotonic() - looked)
            seen[n] += left > last[n]
            last[n] = left
        time.sleep(0.005)
    return True, halted


def is_renewed(plain, *keys):
    """And not just once. That it goes on for as long as it should is the simulation's to show."""
    return rises(plain, 2, *keys)


def runs_out(plain, key):
    """Without being renewed once."""
    return not _rises(plain, 1, key)[0]
