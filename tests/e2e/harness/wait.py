# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for something to become true, never for time to pass."""

import multiprocessing.connection
import time


# Until a test is given up, however busy the machine is; but less than a lease of 30 s, hasp's
# default, whose end must not be taken for what is waited for.
PATIENCE = 25


class TooSlow(Exception):
    """The machine was too busy for a test to tell: conftest.py runs it again."""


def prompt(seconds, limit):
    """What took so long was told of, not found by looking; or the machine is busy."""
    if seconds > limit:
        raise TooSlow(f"{seconds} s instead of {limit}")


def readable(*sockets, timeout=0):
    """Those that have something to read, or are closed. (select() takes no descriptor beyond 1023.)"""
    return multiprocessing.connection.wait(sockets, timeout)


def until(condition, what, timeout=PATIENCE):
    """Polls `condition` until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout
    pause = 0.001
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(pause)
        pause = min(2 * pause, 0.005)
