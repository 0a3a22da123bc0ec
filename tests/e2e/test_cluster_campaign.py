# SPDX-License-Identifier: BSD-3-Clause
"""The tester of clusters, tests/fuzz/cluster, finds what it is made to find."""

from harness.campaigns import UNTIL_FOUND, until_found


@UNTIL_FOUND
def test_tester_finds_that_no_hasp_is_there():
    until_found(" redirected!", "cluster", "--seconds", 3, "--clients", 10, "--kinds", "migrate", "--break", "direct")
