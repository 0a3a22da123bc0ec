# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for something to become true, never for time to pass."""

import time


def until(condition, what, timeout=10):
    """Polls `condition` until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(0.005)
