# SPDX-License-Identifier: BSD-3-Clause
"""Waiting for a condition, never for time to pass."""

import math
import select
import time

# Seconds until a test gives up on a busy machine; less than hasp's default lease of 30 s, whose end
# must not be mistaken for the awaited event.
PATIENCE = 25


class TooSlow(Exception):
    """The machine was too busy for the test to decide: conftest.py runs the test again."""


def prompt(seconds, limit):
    """Raises TooSlow if an event took more than `limit` seconds: a check of hasp may have caused
    it, instead of a message."""
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


def until(condition, what, timeout=PATIENCE, rest=1):
    """Polls `condition` until it returns something true, and returns that. After a check that
    takes long, until() rests `rest` times as long, so that it does not use up a busy machine."""
    begin = time.monotonic()
    pause = 0.001
    while True:
        asked = time.monotonic()
        result = condition()
        if result:
            return result
        now = time.monotonic()
        waited = now - begin
        if waited > timeout:
            raise TimeoutError(f"waited {timeout} s for {what}")
        time.sleep(max(pause, min(0.1, rest * (now - asked))))
        pause = min(2 * pause, 0.005 + waited / 100)  # a long wait needs fewer checks
