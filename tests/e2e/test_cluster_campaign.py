# SPDX-License-Identifier: BSD-3-Clause
"""Clients do not notice that slots move: a short run of tests/fuzz/cluster.

The campaign also finds each planted defect.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found


def test_clients_do_not_notice_that_slots_move():
    status, output = campaign("cluster", "--seconds", 8, "--clients", 15, "--kinds", "migrate,reshard")
    assert status == 0, output[-6000:]


@UNTIL_FOUND
@pytest.mark.parametrize("name, finding", [("direct", " redirected!"), ("more", " overlap!"), ("part", " part!"), ("beside", " overlap!")])
def test_tester_finds_that_there_is_no_hasp_or_that_locks_are_not_what_was_told(name, finding):
    until_found(finding, "cluster", "--seconds", 3, "--clients", 10, "--kinds", "migrate", "--break", name)
