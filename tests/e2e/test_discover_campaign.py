# SPDX-License-Identifier: BSD-3-Clause
"""Findings of discovery are enforced: the table of contrib/verdict, and short runs of
tests/fuzz/discover.

The campaign also finds each planted defect.
"""

import os
import subprocess

import pytest
from harness import TOP
from harness.by_hand import HASP
from harness.campaigns import UNTIL_FOUND, campaign, run, until_found


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_random_idioms_with_random_names_go_on_unharmed_with_what_discover_proposes():
    status, output = campaign("discover", "--runs", 10)
    assert status == 0, output[-4000:]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_applications_at_once_go_on_unharmed_with_what_discover_proposes():
    status, output = run("discover", "--apps", "--runs", 1)
    assert status == 0, output[-4000:]


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_every_verdict_of_discover_is_right():
    """Runs the table that `contrib/verdict` prints."""
    shown = subprocess.run([TOP / "contrib" / "verdict"], env={**os.environ, "HASP": HASP}, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, check=False)
    print(shown.stdout, shown.stderr[-4000:])
    assert shown.returncode == 0


@pytest.mark.nightly
@pytest.mark.parametrize("row", ["SET NX, blind DEL", "token: GET, compare, DEL"])
def test_lock_that_holders_outlive_is_cured_by_what_discover_proposes(row):
    status, output = run("verdict", "--only", row)
    assert status == 0, output
    assert "precision 1.000 (1 of 1), recall 1.000 (1 of 1)" in output


@UNTIL_FOUND
def test_tester_finds_a_section_for_what_needs_none():
    until_found("a section that is not needed", "discover", "--runs", 1, "--break", "lost")


@UNTIL_FOUND
def test_tester_finds_a_section_that_does_not_cure():
    until_found("enforced, the harm goes on", "discover", "--runs", 2, "--break", "weak")


@UNTIL_FOUND
def test_tester_finds_a_section_that_is_missing():
    until_found("and not a word of it", "discover", "--runs", 2, "--break", "mute")
