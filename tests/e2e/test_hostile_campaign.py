# SPDX-License-Identifier: BSD-3-Clause
"""Hostile clients do not harm honest ones: a short run of tests/fuzz/hostile.

The campaign also finds each planted defect.
"""

import pytest
from harness.campaigns import UNTIL_FOUND, campaign, until_found


def test_honest_clients_come_to_no_harm():
    status, output = campaign("hostile", "--seconds", 3)
    assert status == 0, output[-6000:]


@UNTIL_FOUND
@pytest.mark.parametrize("proxy, finding", [("cross", "answer"), ("drop", "answer"), ("hang", "hung")])
def test_tester_finds_a_proxy_that(proxy, finding):
    until_found(f" {finding}!", "hostile", "--seconds", 3, "--proxy", proxy)


@UNTIL_FOUND
@pytest.mark.parametrize("name, finding", [("owner", "stolen"), ("twice", "overlap"), ("keep", "not freed")])
def test_tester_finds_a_script_that_is_broken(name, finding):
    until_found(f" {finding}!", "hostile", "--seconds", 4, "--break", name)


@UNTIL_FOUND
def test_tester_finds_a_hasp_that_has_too_much_memory():
    until_found(" memory!", "hostile", "--seconds", 6, "--only", "longest_names", "--break", "limit")


@UNTIL_FOUND
@pytest.mark.parametrize("name, finding", [("sentinels", "stolen"), ("war", "hung"), ("open", "hasp")])
def test_tester_finds(name, finding):
    until_found(f" {finding}!", "hostile", "--seconds", 5, "--only", "babbles", "--break", name)


@UNTIL_FOUND
def test_tester_finds_that_hostile_clients_are_told_what_is_not_theirs():
    until_found(" leak!", "hostile", "--seconds", 4, "--only", "steals", "--break", "acl")
