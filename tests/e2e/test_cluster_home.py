# SPDX-License-Identifier: BSD-3-Clause
"""Commands without keys do not wait for a node that is dead, as long as another one lives."""

from contextlib import ExitStack

from harness import until
from harness.cluster import Cluster
from harness.replies import PONG

# Longer than any test waits; the checks come often.
LIMITS = "\nserver_timeout = 120s\nserver_check_delay = 50ms\nfailover_wait = 120s"
CLIENTS = 6  # with three nodes, each is the home of some


def lone(**options):
    """Nobody takes the place of a node that dies."""
    return Cluster(replicas=0, node_timeout_ms=120_000, **options)


def is_served(hasp):
    """A client that comes now."""
    with hasp.connect(timeout=1) as client:
        try:
            return client.call("PING") == PONG
        except TimeoutError:
            return False


def test_new_clients_are_served_while_a_node_hangs(start_hasp):
    with lone() as cluster:
        hasp = start_hasp(upstream=cluster.upstream + LIMITS)
        until(lambda: is_served(hasp), "the cluster")
        with cluster.primaries()[0].frozen():
            until(lambda: all(is_served(hasp) for _ in range(CLIENTS)), "all new clients to be served")


def test_clients_of_a_node_that_dies_go_on_at_another(start_hasp):
    with lone() as cluster, ExitStack() as stack:
        hasp = start_hasp(upstream=cluster.upstream + LIMITS)
        clients = [stack.enter_context(hasp.connect()) for _ in range(CLIENTS)]
        for client in clients:
            assert client.call("PING") == PONG
        dead = cluster.primaries()[0]
        dead.kill()
        until(lambda: f"upstream_down address={dead}" in hasp.log, "hasp to notice")
        for client in clients:
            assert client.call("PING") == PONG
