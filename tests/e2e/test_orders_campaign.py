# SPDX-License-Identifier: BSD-3-Clause
"""In no order do the scripts of guards make an old read valid: a short run of tests/fuzz/orders.

hasp itself refuses a write after a failed read, whatever the scripts return. So only a test that
runs the scripts without hasp shows that the scripts are right.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found


def test_no_order_of_the_scripts_makes_an_old_read_good():
    status, output = campaign("orders", "--runs", 40)
    assert status == 0, output


@UNTIL_FOUND
@pytest.mark.parametrize("name", ["write", "failed"])
def test_tester_of_orders_finds_what_is_broken(name):
    until_found("FAULT lost", "orders", "--runs", 60, "--break", name)
