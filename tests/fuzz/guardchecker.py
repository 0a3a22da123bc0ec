# SPDX-License-Identifier: BSD-3-Clause
"""Judges what tests/fuzz/guards has seen: which updates are in the histories, and which should be."""

import collections
import os
import time

from harness.wait import PATIENCE


def histories(plain):
    found = {}
    for key in plain.scan_iter("*", count=1000):
        if key.startswith((b"mine:", b"ours:", b"checked:")):
            found[key.decode()] = plain.hget(key, "f") if b":hash:" in key else plain.get(key)
    return found


def tell_apart(world, seen, final):
    """The updates that overwrote what was seen."""
    seen, final = seen.split(), final.split()
    common = len(os.path.commonprefix([seen, final]))
    lost, over = ([(name, *world.updates[name][1:]) for name in names[common:common + 1]] for names in (seen, final))
    return f"behind {seen[:common][-1:]} {lost} and {len(seen) - common - 1} more were seen, there is {over}"


def check(world, final):
    written = {}
    for key, history in final.items():
        names = history.split()
        for name, n in collections.Counter(names).items():
            if n > 1:
                world.fault("twice", f"{name} in {key}")
            written.setdefault(name, set()).add(key)
    for key, seen in world.seen.items():
        for history in seen:
            if not final.get(key, b"").startswith(history):
                world.fault("lost", f"{key}: {tell_apart(world, history, final.get(key, b''))}")
    for name, (keys, outcome, whose) in world.updates.items():
        n = len(written.get(name, ()))
        if outcome == "acknowledged" and n < len(keys):
            world.fault("lost", f"{name} of {keys}, which was acknowledged ({whose})")
        elif outcome == "refused" and n:
            world.fault("refused", f"{name} of {keys} was written ({whose})")
        elif 0 < n < len(keys):
            world.fault("torn", f"{name} is in {written[name]} of {keys} ({whose})")


def check_left(world, plain):
    for pattern in ("hasp:guard:*", "hasp:queue:*"):
        for key in plain.scan_iter(pattern, count=1000):
            if plain.pttl(key) == -1:
                world.fault("stays", f"{key} has no expiry")
    since = {}  # key: when it was first seen, and has been there since
    while keys := plain.keys("hasp:guard:*") + plain.keys("hasp:queue:*"):
        at = time.monotonic()
        since = {key: since.get(key, at) for key in keys}
        # (hasp may be at work yet on what clients had sent before they left: those guards go one by one.)
        if stay := [key for key, first in since.items() if at - first > PATIENCE]:
            world.fault("stays", stay)
            return
        time.sleep(0.01)
