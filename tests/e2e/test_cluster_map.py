# SPDX-License-Identifier: BSD-3-Clause
"""How hasp finds the map of a cluster, and which nodes it stays connected to."""

import contextlib
import re
import socket
import threading

import pytest

from harness import encode, until
from harness.marks import covers
from harness.resp import Connection
from harness.sections import verbs
from harness.shared_cluster import hasp_of_cluster  # noqa: F401

NODES = 500


class Seed:
    """A node that answers CLUSTER SLOTS with the reply `slots`, or with what the function `slots`
    returns. If `slots` is None, it does not answer."""

    def __init__(self):
        self.slots = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=self.listener.accept()[:1], daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError), sock:
            while piece := sock.recv(65536):
                if self.slots:
                    slots = self.slots(piece) if callable(self.slots) else self.slots
                    sock.sendall(b"".join(slots if word == b"SLOTS" else b"$1\r\nx\r\n"
                                          for word in re.findall(rb"INFO|SLOTS", piece)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def poison(port):
    """Returns a slot map of NODES nodes, all with the port `port`."""
    hosts = [f"127.1.{n // 250}.{n % 250 + 1}" for n in range(NODES)]
    return b"*%d\r\n" % NODES + b"".join(
        b"*3\r\n:%d\r\n:%d\r\n*3\r\n$%d\r\n%s\r\n:%d\r\n$1\r\nx\r\n" % (
            n * 30, n * 30 + 29, len(host), host.encode(), port) for n, host in enumerate(hosts))


@pytest.fixture(name="poisoner")
def a_poisoner():
    """Listens at each address of the poisoned map, and never answers."""
    with socket.create_server(("", 0), backlog=1) as silent, Seed() as seed:
        seed.slots = poison(silent.getsockname()[1])
        yield seed


def is_served(hasp):
    with hasp.connect() as client:
        return client.call("SET", "key", 1) == b"+OK\r\n"


def until_poisoned(hasp):
    until(lambda: hasp.log.count(" cluster_node_added ") == NODES, "the nodes of the poisoned map")


@covers("cluster_node_added", "cluster_node_gone")
def test_a_reload_asks_the_nodes_that_it_names_first(shared_cluster, start_hasp, poisoner):
    hasp = start_hasp(upstream=f"cluster = {poisoner.address}\nfailover_wait = 5s", workers=1)
    until_poisoned(hasp)
    poisoner.slots = None
    hasp.reload(f"cluster = {poisoner.address}", shared_cluster.upstream)
    assert "restart_needed" not in hasp.log
    until(lambda: is_served(hasp), "hasp to use the cluster that the file names now")
    until(lambda: hasp.log.count(" cluster_node_gone ") == NODES, "hasp to leave all nodes of the poisoned map")


def test_a_map_of_nodes_that_are_all_silent_is_gone_through_in_failover_wait(shared_cluster, start_hasp, poisoner):
    with Seed() as seed, Connection(shared_cluster.nodes[0].address) as node:
        hasp = start_hasp(upstream=f"cluster = {poisoner.address} {seed.address}\nfailover_wait = 5s", workers=1)
        until_poisoned(hasp)
        poisoner.slots, seed.slots = None, node.call("CLUSTER", "SLOTS")
        until(lambda: is_served(hasp), "the nodes that the file names to be asked")


@covers("cluster_map_failed", "cluster_map_recovered")
def test_a_node_that_fails_is_logged_once_and_once_when_it_answers(shared_cluster, start_hasp):
    asked = []
    with Seed() as seed, Connection(shared_cluster.nodes[0].address) as node:
        seed.slots = lambda piece: asked.append(piece) or b"-ERR no map\r\n"
        hasp = start_hasp(upstream=f"cluster = {seed.address}", workers=1)
        until(lambda: len(asked) >= 5, "hasp to ask five times")
        assert hasp.log.count("cluster_map") == 1
        assert f'cluster_map_failed address={seed.address} reason="ERR no map"' in hasp.log
        seed.slots = node.call("CLUSTER", "SLOTS")
        until(lambda: f"cluster_map_recovered address={seed.address}" in hasp.log, "hasp to log the recovery")


def own_connections(node):
    return [name for name in re.findall(r" name=(\S*)", node.ask("CLIENT", "LIST", "TYPE", "normal"))
            + re.findall(r" name=(\S*)", node.ask("CLIENT", "LIST", "TYPE", "pubsub")) if name.startswith("hasp-")]


def test_hasp_leaves_a_node_that_is_no_primary_any_more(shared_cluster, start_hasp):
    hasp = start_hasp(verbs(), upstream=shared_cluster.upstream)
    with hasp.connect() as holder, hasp.connect() as waiter, hasp.connect() as client:
        fence = int(holder.call("LOCK", "lock")[1:])
        waiter.send(encode("LOCK", "lock", "WAIT", 60000))
        old = shared_cluster.owner("lock")
        until(lambda: any("subscriber" in name for name in own_connections(old)), "hasp to subscribe at the old primary")
        new = shared_cluster.failover(old)
        until(lambda: own_connections(new), "hasp to connect to the new primary")
        until(lambda: not own_connections(old), "hasp to leave the old primary")
        # The old node becomes the primary again, and hasp leaves the other one.
        assert client.call("SET", "key", 1) == b"+OK\r\n"
        assert shared_cluster.failover(new) is old
        until(lambda: not own_connections(new), "hasp to leave the former primary")
        assert holder.call("UNLOCK", "lock") == b":1\r\n"
        assert int(waiter.read()[1:]) > fence
