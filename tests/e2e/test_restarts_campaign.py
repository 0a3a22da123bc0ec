# SPDX-License-Identifier: BSD-3-Clause
"""Clients do not notice ten upgrades and ten restarts under load: a run of tests/fuzz/restarts.

The campaign also finds each planted defect.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found


@pytest.mark.parametrize("way", ["upgrade", "activation"])
def test_no_client_notices(way):
    status, output = campaign("restarts", "--times", 10, "--way", way)
    assert status == 0, output[-4000:]


@UNTIL_FOUND
@pytest.mark.parametrize("name, finding", [("socket", "FAULT refused: "), ("kill", "FAULT ")])
def test_tester_finds_what_is_broken(name, finding):
    until_found(finding, "restarts", "--times", 3, "--way", "activation", "--break", name)
