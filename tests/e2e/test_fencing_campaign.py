# SPDX-License-Identifier: BSD-3-Clause
"""Fencing tokens rise whatever happens to the server: short runs of tests/fuzz/fencing.

The campaign also finds each planted defect.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found


@pytest.mark.parametrize("topology", [
    pytest.param("one", marks=pytest.mark.nightly), pytest.param("sentinel", marks=pytest.mark.nightly), "cluster"])
def test_tokens_rise(topology):
    status, output = campaign("fencing", "--seconds", 8, "--topology", topology)
    assert status == 0, output[-4000:]


@UNTIL_FOUND
@pytest.mark.parametrize("name", ["counter", "falling"])
def test_tester_finds_what_is_broken(name):
    until_found("FAULT fence: ", "fencing", "--seconds", 2, "--break", name)
