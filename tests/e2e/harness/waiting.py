# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of waiting share.

A waiter is seen in the queue, which is in Redis. hasp probes a lock that is waited for every
second: what is to be noticed without that look is done right after somebody began to wait, and
is told in half of that, unless the machine is busy.
"""

import time

from . import sections
from .replies import OK
from .wait import TooSlow

KEY = "k"
AT_ONCE = 0.5


def rule(**settings):
    return sections.rule(**{"wait": "20s", **settings})


def soon(connection):
    """What it reads next, and that without hasp having looked at the lock by itself."""
    began = time.monotonic()
    reply = connection.read()
    if time.monotonic() - began > AT_ONCE:
        raise TooSlow("hasp may have looked at the lock by itself")
    return reply


def named(connection, name):
    assert connection.call("CLIENT", "SETNAME", name) == OK
    return connection
