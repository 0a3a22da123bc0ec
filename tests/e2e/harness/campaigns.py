# SPDX-License-Identifier: BSD-3-Clause
"""Runs the campaigns of tests/fuzz, and checks that they find planted defects.

In `contrib/check`, a campaign runs for seconds, with a fixed seed. `contrib/check nightly` also
runs the tests of the checkers, and sets $FUZZ_SEED, another seed, and $FUZZ_TIMES: how many times
as long each campaign runs.
"""

import os
import subprocess

import pytest

from .processes import TOP
from .sanitizers import UNLESS_SANITIZED

# A checker that finds nothing in this many runs cannot see the defect.
TRIES = 20

LENGTHS = ("--seconds", "--streams", "--times", "--runs")


def TESTER(test):  # pylint: disable=invalid-name
    """Marks a test of a checker. Its result does not depend on the build of hasp."""
    return UNLESS_SANITIZED(pytest.mark.nightly(test))


def UNTIL_FOUND(test):  # pylint: disable=invalid-name
    """Marks a test that a campaign finds a planted defect."""
    return TESTER(pytest.mark.timeout(1800)(test))


def campaign(name, *args):
    """Runs the campaign with a correct hasp. Returns (exit status, output)."""
    times = int(os.environ.get("FUZZ_TIMES", 1))
    # `restarts` has no random choices.
    seed = ("--seed", os.environ.get("FUZZ_SEED", 1)) if name != "restarts" else ()
    args = [arg * times if before in LENGTHS else arg for before, arg in zip((None, *args), args)]
    return run(name, *seed, *args)


def run(name, *args):
    """Runs a program of tests/fuzz. Returns (exit status, output)."""
    done = subprocess.run([TOP / "tests" / "fuzz" / name, *map(str, args)], capture_output=True,
                          text=True, errors="replace", timeout=900, check=False)
    print(done.stdout, done.stderr)
    for failed_itself in ("RuntimeError", "TypeError", "AttributeError", "NameError"):
        assert failed_itself not in done.stderr, done.stderr
    return done.returncode, done.stdout


def until_found(finding, name, *args):
    """Runs the campaign until it fails with `finding`, at most TRIES times, because chance and the
    machine's load decide when it fails. For tests marked UNTIL_FOUND."""
    for _ in range(TRIES):
        status, output = run(name, *args)
        if status == 1 and finding in output:
            return
    pytest.fail(f"{name} has not found {finding!r} in {TRIES} runs; the last one:\n{output[-4000:]}", pytrace=False)
