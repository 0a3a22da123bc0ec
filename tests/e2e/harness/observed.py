# SPDX-License-Identifier: BSD-3-Clause
"""hasp's log about rules in mode observe.

    observed(hasp, "guard=stock")["lost_updates"]                  the rule's current totals
    observed(hasp, "guard=stock", key="stock:7")["lost_updates"]   those of one key
    events(hasp, "lost_update")                                    the events, in order
"""

import re
import signal

from .wait import until

PAIR = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')


def pairs(line):
    """Returns the line's key=value pairs, with numbers as int."""
    found = {name: value.strip('"') for name, value in PAIR.findall(line)}
    return {name: int(value) if re.fullmatch(r"-?\d+", value) else value for name, value in found.items()}


def report(hasp):
    """Returns the lines of a new report, which covers all replies that clients have read. With
    several workers, ask again: only one of them counts the replies to EXEC."""
    hasp.take_turn()
    before = len(hasp.log)
    hasp.signal(signal.SIGUSR1)
    marker = "observed "
    until(lambda: marker in hasp.log[before:], "the report")
    # hasp handles signals in order, so when it logs the reload, the report is complete.
    hasp.signal(signal.SIGHUP)
    until(lambda: " reload" in hasp.log[before:], "the report to be complete")
    return [line for line in hasp.log[before:].splitlines() if " observed " in line]


def lines_of(lines, rule, key=None):
    found = [pairs(line) for line in lines if re.search(f" observed {rule} (reads|taken|key)=", line)]
    return [line for line in found if line.get("key") == key]


def observed(hasp, rule, key=None):
    (line,) = lines_of(report(hasp), rule, key)
    return line


def events(hasp, name):
    hasp.take_turn()
    return [pairs(line) for line in hasp.log.splitlines() if f" event={name} " in line]
