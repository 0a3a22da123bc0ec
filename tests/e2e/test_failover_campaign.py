# SPDX-License-Identifier: BSD-3-Clause
"""At a failover, clients notice only a delay: a short run of tests/fuzz/failover.

The campaign also finds each planted defect.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found


def test_clients_notice_a_delay():
    status, output = campaign("failover", "--times", 1, "--clients", 15)
    assert status == 0, output[-6000:]


@UNTIL_FOUND
@pytest.mark.parametrize("name, finding", [("fixed", " error!"), ("stale", " demoted!")])
def test_tester_finds_a_hasp_whose_upstream_is(name, finding):
    until_found(finding, "failover", "--times", 1, "--kinds", "freeze", "--clients", 20, "--min-replicas", 0, "--ack", 0,
                "--break", name)
