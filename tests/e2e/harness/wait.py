# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for something to become true, never for time to pass."""

import math
import select
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
    """Returns the sockets that have something to read, or are closed."""
    return ready(sockets, timeout=timeout)


def ready(readers=(), writers=(), timeout=0):
    """Returns the readers that have something to read, and the writers that take more, or are
    closed. `timeout` is in seconds. (select() takes no descriptor beyond 1,023.)"""
    events = {}
    for sockets, event in (readers, select.POLLIN), (writers, select.POLLOUT):
        for one in sockets:
            events[one] = events.get(one, 0) | event
    poll = select.poll()
    for one, event in events.items():
        poll.register(one, event)
    found = {fd for fd, _ in poll.poll(math.ceil(timeout * 1000))}
    return [one for one in events if one.fileno() in found]


def until(condition, what, timeout=PATIENCE):
    """Polls `condition` until it returns something true, and returns that."""
    begin = time.monotonic()
    pause = 0.001
    while True:
        result = condition()
        if result:
            return result
        waited = time.monotonic() - begin
        if waited > timeout:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(pause)
        pause = min(2 * pause, 0.005 + waited / 100)  # a long wait need not look so often
