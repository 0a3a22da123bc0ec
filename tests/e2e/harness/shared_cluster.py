# SPDX-License-Identifier: BSD-3-Clause
"""A cluster that the tests of a file share, because starting one takes seconds.

Each test gets the cluster whole and empty. Tests may move slots, and let replicas take over by
CLUSTER FAILOVER, so any node may have a slot. A replica never takes over by itself, however busy
the machine is. A test that kills, freezes or configures nodes takes the fixture `cluster` instead.
"""

import pytest

from .cluster import Cluster
from .nodes import Unreachable, settles


class SharedCluster:
    def __init__(self):
        self.cluster = None

    def whole(self):
        """Returns the cluster without what earlier tests left, or a new one if a test broke it."""
        if self.cluster and not self._restored():
            self.stop()
        if not self.cluster:
            self.cluster = Cluster("--cluster-replica-no-failover", "yes", node_timeout_ms=5000)
        return self.cluster

    def _restored(self):
        nodes = self.cluster.nodes
        try:
            if not all(node.answers() for node in nodes) or any(is_migrating(node) for node in nodes):
                return False
            self.cluster.until_ok()
            for node in nodes:
                node.ask("SCRIPT", "FLUSH")
            settles(self._emptied, "all servers to be empty")
        except (TimeoutError, Unreachable):
            return False
        return True

    def _emptied(self):
        """Empties the primaries. Returns true when the replicas are empty, too."""
        for node in self.cluster.primaries():
            node.ask("FLUSHALL")
            node.ask("FUNCTION", "FLUSH")
        return all(node.ask("DBSIZE") == 0 for node in self.cluster.nodes)

    def stop(self):
        if self.cluster:
            self.cluster.stop()
            self.cluster = None


def is_migrating(node):
    """Returns true if a slot is moving to or from the node."""
    told = node.ask("CLUSTER", "NODES")
    return "->-" in told or "-<-" in told


@pytest.fixture(scope="module")
def file_cluster(reused_redis):
    shared = SharedCluster()
    yield shared
    reused_redis.hasps.drop()  # those in front of it
    shared.stop()


@pytest.fixture
def shared_cluster(file_cluster):
    """Three primaries with a replica each: see the head of harness/shared_cluster.py."""
    return file_cluster.whole()


@pytest.fixture(name="hasp")
def hasp_of_cluster(shared_cluster, share_hasp):
    """For a file that imports it: a shared hasp in front of the shared cluster."""
    return share_hasp(upstream=shared_cluster.upstream)
