# SPDX-License-Identifier: BSD-3-Clause
"""Runs the campaigns of tests/fuzz, and shows that their testers find what they are made to find.

On commit a campaign takes seconds and has a fixed seed. `contrib/check nightly` runs the tests of
the testers, too, and sets $FUZZ_SEED, another seed, and $FUZZ_TIMES: how many times as long each
campaign runs.
"""

import os
import subprocess

import pytest

from .processes import TOP
from .sanitizers import UNLESS_SANITIZED

# A tester that has found nothing in so many runs is blind.
TRIES = 20

LENGTHS = ("--seconds", "--streams", "--times", "--runs")


def TESTER(test):  # pylint: disable=invalid-name
    """A test of a tester, which is the same whatever hasp is built with."""
    return UNLESS_SANITIZED(pytest.mark.nightly(test))


def UNTIL_FOUND(test):  # pylint: disable=invalid-name
    """A test that a tester finds what is broken."""
    return TESTER(pytest.mark.timeout(1800)(test))


def campaign(name, *args):
    """Runs it against a hasp that is to pass; (exit status, output)."""
    times = int(os.environ.get("FUZZ_TIMES", 1))
    seed = ("--seed", os.environ.get("FUZZ_SEED", 1)) if name != "restarts" else ()  # nothing there is random
    args = [arg * times if before in LENGTHS else arg for before, arg in zip((None, *args), args)]
    return run(name, *seed, *args)


def run(name, *args):
    """(exit status, output)."""
    done = subprocess.run([TOP / "tests" / "fuzz" / name, *map(str, args)], capture_output=True,
                          text=True, errors="replace", timeout=900, check=False)
    print(done.stdout, done.stderr)
    for failed_itself in ("RuntimeError", "TypeError", "AttributeError", "NameError"):
        assert failed_itself not in done.stderr, done.stderr
    return done.returncode, done.stdout


def until_found(finding, name, *args):
    """Runs it until it fails by `finding`, TRIES times at most: chance has its part in when that
    happens, and so has the machine's load. For tests that are marked UNTIL_FOUND."""
    for _ in range(TRIES):
        status, output = run(name, *args)
        if status == 1 and finding in output:
            return
    pytest.fail(f"{name} has not found {finding!r} in {TRIES} runs; the last one:\n{output[-4000:]}", pytrace=False)
