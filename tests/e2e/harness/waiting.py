# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of waiting."""

from . import sections
from .replies import OK

KEY = "k"


def rule(**settings):
    return sections.rule(**{"wait": "60s", **settings})


def named(connection, name):
    assert connection.call("CLIENT", "SETNAME", name) == OK
    return connection
