# SPDX-License-Identifier: BSD-3-Clause
"""Tests that tell nothing where hasp is built with a sanitizer: of what that changes, how much memory
hasp takes, and what it does when there is none; and of what stays the same: the testers, servers and
applications without hasp."""

import functools
import os
import pathlib

import pytest

from .processes import TOP

# conftest.py leaves such tests out where hasp is built with one.
UNLESS_SANITIZED = pytest.mark.unless_sanitized


@functools.cache
def sanitized():
    """A sanitizer's shadow and quarantine are not hasp's memory."""
    binary = pathlib.Path(os.environ.get("HASP", TOP / "hasp")).read_bytes()
    return b"__asan_init" in binary or b"__tsan_init" in binary
