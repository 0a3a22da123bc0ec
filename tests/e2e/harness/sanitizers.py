# SPDX-License-Identifier: BSD-3-Clause
"""Skips tests that mean nothing with a sanitizer: those of hasp's memory, which sanitizers change,
and those of checkers, servers and applications without hasp."""

import functools
import os
import pathlib

import pytest

from .processes import TOP

# conftest.py skips such tests if hasp is built with a sanitizer.
UNLESS_SANITIZED = pytest.mark.unless_sanitized


@functools.cache
def sanitized():
    """Returns true if hasp is built with a sanitizer, whose own memory counts as hasp's."""
    binary = pathlib.Path(os.environ.get("HASP", TOP / "hasp")).read_bytes()
    return b"__asan_init" in binary or b"__tsan_init" in binary
