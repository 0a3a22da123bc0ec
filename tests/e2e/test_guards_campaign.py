# SPDX-License-Identifier: BSD-3-Clause
"""No update of a guarded key is lost in silence, whatever dies: a short run of tests/fuzz/guards.

And the tester finds what it is made to find.
"""

import subprocess

import pytest
from harness import TOP

TRIES = 5


def guards(*args):
    """(exit status, output)."""
    done = subprocess.run([TOP / "tests" / "fuzz" / "guards", *map(str, args)],
                          capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def found(status, output):
    return status == 1 and " lost!" in output


def test_no_update_is_lost():
    status, output = guards("--seconds", 10)
    assert status == 0, output[-6000:]


def test_tester_finds_nothing_where_nothing_is_broken():
    status, output = guards("--seconds", 2, "--clients", 20, "--break", "none")
    assert status == 0, output[-6000:]


@pytest.mark.parametrize("name", ["write", "readers", "check"])
def test_tester_finds_what_is_broken(name):
    """Chance has its part in what happens, and how much of it on a busy machine."""
    assert any(found(*guards("--seconds", 3, "--clients", 20, "--break", name))
               for _ in range(TRIES))
