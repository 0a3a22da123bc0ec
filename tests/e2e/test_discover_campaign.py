# SPDX-License-Identifier: BSD-3-Clause
"""What is found among all applications at once: a short run of tests/fuzz/discover.

And the tester finds what it is made to find.
"""

from harness.campaigns import UNTIL_FOUND, campaign, until_found


def test_all_applications_at_once_get_what_each_gets_by_itself_and_nothing_benign_does():
    status, output = campaign("discover", "--runs", 1, "--clients", 60)
    assert status == 0, output[-4000:]


@UNTIL_FOUND
def test_tester_finds_a_section_for_what_was_to_be_benign():
    until_found("too much: guard", "discover", "--runs", 1, "--clients", 60, "--benign", "--break", "lost")


@UNTIL_FOUND
def test_tester_finds_a_section_that_is_missing():
    until_found("missing: lock", "discover", "--runs", 1, "--clients", 0, "--break", "missed")
