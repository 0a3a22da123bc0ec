# SPDX-License-Identifier: BSD-3-Clause
"""hasp cannot be told from Redis: a short run of tests/fuzz/differential.

The tester itself must accept what is right and find every fault of a faulty
proxy; a tester that cannot fail tests nothing.
"""

import os
import random

import pytest
from harness.campaigns import campaign

FAULTS = ("drop", "duplicate", "swap", "swallow", "extra", "hold", "deaf", "open", "cut", "request",
          "hang")


def differential(tmp_path, *args):
    return campaign("differential", "--out", tmp_path, *args)


def test_hasp_cannot_be_told_from_redis(tmp_path):
    seed = os.environ.get("FUZZ_SEED", random.randrange(10**6))
    status, output = differential(tmp_path, "--seed", seed, "--streams", 300, "--minimise", 5,
                                  "--seconds", 25, "--stop-after", 2)
    assert status == 0, output[-4000:]


@pytest.mark.parametrize("kind", ["redis", "none"])
def test_tester_accepts_what_is_right(tmp_path, kind):
    status, _ = differential(tmp_path, "--proxy", kind, "--seed", 1, "--streams", 100)
    assert status == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_tester_finds_a_proxy_that_does(tmp_path, fault):
    status, output = differential(tmp_path, "--proxy", fault, "--seed", 2, "--streams", 100,
                                  "--minimise", 0, "--stop-after", 1)
    assert status == 1 and "DIFFERENCE" in output
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_difference_can_be_replayed_in_its_shortest_form(tmp_path):
    _, output = differential(tmp_path, "--proxy", "cut", "--seed", 2, "--streams", 100,
                             "--minimise", 10, "--stop-after", 1)
    assert "shortest form" in output
    (path,) = tmp_path.glob("*.json")
    assert path.read_text().count("==") + path.read_text().count('="') < 8  # few atoms left
    status, output = differential(tmp_path, "--replay", path, "--proxy", "cut", "--minimise", 0)
    assert status == 1 and "DIFFERENCE" in output
    status, _ = differential(tmp_path, "--replay", path, "--proxy", "none")
    assert status == 0
