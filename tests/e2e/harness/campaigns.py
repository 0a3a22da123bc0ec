# SPDX-License-Identifier: BSD-3-Clause
"""Running the testers of tests/fuzz, and seeing that they find what they are made to find."""

import subprocess

import pytest

from .processes import TOP
from .sanitizers import UNLESS_SANITIZED


def UNTIL_FOUND(test):  # pylint: disable=invalid-name
    """A test of the tester itself, which is the same whatever hasp is built with. One that is blind
    is noticed by the time-out alone."""
    return UNLESS_SANITIZED(pytest.mark.timeout(1800)(test))


def campaign(name, *args):
    """(exit status, output)."""
    done = subprocess.run([TOP / "tests" / "fuzz" / name, *map(str, args)], capture_output=True,
                          text=True, errors="replace", timeout=900, check=False)
    print(done.stdout, done.stderr)
    for failed_itself in ("RuntimeError", "TypeError", "AttributeError", "NameError"):
        assert failed_itself not in done.stderr, done.stderr
    return done.returncode, done.stdout


def until_found(finding, name, *args):
    """Runs it again and again until it fails by `finding`: chance has its part in when that
    happens, and so has the machine's load. For tests that are marked UNTIL_FOUND."""
    while True:
        status, output = campaign(name, *args)
        if status == 1 and finding in output:
            return
