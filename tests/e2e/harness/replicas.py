# SPDX-License-Identifier: BSD-3-Clause
"""A real primary with real replicas."""

import pytest

from .processes import RedisServer
from .wait import until


class Replicas:
    """A `primary` and its `replicas`. A replica that is frozen acknowledges nothing."""

    def __init__(self, n, *options):
        self.options = ("--repl-diskless-sync-delay", 0, "--repl-timeout", 3600, *options)
        self.primary = RedisServer(*self.options)
        self.replicas = [RedisServer(*self.options, "--replicaof", *self.primary.address) for _ in range(n)]
        self.follow()
        self.primary.client().config_resetstat()

    def follow(self):
        until(lambda: self.primary.client().info("replication")["connected_slaves"] == len(self.replicas) and all(
            replica.client().info("replication")["master_link_status"] == "up" for replica in self.replicas),
            "the replicas to follow")
        until(lambda: self.primary.client().wait(len(self.replicas), 1000) == len(self.replicas),
              "the replicas to acknowledge")

    def restore(self):
        """Restores the initial state, without data."""
        for replica in self.replicas:
            replica.thaw()
        self.primary.client().flushall()
        self.follow()
        self.primary.client().config_resetstat()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in (*self.replicas, self.primary):
            server.stop()
            server.remove()


@pytest.fixture(scope="module")
def servers():
    """A primary and two replicas, for test_replicas_ack*."""
    with Replicas(2) as servers:
        yield servers


@pytest.fixture
def replicas(servers):
    yield servers.replicas
    servers.restore()
