# SPDX-License-Identifier: BSD-3-Clause
"""The tester of failovers, tests/fuzz/failover, finds what it is made to find."""

import pytest
from harness.campaigns import UNTIL_FOUND, until_found


@UNTIL_FOUND
@pytest.mark.parametrize("name, finding", [("fixed", " error!"), ("stale", " demoted!")])
def test_tester_finds_a_hasp_whose_upstream_is(name, finding):
    until_found(finding, "failover", "--times", 1, "--kinds", "freeze", "--clients", 20, "--min-replicas", 0, "--ack", 0,
                "--break", name)
