# SPDX-License-Identifier: BSD-3-Clause
"""Redis' statistics: calls of commands, connections."""

import pathlib

from .wait import until

SCRIPTS = pathlib.Path(__file__).resolve().parents[3] / "proxy" / "lock" / "scripts" / "scripts.def"


def calls(plain, *commands):
    """Returns how often Redis has run these commands, in total."""
    stats = plain.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {}).get("calls", 0) for command in commands)


def is_waited(plain):
    """Returns true if a WAIT blocks its client. Since Redis 7.2, calls() counts WAIT only when it
    is answered."""
    return plain.info("clients")["blocked_clients"] > 0


def nscripts():
    """Returns how many scripts hasp loads when its own connection is up."""
    return SCRIPTS.read_text().count("\nSCRIPT(")


def is_ready(hasp, plain):
    """Returns hasp, which this test has started, when hasp has loaded its scripts. Until then, a test
    that loses a reply might lose -NOSCRIPT or a reply to SCRIPT LOAD. Redis may have the scripts of
    an earlier hasp, but hasp loads them again."""
    hasp.is_up()
    until(lambda: calls(plain, "script|load") >= nscripts(), "hasp to load its scripts")
    return hasp


def now(plain):
    """Returns Redis' clock, in milliseconds."""
    seconds, microseconds = plain.time()
    return 1000 * seconds + microseconds // 1000


def clients(plain, **fields):
    """Returns the rows of CLIENT LIST with these fields, but for `plain` itself."""
    mine = str(plain.client_id())
    return [c for c in plain.client_list()
            if c["id"] != mine and all(c[name] == value for name, value in fields.items())]


def subscribers(plain):
    return [c for c in clients(plain) if c["sub"] != "0"]
