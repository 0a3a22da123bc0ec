# SPDX-License-Identifier: BSD-3-Clause
"""The simulation (tests/sim): it is deterministic, seeds find no fault, and planted defects are
found.

`make check` runs seeds 1 to 200. $SIM_BUILDS names the `run` programs of other builds of the same
source, separated by colons: their traces must be the same.
"""

import os
import pathlib
import subprocess

import pytest
from harness.by_hand import HASP
from harness.campaigns import TESTER

RUN = pathlib.Path(HASP).resolve().parent / "tests" / "sim" / "run"
pytestmark = [pytest.mark.skipif(not RUN.exists(), reason="the simulation needs Lua 5.1"), pytest.mark.sanitized]

# {model: the planted defects that it finds}. Those in C are in tests/sim/breaks.c, the others in
# the Lua scripts.
BREAKS = {
    "plain": "leave_paused leave_throttled",
    "rules": "last_first newcomers_first foreign_as_nobody release_by_anybody one_owner one_rule_less "
             "forget_holds never_retry never_repeat same_random release_past_queue trust_over_grants forget_rules deaf_waiters",
    "verbs": "falling_fences counted_fences hand_off_held release_by_anybody wall_clock release_past_queue "
             "overtake_queue nobody_present never_look",
    "counted": "two_owners forget_undo keep_at_disconnect release_twice release_late",
    "places": "last_first never_renew limit_more",
    "sides": "trust_late_grants forget_undo keep_at_disconnect stay_in_line "
             "release_twice writer_beside_readers readers_pass",
    "circles": "blind_to_circles cry_wolf nobody_guards nobody_owns waiters_own take_held keep_parts keep_lost_place",
    "guards": "write_unchecked finish_unchecked grant_unchecked check_ignored trust_swallowed trust_unchecked",
    "quorums": "minority_wins least_fence forget_votes young_votes",
    "majorities": "endless_votes forget_votes",
    "legacy": "set_by_anybody expire_by_anybody write_by_anybody persist_locks forget_owner forget_lease "
              "forget_count count_for_owner take_back_all",
}


def simulate(*args, run=RUN):
    """Runs tests/sim/run. Returns (exit status, output)."""
    done = subprocess.run([run, *map(str, args)], capture_output=True, text=True, timeout=3000,
                          check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("seed", range(1, 5))
def test_a_seed_gives_the_same_trace_again(seed):
    first = simulate("--seed", seed, "--trace")
    assert first[0] == 0 and first[1].count("\n") > 1000, first[1][-2000:]
    others = [name for name in os.environ.get("SIM_BUILDS", "").split(":") if name]
    for other in others or [RUN]:
        assert simulate("--seed", seed, "--trace", run=other) == first, other


@TESTER
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_seeds_find_nothing(part):
    begin = int(os.environ.get("FUZZ_SEED", 1)) * 100000 + 1000 * part
    status, output = simulate("--seeds", f"{begin}-{begin + 999}")
    assert status == 0, output[-6000:]


@TESTER
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("model, name", [(m, name) for m, names in BREAKS.items() for name in names.split()])
def test_a_planted_defect_is_found(model, name):
    status, output = simulate("--break", name, "--model", model, "--first", "--seeds", "1-1000")
    assert status == 1 and "1 wrong" in output, output[-4000:]
    assert "Error compiling script" not in output, output[-4000:]
