# SPDX-License-Identifier: BSD-3-Clause
"""client_output_limit bounds the replies of one node that wait for another node's reply."""

import pytest

from harness import encode, until
from harness.cluster import Cluster
from harness.memory import MB, Growth
from harness.replies import OK, PONG, bulk
from harness.sanitizers import sanitized

LIMIT = 8 * MB
# Bytes that hasp may take: its limit, those in transit at the limit, the allocator's overhead.
BOUND = 3 * LIMIT
VALUE = "x" * MB
TIMES = 60


@pytest.fixture
def slow(start_hasp):
    """Returns (node, hasp, keys). Each primary has one key, of a megabyte; keys[0] is the
    node's."""
    with Cluster(replicas=0, node_timeout_ms=60_000) as cluster:
        hasp = start_hasp(upstream=cluster.upstream, client_output_limit=LIMIT, workers=1).is_up(3)
        keys = [next(key for key in map("k{}".format, range(1000)) if cluster.owner(key) is node)
                for node in cluster.primaries()]
        with hasp.connect() as client:
            for key in keys:
                assert client.call("SET", key, VALUE) == OK
        yield cluster.owner(keys[0]), hasp, keys


@pytest.mark.parametrize("pooling", ["session"])
def test_nodes_wait_that_are_faster_than_the_one_whose_turn_it_is(slow):
    node, hasp, (first, *others) = slow
    growth = Growth(hasp)
    with hasp.connect() as client, hasp.connect() as other:
        with node.frozen():
            client.send(encode("GET", first) + b"".join(encode("GET", key) for key in others) * TIMES)
            for key in others * 15:
                assert other.call("GET", key) == bulk(VALUE)
            growth.check(BOUND)
        for _ in range(1 + len(others) * TIMES):
            assert client.read() == bulk(VALUE)
    growth.check(BOUND)


@pytest.mark.parametrize("pooling", ["shared"])
def test_client_whose_replies_come_over_links_of_all_is_closed(slow):
    node, hasp, (first, *others) = slow
    growth = Growth(hasp)
    with hasp.connect() as client:
        assert client.call("PING") == PONG
        with node.frozen():
            client.send(encode("GET", first) + b"".join(encode("GET", key) for key in others) * TIMES)
            assert client.at_end()
        growth.check(BOUND)
        until(lambda: sanitized() or growth.now < LIMIT, "hasp to free the replies")
    assert "client_output_limit" in hasp.log
    with hasp.connect() as client:
        for key in first, *others:
            assert client.call("GET", key) == bulk(VALUE)
