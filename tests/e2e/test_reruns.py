# SPDX-License-Identifier: BSD-3-Clause
"""The harness repeats a test that raised TooSlow, a limited number of times, and reports it.

Each test here runs pytest, with this folder's conftest.py, on a small file of tests.
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from harness.reruns import MOST

HERE = pathlib.Path(__file__).parent
HEAD = """
import time
from harness.wait import TooSlow

runs = []

def run_no(n):
    runs.append(n)
    return runs.count(n)
"""


@pytest.fixture
def run(tmp_path):
    """run(tests, option ...) runs pytest on a file with these tests. Returns its output."""
    def run(tests, *options):
        file = tmp_path / "test_small.py"
        file.write_text(HEAD + tests)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", *options, file],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(HERE)}, capture_output=True, text=True,
            timeout=300, check=False)
        print(done.stdout, done.stderr)
        return done.stdout

    return run


SLOW_AT_FIRST = """
def test_twice():
    if run_no("twice") <= 2:
        raise TooSlow("the machine")

def test_once():
    if run_no("once") == 1:
        raise TooSlow("the machine")

def test_prompt():
    assert run_no("prompt") == 1
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["pytest", "pytest-xdist"])
def test_reruns_are_counted_at_the_end(run, workers):
    output = run(SLOW_AT_FIRST, *workers)
    assert "3 passed" in output
    assert "\nre-runs: 3 (test_twice 2, test_once 1)\n" in output


def test_without_reruns_the_summary_does_not_mention_them(run):
    output = run("def test_prompt():\n    pass\n")
    assert "1 passed" in output and "re-runs" not in output


def test_test_that_is_always_too_slow_fails_in_the_end(run):
    output = run("def test_slow():\n    raise TooSlow(f'run {run_no(0)}')\n")
    assert "1 failed" in output
    assert f"\nre-runs: {MOST} (test_slow {MOST})\n" in output
    assert re.search(rf"^E .*TooSlow: promptness: .*run {MOST + 1}$", output, re.MULTILINE)


def test_other_failure_is_not_run_again(run):
    output = run("def test_wrong():\n    assert run_no(0) == 2\n")
    assert "1 failed" in output and "re-runs" not in output


def test_rerun_has_a_timeout_of_its_own(run):
    """pytest-timeout's timer ends at a test's first exception: without a new one the second run never ends."""
    output = run("""
def test_hangs():
    if run_no(0) == 1:
        raise TooSlow("the machine")
    time.sleep(60)
""", "--timeout", "3")
    assert "1 failed" in output and "Timeout >3.0s" in output
    assert "\nre-runs: 1 (test_hangs 1)\n" in output
