# SPDX-License-Identifier: BSD-3-Clause
"""Both values of `pooling`, for a file whose tests run with each: it imports this fixture."""

import pytest


@pytest.fixture(params=["shared", "session"])
def pooling(request):
    return request.param
