# SPDX-License-Identifier: BSD-3-Clause
"""A cluster that the tests of a file share, because one takes seconds to start.

Each test gets it whole and empty; which of its nodes serves a slot may have changed, for slots may
be moved, and replicas take over by CLUSTER FAILOVER. A test that kills, freezes or configures nodes
takes `cluster`, which is its own.
"""

import pytest

from .cluster import Cluster
from .nodes import Unreachable, settles


class SharedCluster:
    def __init__(self):
        self.cluster = None

    def whole(self):
        """The cluster, without what earlier tests have left; another one, if one of them broke it."""
        if self.cluster and not self._restored():
            self.stop()
        if not self.cluster:
            self.cluster = Cluster()
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
        """No replica may bring back what earlier tests have left, when it takes over."""
        for node in self.cluster.primaries():
            node.ask("FLUSHALL")
            node.ask("FUNCTION", "FLUSH")
        return all(node.ask("DBSIZE") == 0 for node in self.cluster.nodes)

    def stop(self):
        if self.cluster:
            self.cluster.stop()
            self.cluster = None


def is_migrating(node):
    """A slot is on its way to it, or from it."""
    told = node.ask("CLUSTER", "NODES")
    return "->-" in told or "-<-" in told


@pytest.fixture(scope="module")
def file_cluster():
    shared = SharedCluster()
    yield shared
    shared.stop()


@pytest.fixture
def shared_cluster(file_cluster):
    """Three primaries, and a replica of each: see harness/shared_cluster.py."""
    return file_cluster.whole()


@pytest.fixture(name="hasp")
def hasp_of_cluster(shared_cluster, start_hasp):
    """In a file that imports it: hasp in front of that cluster."""
    return start_hasp(upstream=shared_cluster.upstream)
