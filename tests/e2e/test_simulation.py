# SPDX-License-Identifier: BSD-3-Clause
"""The simulation (tests/sim): it is deterministic, many seeds find nothing, and planted defects are found.

`make check` runs seeds 1 to 200. $SIM_BUILDS names `run` programs of other builds of the same source,
divided by colons: their traces must be the same.
"""

import os
import pathlib
import random
import subprocess

import pytest
from harness.campaigns import TESTER

RUN = pathlib.Path(os.environ["HASP"]).resolve().parent / "tests" / "sim" / "run"
pytestmark = pytest.mark.skipif(not RUN.exists(), reason="the simulation needs Lua 5.1")

# name -> the model that shows it. Those of C are in tests/sim/breaks.c, the others in Lua scripts.
BREAKS = {
    "never_renew": "places", "trust_late_grants": "sides", "forget_undo": "sides", "keep_at_disconnect": "sides",
    "stay_in_line": "sides", "never_look": "sides", "deaf_waiters": "sides", "same_random": "rules",
    "wall_clock": "verbs", "blind_to_circles": "circles",
    "nobody_owns": "circles", "waiters_own": "circles", "take_held": "circles", "keep_parts": "circles",
    "write_unchecked": "guards", "finish_unchecked": "guards", "grant_unchecked": "guards", "check_ignored": "guards",
    "last_first": "rules",
}


def simulate(*args, run=RUN):
    """(exit status, output)."""
    done = subprocess.run([run, *map(str, args)], capture_output=True, text=True, timeout=3000, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(1, 8))
def test_a_seed_gives_the_same_trace_again(seed):
    first = simulate("--seed", seed, "--trace")
    assert first[0] == 0 and first[1].count("\n") > 1000, first[1][-2000:]
    assert simulate("--seed", seed, "--trace") == first
    for other in filter(None, os.environ.get("SIM_BUILDS", "").split(":")):
        assert simulate("--seed", seed, "--trace", run=other) == first, other


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_ten_thousand_seeds_find_nothing():
    begin = int(os.environ.get("FUZZ_SEED", random.randrange(10**9)))
    status, output = simulate("--seeds", f"{begin}-{begin + 9999}")
    assert status == 0, output[-6000:]


@TESTER
@pytest.mark.parametrize("name", BREAKS)
def test_a_planted_defect_is_found(name):
    status, output = simulate("--break", name, "--model", BREAKS[name], "--first", "--seeds", "1-1000")
    assert status == 1 and "1 wrong" in output, output[-4000:]
    assert "Error compiling script" not in output, output[-4000:]
