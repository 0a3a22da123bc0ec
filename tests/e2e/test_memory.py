# SPDX-License-Identifier: BSD-3-Clause
"""What hasp holds in memory: the small form of tests/bench/memory."""

import os
import pathlib
import subprocess

import pytest
from harness import TOP

SMALL = ("--value-mb", "32", "--idle", "500", "--slow", "40")


def memory(*args):
    """(exit status, output)."""
    done = subprocess.run([TOP / "tests" / "bench" / "memory", *SMALL, *args],
                          capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def sanitized():
    """A sanitizer's shadow and quarantine are not hasp's memory."""
    binary = pathlib.Path(os.environ.get("HASP", TOP / "hasp")).read_bytes()
    return b"__asan_init" in binary or b"__tsan_init" in binary


@pytest.mark.parametrize("what", ["big", "idle", "slow", "stalled"])
def test_memory_is_bounded(what):
    if sanitized():
        pytest.skip("hasp is built with a sanitizer")
    status, output = memory("--only", what)
    assert status == 0 and output.count("ok ") >= 1, output


def test_tester_finds_a_proxy_that_holds_what_is_not_read():
    status, output = memory("--only", "slow", "--subject", "nutcracker")
    assert status == 1 and "BROKEN a client that does not read" in output
