# SPDX-License-Identifier: BSD-3-Clause
"""Where hasp looks for the map of a cluster, and which nodes it stays connected to."""

import contextlib
import re
import socket
import threading

import pytest

from harness import encode, until
from harness.sections import verbs
from harness.shared_cluster import hasp_of_cluster  # noqa: F401

NODES = 500


class Poisoner:
    """A node that names hundreds of others, at each of which someone takes connections and says nothing."""

    def __init__(self):
        self.silent = socket.create_server(("", 0), backlog=1)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.socks = []
        threading.Thread(target=self.accept, daemon=True).start()

    def slots(self):
        port = self.silent.getsockname()[1]
        hosts = [f"127.1.{n // 250}.{n % 250 + 1}" for n in range(NODES)]
        return b"*%d\r\n" % NODES + b"".join(
            b"*3\r\n:%d\r\n:%d\r\n*3\r\n%s:%d\r\n$1\r\nx\r\n" % (n * 30, n * 30 + 29, encode(host)[4:], port)
            for n, host in enumerate(hosts))

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.socks.append(self.listener.accept()[0])
                threading.Thread(target=self.serve, args=self.socks[-1:], daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError):
            while piece := sock.recv(65536):
                sock.sendall(b"".join(self.slots() if word == b"SLOTS" else b"$1\r\nx\r\n"
                                      for word in re.findall(rb"INFO|SLOTS", piece)))

    def die(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        for sock in self.socks:
            sock.close()
        self.listener.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.die()
        self.silent.close()


@pytest.fixture(name="poisoner")
def a_poisoner():
    with Poisoner() as poisoner:
        yield poisoner


def is_served(hasp):
    with hasp.connect() as client:
        return client.call("SET", "key", 1) == b"+OK\r\n"


def until_poisoned(hasp):
    until(lambda: hasp.log.count(" cluster_node ") == NODES, "the nodes of the poisoned map")


def test_a_reload_asks_the_nodes_that_it_names_first(shared_cluster, start_hasp, poisoner):
    hasp = start_hasp(upstream=f"cluster = {poisoner.address}\nfailover_wait = 5s", workers=1)
    until_poisoned(hasp)
    poisoner.die()
    hasp.reload(f"cluster = {poisoner.address}", shared_cluster.upstream)
    until(lambda: is_served(hasp), "the cluster that the file names now")
    until(lambda: hasp.log.count(" cluster_node_gone ") == NODES, "the others to be left")


def test_a_map_of_nodes_that_are_all_silent_is_gone_through_in_failover_wait(shared_cluster, start_hasp, poisoner):
    seeds = " ".join([poisoner.address, *shared_cluster.addresses])
    hasp = start_hasp(upstream=f"cluster = {seeds}\nfailover_wait = 5s", workers=1)
    until_poisoned(hasp)
    poisoner.die()
    until(lambda: is_served(hasp), "the nodes that the file names to be asked")


def own_connections(node):
    return [name for name in re.findall(r" name=(\S*)", node.ask("CLIENT", "LIST", "TYPE", "normal"))
            + re.findall(r" name=(\S*)", node.ask("CLIENT", "LIST", "TYPE", "pubsub")) if name.startswith("hasp-")]


def test_hasp_leaves_a_node_that_is_no_primary_any_more(shared_cluster, start_hasp):
    hasp = start_hasp(verbs(), upstream=shared_cluster.upstream)
    with hasp.connect() as holder, hasp.connect() as waiter, hasp.connect() as client:
        fence = int(holder.call("LOCK", "lock")[1:])
        waiter.send(encode("LOCK", "lock", "WAIT", 60000))
        old = shared_cluster.owner("lock")
        until(lambda: any("subscriber" in name for name in own_connections(old)), "hasp to listen there")
        new = shared_cluster.failover(old)
        until(lambda: own_connections(new), "hasp at the new primary")
        until(lambda: not own_connections(old), "hasp to leave the old one")
        # Also if it is the primary once more.
        assert client.call("SET", "key", 1) == b"+OK\r\n"
        assert shared_cluster.failover(new) is old
        until(lambda: not own_connections(new), "hasp to leave the other one, too")
        assert holder.call("UNLOCK", "lock") == b":1\r\n"
        assert int(waiter.read()[1:]) > fence
