# SPDX-License-Identifier: BSD-3-Clause
"""A primary goes away, or comes back, in one of the ways "failover", "kill" and "freeze"."""

from .wait import until


def leave(sentinels, how):
    """The primary goes away. Returns (old, new), when the sentinels name a new one."""
    if how == "failover":
        return sentinels.failover()
    old = sentinels.until_stable()
    {"kill": old.kill, "freeze": old.freeze}[how]()
    return old, sentinels.until_moved_from(old)


def come_back(sentinels, old, how):
    {"kill": old.start, "freeze": old.thaw, "failover": lambda: None}[how]()
    return sentinels.until_stable()


def until_followed(hasp, new):
    address = "%s:%d" % new.address
    until(lambda: f"upstream_up address={address} " in hasp.log, "hasp to follow")
