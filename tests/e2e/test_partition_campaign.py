# SPDX-License-Identifier: BSD-3-Clause
"""No client waits for ever for a server that is gone: short runs of tests/fuzz/partition.

The campaign also finds each planted defect.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found


AT_NIGHT = pytest.mark.nightly


@pytest.mark.parametrize("topology, kinds", [
    ("one", "frozen,killed"), pytest.param("sentinel", "frozen", marks=AT_NIGHT), pytest.param("one", "cut", marks=AT_NIGHT),
    pytest.param("sentinel", "cut", marks=AT_NIGHT), pytest.param("cluster", "isolated", marks=AT_NIGHT)])
def test_nothing_hangs(topology, kinds):
    status, output = campaign("partition", "--topology", topology, "--kinds", kinds)
    assert status == 0, output[-4000:]


@UNTIL_FOUND
def test_tester_finds_patience():
    until_found("FAULT hung: ", "partition", "--topology", "one", "--kinds", "cut", "--break", "patience")
