# SPDX-License-Identifier: BSD-3-Clause
"""Parameters of many tests."""

import pytest

# Runs a test with both values of `pooling`, in a file that overrides the fixture of that name.
BOTH = pytest.mark.parametrize("pooling", ["shared", "session"])
LAYOUTS = pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
# @covers("wait", "lock_lost"): the test fails when hasp ignores this option, or does not log this event.
covers = pytest.mark.covers
