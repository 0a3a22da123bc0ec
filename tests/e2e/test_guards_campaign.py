# SPDX-License-Identifier: BSD-3-Clause
"""No update of a guarded key is lost in silence, whatever dies: a short run of tests/fuzz/guards;
nor in whatever order the scripts of guards are run: one of tests/fuzz/orders.

And the testers find what they are made to find.
"""

import subprocess

import pytest
from harness import TOP

TRIES = 5


def fuzz(name, *args):
    """(exit status, output)."""
    done = subprocess.run([TOP / "tests" / "fuzz" / name, *map(str, args)],
                          capture_output=True, text=True, timeout=120, check=False)
    print(done.stdout, done.stderr)
    return done.returncode, done.stdout


def found(status, output):
    return status == 1 and " lost!" in output


def test_no_update_is_lost():
    status, output = fuzz("guards", "--seconds", 10)
    assert status == 0, output[-6000:]


def test_tester_finds_nothing_where_nothing_is_broken():
    status, output = fuzz("guards", "--seconds", 2, "--clients", 20, "--break", "none")
    assert status == 0, output[-6000:]


@pytest.mark.parametrize("name", ["write", "readers", "check"])
def test_tester_finds_what_is_broken(name):
    """Chance has its part in what happens, and how much of it on a busy machine."""
    assert any(found(*fuzz("guards", "--seconds", 3, "--clients", 20, "--break", name))
               for _ in range(TRIES))


def test_no_order_of_the_scripts_makes_an_old_read_good():
    status, output = fuzz("orders", "--seconds", 5)
    assert status == 0, output


@pytest.mark.parametrize("name", ["write", "readers"])
def test_tester_of_orders_finds_what_is_broken(name):
    assert any("FAULT lost" in fuzz("orders", "--seconds", 5, "--break", name)[1] for _ in range(TRIES))
