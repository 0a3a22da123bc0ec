# SPDX-License-Identifier: BSD-3-Clause
"""Sections of hasp's file.

    start_hasp(rule(lease="5s") + verbs(reentrant="no"))
"""


def section(name, settings):
    return "\n".join([f"[{name}]", *(f"{option} = {value}" for option, value in settings.items()), ""])


def rule(name="locks", **settings):
    """Returns a [lock] section for lock:*, or for `pattern`."""
    return section(f"lock {name}", {"pattern": "lock:*", **settings})


def verbs(**settings):
    return section("verbs", settings)


VERBS = verbs()
