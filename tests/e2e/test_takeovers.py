# SPDX-License-Identifier: BSD-3-Clause
"""The campaigns with clusters and sentinels blame asynchronous replication only for losses by a
replica that took over by itself."""

import argparse
import asyncio
import sys
import time

import pytest
from harness import TOP
from harness.cluster import Cluster
from harness.sanitizers import UNLESS_SANITIZED
from harness.sentinel import Sentinels
from harness.wait import TooSlow

sys.path.insert(0, str(TOP / "tests" / "fuzz"))

from campaign import Error, aside  # noqa: E402
from takeovers import (Said, Takeovers, cluster_said, elected_by_itself, server_said, switched, unasked_in_cluster,  # noqa: E402
                       unasked_of_sentinels, watch_cluster, watch_servers)
from topology_world import Outage, World  # noqa: E402

pytestmark = [UNLESS_SANITIZED, pytest.mark.nightly]

SLOT = Cluster.slot("k")


# --- finding the takeovers --------------------------------------------------------------

def outage(kind, old, begin, calm):
    made = Outage(kind, old)
    made.begin, made.calm = begin, calm
    return made


def taken_over(at=10.0, slots=(SLOT,)):
    """Returns observations of B taking over from A between `at` and `at` + 1; A notices 1 s
    later."""
    takeovers = Takeovers()
    takeovers.note("A", at, at, Said(None, 1, set(slots)))
    takeovers.note("B", at, at, Said("A", 1, set()))
    takeovers.note("B", at + 0.9, at + 1, Said(None, 2, set(slots)))
    takeovers.note("A", at + 1.9, at + 2, Said("B", 2, set()))
    return takeovers


def always(_):
    return True


def test_a_replica_that_is_a_primary_has_taken_over():
    (found,) = taken_over().unasked([], always)
    assert (found.node, found.old, found.begin, found.seen, found.end, found.slots) == ("B", "A", 10, 11, 12, {SLOT})


def test_one_of_an_old_epoch_has_been_started_again():
    takeovers = Takeovers()
    takeovers.note("B", 1, 1, Said("A", 2, set()))
    takeovers.note("B", 2, 2, Said(None, 2, {SLOT}))
    assert not takeovers.all


@pytest.mark.parametrize("made, explains", [
    (("kill", "A", 9, 13), True),
    (("kill", "C", 9, 13), False),
    (("kill", "A", 1, 9.9), False),
    (("kill", "A", 11.1, 13), False),
])
def test_what_the_campaign_did_to_that_primary_then_explains_it(made, explains):
    assert bool(taken_over().unasked([outage(*made)], always)) != explains


def test_what_redis_does_not_call_its_own_doing_is_none():
    assert not taken_over().unasked([], lambda _: False)


def test_what_a_node_says_of_itself():
    nodes = (b"a1 127.0.0.1:1@2 master - 0 1 7 connected 0-5\n"
             b"b2 127.0.0.1:3@4 myself,master - 0 1 8 connected 6-8 10 [11->-a1]\n")
    assert cluster_said(nodes) == (None, 8, {6, 7, 8, 10})
    assert cluster_said(b"b2 127.0.0.1:3@4 myself,slave a1 0 1 8 connected\n") == ("a1", 8, set())
    assert server_said([b"slave", b"127.0.0.1", 7, b"connected", 1]).follows == "127.0.0.1:7"
    assert server_said([b"master", 1, []]).follows is None


# --- the losses that a takeover explains ------------------------------------------------

@pytest.fixture
def world():
    return World(argparse.Namespace(places=None), None, lambda outage: outage.kind != "failover", list)


def found(world, at=None, slots=(SLOT,)):
    """Returns {kind: number} of the faults that remain after a takeover at `at`, if any."""
    world.judge(taken_over(at, slots).unasked([], always) if at is not None else [])
    return dict(world.kinds)


def lose(world, acknowledged):
    world.lost("k", acknowledged, "is gone", "values")


def test_a_loss_is_a_fault(world):
    lose(world, time.monotonic())
    assert found(world) == {"lost": 1}


def test_a_loss_where_a_replica_took_over_is_none(world):
    now = time.monotonic()
    lose(world, now)
    assert not found(world, now - 0.5)
    assert world.counts["values lost by asynchronous replication at a takeover"] == 1


@pytest.mark.parametrize("ago, slots", [(-1, (SLOT,)), (5, (SLOT,)), (0.5, (SLOT + 1,))])
def test_a_loss_before_after_or_elsewhere_is_a_fault(world, ago, slots):
    now = time.monotonic()
    lose(world, now)
    assert found(world, now - ago, slots) == {"lost": 1}


def test_a_key_that_is_counted_wrongly_is_judged_like_a_loss(world):
    now = time.monotonic()
    world.miscounted(["j", "k"], now, "DEL said 1")
    assert not found(world, now - 0.5)
    world.miscounted(["j"], now, "DEL said 1")
    assert found(world, now - 0.5) == {"wrong reply": 1}


@pytest.mark.parametrize("reply", [None, Error(b"ERR hasp: upstream")])
@pytest.mark.parametrize("ago, faults", [(None, 1), (-4, 1), (5, 1), (0.5, 0), (-1, 0)])
def test_an_error_is_a_fault_unless_a_primary_went(world, reply, ago, faults):
    now = time.monotonic()
    world.told(now, now, reply, "GET k")
    world.closed(now)
    assert found(world, ago if ago is None else now - ago) == ({"error": 2} if faults else {})


def test_an_error_that_no_failover_explains_is_none_of_a_takeover(world):
    now = time.monotonic()
    world.told(now, now, Error(b"MOVED 1 127.0.0.1:1"), "GET k")
    assert found(world, now - 0.5) == {"redirected": 1}


# --- real servers -----------------------------------------------------------------------

async def watched(tasks, takeovers, old, act):
    """Calls `act` when all servers are watched. Returns the takeover from `old`, if a replica took
    over."""
    tasks = [asyncio.create_task(task) for task in tasks]
    async with asyncio.timeout(300):
        while len(takeovers.latest) < len(tasks):
            await asyncio.sleep(0.01)
        await aside(act)
        while not (found := [t for t in takeovers.all if t.old == old and t.end < float("inf")]):
            await asyncio.sleep(0.01)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found[0]


def of_cluster(cluster, old, act):
    """Returns the takeover that `act` causes, and whether the campaign believes that no one asked
    for it."""
    takeovers = Takeovers()
    taken = asyncio.run(watched(watch_cluster(takeovers, cluster), takeovers, old.id, act))
    frozen = [outage("freeze", old.id, 0, float("inf"))]
    assert taken not in unasked_in_cluster(takeovers, cluster, frozen)
    return taken, taken in unasked_in_cluster(takeovers, cluster, [])


def test_a_node_whose_primary_hangs_takes_over_by_itself_and_one_that_is_asked_does_not():
    with Cluster() as cluster:
        def hang():
            old.freeze()
            cluster.until_moved_from(old, "k")
            old.thaw()

        old = cluster.owner("k")
        taken, is_unasked = of_cluster(cluster, old, hang)
        assert is_unasked and SLOT in taken.slots
        cluster.until_ok()
        old = cluster.owner("k")
        _, is_unasked = of_cluster(cluster, old, lambda: cluster.failover(old))
        if is_unasked:
            raise TooSlow("the test saw the takeover only when it was over")


def test_sentinels_fail_over_by_themselves():
    with Sentinels() as sentinels:
        takeovers, old = Takeovers(), sentinels.until_stable()

        def hang():
            old.freeze()
            sentinels.until_moved_from(old)
            old.thaw()

        taken = asyncio.run(watched(watch_servers(takeovers, sentinels), takeovers, str(old), hang))
        assert taken in unasked_of_sentinels(takeovers, sentinels, [])
        assert taken not in unasked_of_sentinels(takeovers, sentinels, [outage("freeze", str(old), 0, float("inf"))])


def test_redis_tells_in_its_log_whether_it_was_asked():
    log = ("# Start of election delayed for 512 milliseconds (rank #0, offset 1).\n"
           "# configEpoch set to 7 after successful failover\n"
           "# Start of election delayed for 0 milliseconds (rank #0, offset 1).\n"
           "# configEpoch set to 8 after successful failover\n")
    assert [elected_by_itself(log, epoch) for epoch in (6, 7, 8)] == [False, True, False]


def test_sentinels_tell_in_theirs_whom_they_have_moved():
    log = "1:X # +switch-master mymaster 127.0.0.1 1 127.0.0.1 23\n"
    assert switched(log, "127.0.0.1:1", "127.0.0.1:23")
    assert not switched(log, "127.0.0.1:1", "127.0.0.1:2")
    assert not switched(log, "127.0.0.1:23", "127.0.0.1:1")
