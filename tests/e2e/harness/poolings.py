# SPDX-License-Identifier: BSD-3-Clause
"""A file that imports this fixture runs its tests with both values of `pooling`."""

import pytest


@pytest.fixture(params=["shared", "session"])
def pooling(request):
    return request.param
