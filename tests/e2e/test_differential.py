# SPDX-License-Identifier: BSD-3-Clause
"""Clients cannot distinguish hasp from Redis: a short run of tests/fuzz/differential. With rules
and guards, hasp does what a model of the manuals says: a run of tests/fuzz/differential --rules.

The campaign itself accepts correct replies, and finds every fault of a faulty proxy.
"""

import json

import pytest
from harness.campaigns import TESTER, UNTIL_FOUND, campaign, run, until_found
from harness.sanitizers import UNLESS_SANITIZED

BREAKS = ("owner", "set", "write", "expire", "persist", "lease", "note", "count", "foreign", "guard")
FAULTS = ("drop", "duplicate", "swap", "swallow", "extra", "hold", "deaf", "open", "cut", "request",
          "hang")


def differential(tmp_path, *args):
    return campaign("differential", "--out", tmp_path, *args)


def try_tester(tmp_path, *args):
    return run("differential", "--out", tmp_path, *args)


def test_hasp_cannot_be_told_from_redis(tmp_path):
    status, output = differential(tmp_path, "--streams", 150, "--minimise", 5,
                                  "--seconds", 13, "--stop-after", 2)
    assert status == 0, output[-4000:]


def test_hasp_that_discovers_cannot_be_told_from_redis(tmp_path):
    status, output = differential(tmp_path, "--discover", "--streams", 80, "--minimise", 5,
                                  "--seconds", 8, "--stop-after", 2)
    assert status == 0, output[-4000:]


@TESTER
@pytest.mark.parametrize("kind", ["redis", "none"])
def test_tester_accepts_what_is_right(tmp_path, kind):
    status, _ = try_tester(tmp_path, "--proxy", kind, "--seed", 1, "--streams", 100)
    assert status == 0


@TESTER
@pytest.mark.parametrize("fault", FAULTS)
def test_tester_finds_a_proxy_that_does(tmp_path, fault):
    status, output = try_tester(tmp_path, "--proxy", fault, "--seed", 2, "--streams", 100,
                                  "--minimise", 0, "--stop-after", 1)
    assert status == 1 and "DIFFERENCE" in output
    assert len(list(tmp_path.glob("*.json"))) == 1


@TESTER
def test_difference_can_be_replayed_in_its_shortest_form(tmp_path):
    _, output = try_tester(tmp_path, "--proxy", "cut", "--seed", 2, "--streams", 100,
                             "--minimise", 10, "--stop-after", 1)
    assert "shortest form" in output
    (path,) = tmp_path.glob("*.json")
    assert path.read_text().count("==") + path.read_text().count('="') < 8  # only few commands are left
    status, output = try_tester(tmp_path, "--replay", path, "--proxy", "cut", "--minimise", 0)
    assert status == 1 and "DIFFERENCE" in output
    status, _ = try_tester(tmp_path, "--replay", path, "--proxy", "none")
    assert status == 0


def test_keys_of_a_cluster_may_be_anywhere(tmp_path):
    status, output = differential(tmp_path, "--cluster", 3, "--kinds", "anywhere,types,wide", "--streams", 30,
                                  "--seconds", 10)
    assert status == 0, output[-4000:]


@UNLESS_SANITIZED
@pytest.mark.parametrize("primaries", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_cluster_cannot_be_told_from_redis(tmp_path, primaries):
    status, output = differential(tmp_path, "--cluster", primaries, "--kinds",
                                  "mixed,session,transaction,pubsub,reply_modes,scripts,inline,broken,half_close",
                                  "--streams", 40, "--minimise", 5, "--seconds", 10, "--stop-after", 2)
    assert status == 0, output[-4000:]


@TESTER
@pytest.mark.parametrize("primaries", [1, 3])
def test_tester_tells_a_cluster_from_redis(tmp_path, primaries):
    status, output = try_tester(tmp_path, "--cluster", primaries, "--proxy", "redis", "--seed", 2, "--streams", 100,
                                  "--minimise", 0, "--stop-after", 1)
    assert status == 1 and "DIFFERENCE" in output


def test_rules_do_what_the_model_says(tmp_path):
    status, output = differential(tmp_path, "--rules", "--streams", 80, "--seconds", 8, "--stop-after", 2)
    assert status == 0, output[-4000:]


@TESTER
def test_tester_of_rules_finds_nothing_where_nothing_is_broken(tmp_path):
    status, output = try_tester(tmp_path, "--rules", "--seed", 3, "--streams", 40, "--break", "none")
    assert status == 0, output[-4000:]


@UNTIL_FOUND
@pytest.mark.parametrize("name", BREAKS)
def test_tester_of_rules_finds_what_is_broken(tmp_path, name):
    until_found("DIFFERENCE", "differential", "--out", tmp_path, "--rules", "--streams", 100, "--minimise", 0,
                "--stop-after", 1, "--break", name)


@TESTER
def test_difference_of_rules_can_be_replayed_in_its_shortest_form(tmp_path):
    _, output = try_tester(tmp_path, "--rules", "--seed", 3, "--streams", 100, "--stop-after", 1, "--break", "owner")
    assert "shortest form" in output
    (path,) = tmp_path.glob("*.json")
    assert len(json.loads(path.read_text())["steps"]) <= 3
    status, output = try_tester(tmp_path, "--rules", "--replay", path, "--break", "owner", "--minimise", 0)
    assert status == 1 and "DIFFERENCE" in output
    status, _ = try_tester(tmp_path, "--rules", "--replay", path)
    assert status == 0
