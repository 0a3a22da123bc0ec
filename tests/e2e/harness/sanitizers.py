# SPDX-License-Identifier: BSD-3-Clause
"""Tests that mean nothing if hasp is built with a sanitizer: tests of hasp's memory, which
sanitizers change, and tests without hasp, of the checkers, servers and applications."""

import functools
import os
import pathlib

import pytest

from .processes import TOP

# conftest.py skips such tests if hasp is built with a sanitizer.
UNLESS_SANITIZED = pytest.mark.unless_sanitized


@functools.cache
def sanitized():
    """Returns true if hasp has a sanitizer, whose shadow and quarantine are not hasp's memory."""
    binary = pathlib.Path(os.environ.get("HASP", TOP / "hasp")).read_bytes()
    return b"__asan_init" in binary or b"__tsan_init" in binary
