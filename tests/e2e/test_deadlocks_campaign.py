# SPDX-License-Identifier: BSD-3-Clause
"""Each circle of waiting owners is told, to one of them, and nothing else is: a short run of
tests/fuzz/deadlocks.

And the tester finds those that are missed. (`--break waiters` makes false alarms, which take longer.)
"""

from harness.campaigns import UNTIL_FOUND, campaign, until_found
from harness.sanitizers import UNLESS_SANITIZED


@UNLESS_SANITIZED
def test_each_circle_is_told_once_and_nothing_else():
    status, output = campaign("deadlocks", "--seconds", 4)
    assert status == 0, output[-6000:]
    assert "circles of 2" in output


@UNTIL_FOUND
def test_tester_finds_deadlocks_that_are_missed():
    until_found(" missed!", "deadlocks", "--seconds", 1, "--break", "nobody")
