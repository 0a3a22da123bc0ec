# SPDX-License-Identifier: BSD-3-Clause
"""A primary goes away, or comes back, in one of the ways "failover", "kill" and "freeze"."""

import re

from .wait import until


def leave(sentinels, how):
    """Makes the primary go away. Returns (old, new) when the sentinels name a new primary."""
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
    until(lambda: f"upstream_up address={address} " in hasp.log, "hasp to follow the new primary")


def seconds(lines):
    """Returns the time of the last line, in seconds since the full hour. (The time zones of hasp's
    log and Redis' may differ.)"""
    minutes, rest = re.search(r"\d\d:(\d\d):(\d\d\.\d+)", lines[-1]).groups()
    return int(minutes) * 60 + float(rest)


def announced_ahead(hasp, new):
    """Returns how many seconds before the promotion hasp logged the last announcement of a
    failover."""
    heard = [line for line in hasp.log.splitlines() if "failover_announced " in line]
    promoted = [line for line in new.log.splitlines() if "MASTER MODE enabled" in line]
    return seconds(promoted) - seconds(heard) if heard and promoted else 0
