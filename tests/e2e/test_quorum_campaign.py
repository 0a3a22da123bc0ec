# SPDX-License-Identifier: BSD-3-Clause
"""Two or three of five servers fail at a time, and no lock has two holders, none is had without a
majority, and renewed ones last: short runs of tests/fuzz/quorum.

And the tester finds two holders where servers that have forgotten all vote at once, or two votes
of five are enough, and locks that are believed in although their time is over.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found
from harness.sanitizers import UNLESS_SANITIZED


@UNLESS_SANITIZED
def test_lock_has_one_holder_while_servers_fail():
    status, output = campaign("quorum", "--seconds", 6)
    assert status == 0, output[-6000:]
    assert " taken" in output and " renewed past the lease" in output


@UNTIL_FOUND
@pytest.mark.parametrize("broken, finding", [
    ("delay", "two holders"), ("majority", "two holders"), ("majority", "no majority"), ("outlived", "outlived"),
])
def test_tester_finds_what_is_broken(broken, finding):
    until_found(f" {finding}!", "quorum", "--seconds", 6, "--break", broken)
