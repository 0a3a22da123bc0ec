# SPDX-License-Identifier: BSD-3-Clause
"""What is found among all applications at once: a short run of tests/fuzz/discover.

And the tester finds what it is made to find.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_all_applications_at_once_get_what_each_gets_by_itself_and_nothing_benign_does():
    """On a busy machine an application may give up before it has done what tells of its lock: then all
    run again."""
    for _ in range(4):
        status, output = campaign("discover", "--runs", 1, "--clients", 60)
        if status == 0:
            return
        assert "missing: " in output and "too much: " not in output, output[-4000:]
    pytest.fail(f"it is missing each time:\n{output[-4000:]}", pytrace=False)


@UNTIL_FOUND
def test_tester_finds_a_section_for_what_was_to_be_benign():
    until_found("too much: guard", "discover", "--runs", 1, "--clients", 60, "--benign", "--break", "lost")


@UNTIL_FOUND
def test_tester_finds_a_section_that_is_missing():
    until_found("missing: lock", "discover", "--runs", 1, "--clients", 0, "--break", "missed")
