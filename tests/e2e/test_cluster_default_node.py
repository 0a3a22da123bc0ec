# SPDX-License-Identifier: BSD-3-Clause
"""Commands without keys do not wait for a dead node if another node is alive."""

from contextlib import ExitStack

from harness import encode, until
from harness.cluster import Cluster
from harness.replies import NIL, OK, PONG, bulk

# Time-outs longer than any test waits, and frequent checks.
LIMITS = "\nserver_timeout = 120s\nserver_check_delay = 50ms\nfailover_wait = 120s"
CLIENTS = 6  # enough clients that each of three nodes is some client's default node


def lone(**options):
    """A cluster without replicas: no node replaces a dead one."""
    return Cluster(replicas=0, node_timeout_ms=120_000, **options)


def is_served(hasp):
    """A new client gets an answer."""
    with hasp.connect(timeout=1) as client:
        try:
            return client.call("PING") == PONG
        except TimeoutError:
            return False


def test_new_clients_are_served_while_a_node_hangs(start_hasp):
    with lone() as cluster:
        hasp = start_hasp(upstream=cluster.upstream + LIMITS)
        until(lambda: is_served(hasp), "hasp to know the cluster")
        with cluster.primaries()[0].frozen():
            until(lambda: all(is_served(hasp) for _ in range(CLIENTS)), "all new clients to be served")


def test_nodes_that_come_up_after_hasp_are_found(start_hasp):
    with lone() as cluster, ExitStack() as stack:
        for node in cluster.nodes:
            node.kill()
        hasp = start_hasp(upstream=cluster.upstream + LIMITS)
        asked = [(("PING",), PONG), (("GET", "a"), NIL), (("MGET", "a", "b", "c"), b"*3\r\n" + NIL * 3), (("DBSIZE",), b":0\r\n"),
                 (("SCRIPT", "LOAD", "return 1"), bulk("e0e1f9fabfc9d4800c877a703b823ac0578ff8db")),
                 (("CLIENT", "SETNAME", "me"), OK)]
        clients = [stack.enter_context(hasp.connect()) for _ in asked]
        for client, (command, _) in zip(clients, asked):
            client.send(encode(*command))
        until(lambda: "cluster_map_failed" in hasp.log, "hasp to fail to read the slot map")
        for node in cluster.nodes:
            node.start()
        for client, (_, reply) in zip(clients, asked):
            assert client.read() == reply


def test_clients_of_a_node_that_dies_go_on_at_another(start_hasp):
    with lone() as cluster, ExitStack() as stack:
        hasp = start_hasp(upstream=cluster.upstream + LIMITS)
        clients = [stack.enter_context(hasp.connect()) for _ in range(CLIENTS)]
        for client in clients:
            assert client.call("PING") == PONG
        dead = cluster.primaries()[0]
        dead.kill()
        until(lambda: f"upstream_down address={dead}" in hasp.log, "hasp to notice the dead node")
        for client in clients:
            assert client.call("PING") == PONG
