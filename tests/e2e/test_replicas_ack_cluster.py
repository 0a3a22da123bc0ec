# SPDX-License-Identifier: BSD-3-Clause
"""`replicas_ack` in a Redis Cluster: hasp asks each primary's own replicas."""

import pytest
from harness import until
from harness.cluster import Cluster
from harness.guards import guard
from harness.replies import FENCE, NOREPLICAS, OK, ONE, TAKEN, bulk
from harness.sections import rule, verbs


@pytest.fixture(scope="module")
def cluster():
    with Cluster() as cluster:
        yield cluster


def test_replicas_of_the_locks_primary_are_asked(start_hasp, cluster):
    hasp, patient = (start_hasp(rule() + verbs() + guard(), upstream=f"{cluster.upstream}\nreplicas_ack = 1\n"
                                f"replicas_ack_timeout = {timeout}") for timeout in ("100ms", "20s"))
    one_of, other_of = cluster.primaries()[:2]
    (replica,) = cluster.replicas_of(one_of)
    slots = {node: next(slot for slot in range(0, 16384, 50) if cluster.owner(slot) is node)
             for node in (one_of, other_of)}
    with hasp.connect() as hasty, patient.connect() as one:
        for connection in (hasty, one):
            until(lambda: connection.call("SET", "x", 1) == OK, "hasp to know the cluster")  # noqa: B023
        for take, prefix in ((("LOCK",), "k"), (("SETNX", "v"), "lock:"), (("GET",), "stock:")):
            near, far = (cluster.key(slots[node], prefix) for node in (one_of, other_of))
            for key in (near, far):
                assert one.call(take[0], key, *take[1:]) in (*TAKEN, b"$-1\r\n")
                give = {"LOCK": "UNLOCK", "SETNX": "DEL"}.get(take[0])
                assert one.call(*((give, key) if give else ("SET", key, 1))) in (OK, ONE)
            with replica.frozen():
                assert hasty.call(take[0], near, *take[1:]) == NOREPLICAS
                assert one.call(take[0], far, *take[1:]) in (*TAKEN, bulk("1"))


def test_lock_whose_slot_has_moved_is_asked_for_at_its_new_node(start_hasp, cluster):
    hasp = start_hasp(verbs(), upstream=f"{cluster.upstream}\nreplicas_ack = 1\nreplicas_ack_timeout = 10s")
    key = cluster.key(77, "moving")
    with hasp.connect() as one:
        until(lambda: one.call("SET", "x", 1) == OK, "hasp to know the cluster")
        for node in (*cluster.primaries(), cluster.primaries()[0]):
            cluster.migrate(77, node)
            assert one.call("LOCK", key) == FENCE and one.call("UNLOCK", key) == ONE
