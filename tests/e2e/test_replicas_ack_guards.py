# SPDX-License-Identifier: BSD-3-Clause
"""`replicas_ack` of guards: hasp reads a key only when enough replicas have its guard."""

import pytest
from harness import encode, until
from harness.guards import GUARD, KEY, guard, is_lost, stands, transact
from harness.info import calls, is_waited
from harness.replies import NIL, NOREPLICAS, OK, QUEUED, bulk


@pytest.fixture
def plain(servers):
    return servers.primary.client()


@pytest.fixture
def start(replicas, start_hasp, servers):
    def start_with(**settings):
        return start_hasp(guard(**settings), upstream="address = %s:%d" % servers.primary.address).is_up()
    return start_with


def test_guard_is_on_replicas_before_its_key_is_read(start, replicas, plain):
    hasp = start(replicas_ack=2, replicas_ack_timeout="20s")
    plain.set(KEY, 5)
    with hasp.connect() as one:
        waits, gets = calls(plain, "wait"), calls(plain, "get")
        with replicas[1].frozen():
            one.send(encode("GET", KEY))
            until(lambda: is_waited(plain), "hasp to wait for the replicas")
            assert calls(plain, "get") == gets + 1  # hasp has read the guard's key, and not yet KEY
        assert one.read() == bulk("5")
        assert all(replica.client().exists(GUARD) for replica in replicas)
        assert one.call("SET", KEY, 6) == OK and not plain.exists(GUARD)
        assert calls(plain, "wait") == waits + 1


def test_read_whose_guard_too_few_replicas_have_is_refused_and_its_write_too(start, replicas, plain):
    hasp = start(replicas_ack=2, replicas_ack_timeout="100ms")
    plain.set(KEY, 5)
    with hasp.connect() as one, replicas[1].frozen():
        assert one.call("GET", KEY) == NOREPLICAS
        until(lambda: not plain.exists(GUARD), "the guard to be released")
        assert is_lost(one.call("SET", KEY, 6)) and plain.get(KEY) == "5"
        assert one.call("SET", KEY, 7) == OK  # a write without a read before it needs no replicas


def test_guard_that_is_handed_over_is_on_replicas_too(start, replicas, plain):
    hasp, patient = (start(replicas_ack=1, replicas_ack_timeout=timeout) for timeout in ("200ms", "20s"))
    plain.set(KEY, 5)
    with patient.connect() as one, hasp.connect() as other:
        assert one.call("GET", KEY) == bulk("5")
        stands(plain, other, "GET", KEY)
        with replicas[0].frozen(), replicas[1].frozen():
            assert one.call("SET", KEY, 6) == OK
            assert other.read() == NOREPLICAS
            until(lambda: not plain.exists(GUARD), "the guard to be released")


def test_second_read_under_a_guard_asks_no_more(start, replicas, plain):
    hasp = start(replicas_ack=2, replicas_ack_timeout="20s")
    with hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        with replicas[1].frozen():
            assert one.call("GET", KEY) == NIL and one.call("SET", KEY, 1) == OK


def test_transaction_that_reads_waits_for_replicas(start, replicas, plain):
    hasp = start(replicas_ack=2, replicas_ack_timeout="20s")
    plain.set(KEY, 5)
    with hasp.connect() as one:
        assert transact(one, ("GET", KEY))[-1] == b"*1\r\n" + bulk("5")
        assert all(replica.client().exists(GUARD) for replica in replicas)
        assert one.call("SET", KEY, 6) == OK


def test_transaction_whose_guard_too_few_replicas_have_is_refused(start, replicas, plain):
    hasp = start(replicas_ack=2, replicas_ack_timeout="100ms")
    plain.set(KEY, 5)
    with hasp.connect() as one, replicas[1].frozen():
        assert one.call("MULTI") == OK and one.call("GET", KEY) == QUEUED
        assert one.call("EXEC") == NOREPLICAS
        until(lambda: not plain.exists(GUARD), "the guard to be released")
        assert is_lost(one.call("SET", KEY, 6)) and plain.get(KEY) == "5"
