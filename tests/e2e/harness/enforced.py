# SPDX-License-Identifier: BSD-3-Clause
"""hasp's log about rules, guards and verbs in mode enforce.

    told(hasp, "lock_refused")                    the events, in order
    totals(hasp, "lock=locks")["acquired"]        the current totals of a section
"""

import re

from .observed import events, pairs
from .wait import until


def told(hasp, name):
    return [event for event in events(hasp, name) if "observe" not in event]


def await_told(hasp, name, n=1):
    until(lambda: len(told(hasp, name)) >= n, f"{n} x {name}")
    return told(hasp, name)


def totals(hasp, section):
    """Returns the section's totals, which include all replies that clients have read."""
    hasp.take_turn()
    before = len(hasp.log)
    hasp.signal(10)
    until(lambda: " observed " in hasp.log[before:], "the report")
    lines = [line for line in hasp.log[before:].splitlines() if re.search(f" totals {section} ", line)]
    return pairs(lines[-1]) if lines else None


def name_of(connection):
    """Returns the name by which the log shows the connection."""
    host, port = connection.sock.getsockname()
    return f"{host}:{port}"
