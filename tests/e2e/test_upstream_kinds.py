# SPDX-License-Identifier: BSD-3-Clause
"""Each kind of upstream may start after hasp, and a reload under load changes one kind to
another."""

import threading

import pytest
from harness import RedisServer, encode, until
from harness.cluster import Cluster
from harness.replies import OK, bulk
from harness.sentinel import Sentinels

WAIT = "failover_wait = 60s"


def address(server):
    return f"address = {server.host}:{server.port}"


@pytest.mark.parametrize("kind", ["address", "sentinels", "cluster"])
def test_upstream_that_comes_up_after_hasp_is_found(start_hasp, kind):
    with {"address": RedisServer, "sentinels": Sentinels, "cluster": Cluster}[kind]() as servers:
        upstream = address(servers) if kind == "address" else servers.upstream
        processes = [servers] if kind == "address" else [*servers.nodes, *getattr(servers, "sentinels", ())]
        for process in processes:
            process.kill()
        hasp = start_hasp(upstream=f"{upstream}\n{WAIT}", workers=2)
        with hasp.connect(timeout=60) as c:
            c.send(encode("SET", "k", "v"))
            hasp.take_turn()
            for process in processes:
                process.start()
            assert c.read() == OK


def test_a_cluster_does_not_come_or_go_by_a_reload(start_hasp, redis_server):
    with Cluster(replicas=0) as cluster:
        kinds = [f"address = {redis_server.host}:{redis_server.port}", cluster.upstream]
        for old, new in (kinds, kinds[::-1]):
            hasp = start_hasp(upstream=old)
            with hasp.connect() as client:
                assert client.call("SET", "k", old) == OK
                hasp.edit(old, f"{new}")
                until(lambda: "reload_failed kept=\"the old configuration\" reason=\"adding or removing 'cluster' in [upstream] needs a restart\"" in hasp.log, "hasp to refuse the reload")
                assert client.call("SET", "k", "later") == OK
                with hasp.connect() as other:
                    assert other.call("GET", "k") == bulk("later")
                assert "hasp uses new connections" not in hasp.log


class Reader(threading.Thread):
    """Sends SET in a loop, and connects again if its connection ends. No reply may be an error."""

    def __init__(self, hasp, number):
        super().__init__()
        self.hasp, self.key, self.done, self.stopping, self.faults = hasp, f"k:{number}", 0, False, []

    def run(self):
        while not self.stopping:
            try:
                with self.hasp.connect(timeout=60) as c:
                    while not self.stopping:
                        if (reply := c.call("SET", self.key, self.done)) != OK:
                            self.faults.append(reply)
                        self.done += 1
            except (EOFError, ConnectionError):
                pass
            except OSError as fault:
                self.faults.append(repr(fault))


def test_reloads_go_from_an_address_to_sentinels_and_back_under_load(start_hasp, sentinels):
    with RedisServer() as alone:
        one, other = f"{address(alone)}\n{WAIT}", f"{sentinels.upstream}\n{WAIT}"
        hasp = start_hasp(upstream=one, workers=2)
        readers = [Reader(hasp, n) for n in range(6)]
        for reader in readers:
            reader.start()
        try:
            for server in (sentinels.primary(), alone) * 3:
                hasp.reload(one, other)
                one, other = other, one
                with server.client() as plain:
                    before = {reader.key: plain.get(reader.key) for reader in readers}
                    until(lambda before=before, plain=plain: all(plain.get(key) != was for key, was in before.items()),
                          "all clients to write to the other server")
        finally:
            for reader in readers:
                reader.stopping = True
            for reader in readers:
                reader.join()
    assert [reader.faults for reader in readers] == [[]] * len(readers)
