# SPDX-License-Identifier: BSD-3-Clause
"""Nobody has a part of the locks of an MLOCK, is overtaken, or leaves anything, whatever dies: short
runs of tests/fuzz/several.

And the tester finds what it is made to find.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found
from harness.marks import LAYOUTS
from harness.sanitizers import UNLESS_SANITIZED


@UNLESS_SANITIZED
@LAYOUTS
def test_all_locks_are_taken_or_none(reentrant):
    status, output = campaign("several", "--seconds", 5, "--layout", reentrant)
    assert status == 0, output[-6000:]
    assert " taken" in output


@UNTIL_FOUND
@pytest.mark.parametrize("broken, finds", [
    ("keep", " part!"), ("held", " two owners!"), ("last", " overtaken!"), ("front", " overtaken!"),
    ("fence", " token!")])
def test_tester_finds_what_is_broken(broken, finds):
    until_found(finds, "several", "--seconds", 1, "--break", broken)
