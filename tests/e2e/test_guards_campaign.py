# SPDX-License-Identifier: BSD-3-Clause
"""No update of a guarded key is lost in silence, whatever dies: a short run of tests/fuzz/guards;
nor in whatever order the scripts of guards are run: one of tests/fuzz/orders.

And the testers find what they are made to find.
"""

import pytest
from harness.campaigns import TESTER, UNTIL_FOUND, campaign, run, until_found


def test_no_update_is_lost():
    status, output = campaign("guards", "--seconds", 10)
    assert status == 0, output[-6000:]


@TESTER
def test_tester_finds_nothing_where_nothing_is_broken():
    status, output = run("guards", "--seconds", 2, "--clients", 20, "--break", "none")
    assert status == 0, output[-6000:]


@UNTIL_FOUND
@pytest.mark.parametrize("name", ["write", "check", "changed"])
def test_tester_finds_what_is_broken(name):
    until_found(" lost!", "guards", "--seconds", 3, "--clients", 20, "--break", name)


def test_no_order_of_the_scripts_makes_an_old_read_good():
    status, output = campaign("orders", "--seconds", 5)
    assert status == 0, output


@UNTIL_FOUND
@pytest.mark.parametrize("name", ["write", "failed"])
def test_tester_of_orders_finds_what_is_broken(name):
    until_found("FAULT lost", "orders", "--seconds", 5, "--break", name)
