# SPDX-License-Identifier: BSD-3-Clause
"""The harness' own sentinels and clusters, without hasp: they work with Debian's packages, and as
the other tests expect."""

import pytest
from harness.cluster import SLOTS, Cluster
from harness.sanitizers import UNLESS_SANITIZED
from harness.sentinel import Sentinels
from harness.shared_cluster import SharedCluster

pytestmark = [UNLESS_SANITIZED, pytest.mark.nightly]


def test_sentinels_name_the_primary_that_they_chose(sentinels):
    old, new = sentinels.failover()
    assert new is not old
    assert {sentinel.names() for sentinel in sentinels.sentinels} == {new.address}


@pytest.mark.parametrize("how", ["kill", "freeze"])
def test_sentinels_replace_a_primary_that_is_gone(sentinels, how):
    old = sentinels.primary()
    getattr(old, how)()
    new = sentinels.until_moved_from(old)
    assert new.is_primary()
    (old.start if how == "kill" else old.thaw)()
    assert old in sentinels.nodes and sentinels.until_stable().is_primary()
    assert len(sentinels.replicas()) == 2


def test_replicas_have_what_was_written(sentinels):
    primary = sentinels.primary()
    with primary.client() as client:
        client.set("k", "v")
        assert client.wait(2, 0) == 2
    assert [node.client().get("k") for node in sentinels.nodes] == ["v"] * 3


def test_cluster_has_a_primary_for_every_slot(cluster):
    primaries = cluster.primaries()
    assert len(primaries) == 3 and all(len(cluster.replicas_of(node)) == 1 for node in primaries)
    assert cluster.owner(0) is primaries[0] and cluster.owner(SLOTS - 1) is primaries[2]
    with cluster.owner("k").client() as client:
        assert client.set("k", "v")


def test_slot_moves_with_its_keys(cluster):
    slot = cluster.slot("{tag}")
    source, to = cluster.owner(slot), cluster.other_than(slot)
    with source.client() as client:
        for n in range(250):
            client.set(f"{{tag}}:{n}", n)
    cluster.migrate(slot, to)
    assert cluster.owner(slot) is to
    assert to.client().dbsize() == 250 and source.client().dbsize() == 0
    cluster.until_ok()
    cluster.reshard(source, to, 10)
    cluster.until_ok()
    assert len(cluster.primaries()) == 3


@pytest.mark.parametrize("how", ["kill", "freeze", "failover"])
def test_replica_takes_over(cluster, how):
    old = cluster.owner("k")
    if how == "failover":
        cluster.failover(old)
    else:
        getattr(old, how)()
    assert cluster.until_moved_from(old, "k").is_primary()
    if how != "failover":
        (old.start if how == "kill" else old.thaw)()
    cluster.until_ok()
    assert not old.is_primary()


def test_a_shared_cluster_is_whole_and_empty_for_each_test():
    shared = SharedCluster()
    try:
        first = shared.whole()
        assert first.owner("k").ask("SET", "k", "v")
        first.failover(first.owner("k"))
        assert shared.whole() is first and first.owner("k").ask("GET", "k") is None
        first.begin_migration(first.slot("k"), first.other_than("k"))
        second = shared.whole()
        assert second is not first
        second.owner("k").kill()
        assert shared.whole() is not second
    finally:
        shared.stop()


def test_one_node_can_be_a_cluster():
    with Cluster(primaries=1, replicas=0) as cluster:
        (node,) = cluster.primaries()
        assert cluster.owner("k") is node and node.client().set("k", "v")
        assert cluster.slot(cluster.key(77)) == 77
        for key in ("k", "{tag}k", "a{tag}{b}", "{}k", "{k", "k}{", "ä"):
            assert cluster.slot(key) == int(node.ask("CLUSTER", "KEYSLOT", key))


def test_two_primaries_can_have_replicas():
    with Cluster(primaries=2, replicas=1) as cluster:
        one, other = cluster.primaries()
        assert cluster.replicas_of(one) and cluster.replicas_of(other)


def test_topologies_of_two_tests_do_not_meet():
    with Sentinels() as one, Sentinels() as other:
        assert one.host != other.host
        assert one.until_stable() in one.nodes and other.until_stable() in other.nodes
