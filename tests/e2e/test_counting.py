# SPDX-License-Identifier: BSD-3-Clause
"""Applications in four languages that read, add and write without a lock, and a shop.

Without hasp they lose updates; through hasp with a guard they lose none, even if processes die: the
sum contains each acknowledged increment. tests/fuzz/counting is a longer version.
"""

import random

import pytest
from harness import run_app, until
from harness.counting import APPS, GUARD, Counting
from harness.mishaps import Mishaps
from harness.observed import lines_of, observed, report
from harness.processes import RedisServer

EACH = pytest.mark.parametrize("app", APPS)
SMALL = {"rounds": 800, "workers": 15, "keys": 5}
LONGER = {"rounds": 1500, "workers": 30, "keys": 10}
LEASE = 0.3
SHOP = {"buyers": 300, "items": 30}
STOCK = "[guard stock]\npattern = shop:stock\nacquire_on = GET\nwait = 240s\n"


@pytest.fixture
def durable_server():
    """A server that keeps all acknowledged writes when it is killed."""
    with RedisServer("--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.mark.nightly
@EACH
def test_counting_direct_loses_updates_and_this_is_noticed(redis_server, app):
    counting = Counting(app, redis_server, redis_server.address, **SMALL).run()
    print(counting)
    assert counting.acknowledged.total() == SMALL["rounds"]
    assert counting.lost > 0
    assert counting.twice
    assert counting.faults()


@EACH
def test_counting_through_a_guard_is_exact(redis_server, start_hasp, app):
    hasp = start_hasp(GUARD + "wait = 30s\n", workers=2)
    counting = Counting(app, redis_server, hasp.address, **SMALL).run()
    print(counting)
    assert sum(counting.values.values()) == counting.acknowledged.total() == SMALL["rounds"]
    assert not counting.faults()


@pytest.mark.parametrize("app, kinds", [
    ("counter.php", Mishaps.KINDS), ("counter.js", Mishaps.KINDS),
    *(pytest.param(app, kinds, marks=pytest.mark.nightly) for app, kinds in (
        ("counter.php", ["pause"]), ("counter.py", ["kill"]), ("counter.rb", ["hasp"]), ("counter.js", ["redis"]),
        ("counter.py", Mishaps.KINDS), ("counter.rb", Mishaps.KINDS)))])
def test_nothing_is_lost_silently_whatever_happens(durable_server, app, kinds):
    config = (f"workers = 2\n[upstream]\naddress = {durable_server.host}:{durable_server.port}\n"
              f"{GUARD}lease = {LEASE * 1000:.0f}ms\nwait = 10s\n")
    mishaps = Mishaps(random.Random(app), durable_server, config, LEASE)
    counting = Counting(app, durable_server, mishaps.address, **LONGER)
    try:
        counting.run(mishaps.one_of(*kinds))
    finally:
        faults = mishaps.end()
    print(counting, mishaps.happened)
    assert sum(mishaps.happened.values()) > 0
    assert not counting.faults() + faults


@EACH
@pytest.mark.parametrize("pooling, workers, rounds, tolerance", [
    ("shared", 1, 800, 0), pytest.param("session", 2, 4000, 0.1, marks=pytest.mark.nightly)])
def test_what_is_observed_is_what_was_lost(redis_server, start_hasp, app, workers, rounds, tolerance):
    """hasp counts lost updates exactly if one link carries all commands. With more links, the error
    falls with the number of rounds; tests/fuzz/counting requires 5 %."""
    hasp = start_hasp(GUARD + "mode = observe\n", workers=workers)
    counting = Counting(app, redis_server, hasp.address, **{**SMALL, "rounds": rounds}).run()
    until(lambda: observed(hasp, "guard=counter")["writes"] == rounds, "hasp to count all writes")
    lines = report(hasp)
    total = lines_of(lines, "guard=counter")[0]
    print(counting, total)
    assert total["lost_updates"] == pytest.approx(counting.lost, rel=tolerance)
    assert total["stale_writes"] >= len(counting.twice)
    for key in counting.keys:
        (line,) = lines_of(lines, "guard=counter", key)
        assert tolerance or line["lost_updates"] == counting.lost_by_key[key]
        assert line["writes"] == counting.acknowledged[key]


@pytest.mark.nightly
def test_shop_is_oversold_directly(redis_server):
    result = run_app("shop.js", redis_server.address, **SHOP)
    assert result["sold"] > result["items"] == 30


def test_shop_sells_what_it_has_through_a_guard(start_hasp):
    result = run_app("shop.js", start_hasp(STOCK).address, **SHOP)
    assert (result["sold"], result["sales"], result["none"], result["errors"]) == (30, 30, 270, 0)
