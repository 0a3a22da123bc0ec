# SPDX-License-Identifier: BSD-3-Clause
"""Clients of a cluster do not notice that slots move or primaries die.

Replies that a client has got are true: if a counter answered :n, it had that value. Only the result
of a command in flight at a dying node may be unknown, and then the client's connection ends.
"""

import threading

import pytest

from harness import until
from harness.resp import Connection, encode, pipeline
from harness.shared_cluster import hasp_of_cluster  # noqa: F401
from harness.wait import TooSlow

KEYS = [f"key:{n}" for n in range(30)]


class Counter(threading.Thread):
    """Increments its keys by pipelines, and checks every reply."""

    def __init__(self, hasp, name, keys):
        super().__init__()
        self.address, self.keys = hasp.address, [f"{{{key}}}:{name}" for key in keys]
        self.counts = dict.fromkeys(self.keys, 0)
        self.rounds = self.broken = 0
        self.wrong = []
        self.stopping = threading.Event()

    def run(self):
        client = Connection(self.address)
        while not self.stopping.is_set() and not self.wrong:
            batch = [key for key in self.keys for _ in range(2)]
            try:
                replies = pipeline(client, *[("INCR", key) for key in batch])
            except (OSError, EOFError):
                replies = None
            if replies is None:
                client.close()
                client = Connection(self.address)
                self.broken += 1
                self.resume(client)
                continue
            for key, reply in zip(batch, replies):
                self.counts[key] += 1
                if reply != b":%d\r\n" % self.counts[key]:
                    self.wrong.append((key, self.counts[key], reply))
            self.rounds += 1
        client.close()

    def resume(self, client):
        """Reads the counters over a new connection: Redis may have run the INCRs in flight, at most
        two for each key."""
        for key in self.keys:
            reply = client.call("GET", key)
            value = int(reply.split(b"\r\n")[1]) if reply != b"$-1\r\n" else 0
            if not self.counts[key] <= value <= self.counts[key] + 2:
                self.wrong.append((key, self.counts[key], reply))
            self.counts[key] = value

    def end(self):
        self.stopping.set()
        self.join()
        assert not self.wrong


def test_slots_move_to_and_fro_under_load(shared_cluster, hasp):
    counters = [Counter(hasp, name, KEYS) for name in range(3)]
    for one in counters:
        one.start()
    try:
        for key in KEYS[:6]:
            slot = shared_cluster.slot(key)
            before = sum(one.rounds for one in counters)
            old = shared_cluster.owner(slot)
            shared_cluster.migrate(slot, to=shared_cluster.other_than(slot))
            shared_cluster.migrate(slot, to=old)
            until(lambda before=before: sum(one.rounds for one in counters) > before + 3
                  or any(one.wrong for one in counters), "rounds of counting")
    finally:
        for one in counters:
            one.end()
    assert not any(one.broken for one in counters)


def test_keys_of_a_slot_that_is_on_its_way_are_found_where_they_are(shared_cluster, hasp):
    slot = shared_cluster.slot("k")
    new = shared_cluster.other_than(slot)
    with hasp.connect() as client:
        client.call("SET", "{k}1", 1)
        client.call("SET", "{k}2", 2)
        source = shared_cluster.begin_migration(slot, new)
        assert client.call("SET", "{k}3", 3) == b"+OK\r\n"
        assert pipeline(client, ("GET", "{k}1"), ("GET", "{k}3"), ("GET", "{k}2")) == [
            b"$1\r\n1\r\n", b"$1\r\n3\r\n", b"$1\r\n2\r\n"]
        assert source.ask("EXISTS", "{k}1") == 1
        # hasp delays RENAME until both keys are at the new node.
        client.send(b"RENAME {k}1 {k}3\r\nGET {k}3\r\n")
        shared_cluster.move_keys(slot, source, new)
        shared_cluster.end_migration(slot, source, new)
        assert [client.read(), client.read()] == [b"+OK\r\n", b"$1\r\n1\r\n"]


def test_requests_that_come_byte_by_byte_are_redirected(shared_cluster, hasp):
    slot = shared_cluster.slot("k")
    new = shared_cluster.other_than(slot)
    commands = [(b"+OK\r\n", "SET", "{k}3", 3), (b"$1\r\n1\r\n", "GET", "{k}1"), (b"$-1\r\n", "GET", "elsewhere"),
                (b"$1\r\n2\r\n", "GET", "{k}2"), (b"$1\r\n3\r\n", "GET", "{k}3"), (b":4\r\n", "INCR", "{k}3"),
                (b"+OK\r\n", "MULTI"), (b"+QUEUED\r\n", "INCR", "{k}4"), (b"*1\r\n:1\r\n", "EXEC"),
                (b"*2\r\n$1\r\n1\r\n$1\r\n2\r\n", "MGET", "{k}1", "{k}2"), (b"*1\r\n$1\r\n4\r\n", "MGET", "{k}3"),
                (b":4\r\n", "DEL", "{k}1", "{k}2", "{k}3", "{k}4")]
    with hasp.connect() as client:
        assert client.call("MSET", "{k}1", 1, "{k}2", 2) == b"+OK\r\n"
        source = shared_cluster.begin_migration(slot, new)
        shared_cluster.move_keys(slot, source, new, at_most=1)
        for byte in b"".join(encode(*command) for _, *command in commands):
            client.send(bytes([byte]))
        for reply, *_ in commands[:6]:
            assert client.read() == reply
        # hasp delays the transaction, and DEL of several keys, until all keys have moved.
        shared_cluster.move_keys(slot, source, new)
        shared_cluster.end_migration(slot, source, new)
        for reply, *_ in commands[6:]:
            assert client.read() == reply


SCRIPT = "return {redis.call('GET', KEYS[1]), redis.call('GET', KEYS[2])}"
LONG = "x" * 2**18
SEVERAL = {
    "in one slot": [("MGET", "{k}1", "{k}2")],
    "among others": [("MGET", "{k}1", "other:1", "{k}2", "other:2")],
    "in a script": [("EVAL", SCRIPT, 2, "{k}1", "{k}2")],
    "in a long request": [("EVAL", SCRIPT, 2, "{k}1", "{k}2", LONG)],
    "in a transaction": [("MULTI",), ("GET", "{k}1"), ("GET", "{k}2"), ("EXEC",)],
}
BEHIND = {
    "one": [("DEL", "KEY")],
    "among others": [("DEL", "KEY", "other:1", "other:2")],
    "long": [("SET", "KEY", LONG)],
    "transaction": [("MULTI",), ("DEL", "KEY"), ("EXEC",)],
}


@pytest.mark.parametrize("several", SEVERAL)
@pytest.mark.parametrize("behind", BEHIND)
def test_what_needs_several_keys_is_not_overtaken_while_some_are_here_and_some_there(shared_cluster, hasp, several, behind):
    slot = shared_cluster.slot("k")
    new = shared_cluster.other_than(slot)
    with hasp.connect() as client:
        # Gives the client links of its own, on which hasp passes long requests on as they arrive.
        client.call("CLIENT", "NO-EVICT", "OFF")
        client.call("SET", "{k}1", 1)
        client.call("SET", "{k}2", 2)
        source = shared_cluster.begin_migration(slot, new)
        before = refusals(source)
        shared_cluster.move_keys(slot, source, new, 1)
        here, = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 2)
        asked = [*SEVERAL[several], *(tuple(here if word == "KEY" else word for word in one) for one in BEHIND[behind])]
        client.send(b"".join(encode(*one) for one in asked))
        until(lambda: refusals(source) > before, "the source to refuse the command, as it lacks a key")
        shared_cluster.move_keys(slot, source, new)
        shared_cluster.end_migration(slot, source, new)
        replies = [client.read() for _ in asked]
        values = replies[len(SEVERAL[several]) - 1]
        assert b"$1\r\n1\r\n" in values and b"$1\r\n2\r\n" in values


def refusals(node):
    """Returns how many commands a node has refused because it lacks some of their keys."""
    return sum(told["rejected_calls"] for told in node.ask("INFO", "commandstats").values())


def test_long_values_follow_a_slot_that_moves(cluster, hasp):
    slot = cluster.slot("k")
    new = next(node for node in cluster.primaries() if node is not cluster.owner(slot))
    values = [b"%d" % n + b"x" * 2**20 for n in range(3)]
    with hasp.connect() as client:
        assert client.call("SET", "{k}", values[0]) == b"+OK\r\n"
        source = cluster.begin_migration(slot, new)
        cluster.move_keys(slot, source, new)
        # The new node has the key. hasp runs the later commands after the redirected one.
        assert pipeline(client, ("SET", "{k}", values[1]), ("STRLEN", "{k}"), ("GETSET", "{k}", values[2])) == [
            b"+OK\r\n", b":%d\r\n" % len(values[1]), b"$%d\r\n%s\r\n" % (len(values[1]), values[1])]
        cluster.end_migration(slot, source, new)
        assert client.call("SET", "{k}", values[0]) == b"+OK\r\n"
        assert client.call("GET", "{k}") == b"$%d\r\n%s\r\n" % (len(values[0]), values[0])


def fill(cluster, client):
    """Sets all KEYS. Returns the primary of the first key, and a key of another primary."""
    for key in KEYS:
        client.call("SET", key, 1)
    cluster.until_ok()
    old = cluster.owner(KEYS[0])
    return old, next(key for key in KEYS if cluster.owner(key) is not old)


def test_a_primary_that_died_is_waited_for_by_those_who_need_it(cluster, start_hasp):
    hasp = start_hasp(upstream=cluster.upstream)
    with hasp.connect() as client:
        old, elsewhere = fill(cluster, client)
        old.kill()
        with hasp.connect() as other:
            assert other.call("INCR", elsewhere) == b":2\r\n"
            assert other.call("INCR", KEYS[0]) in (b":2\r\n", b":1\r\n")
        assert cluster.owner(KEYS[0]) is not old


def test_client_of_a_primary_that_hangs_is_closed_when_it_has_a_successor(cluster, start_hasp):
    hasp = start_hasp(upstream=cluster.upstream)
    with hasp.connect() as client:
        old, elsewhere = fill(cluster, client)
        old.freeze()
        client.send(b"INCR %s\r\n" % KEYS[0].encode())
        with hasp.connect() as other:
            assert other.call("INCR", elsewhere) == b":2\r\n"
        assert cluster.until_moved_from(old, KEYS[0])
        # Redis may have run the INCR, so hasp closes the client instead of answering.
        try:
            raise TooSlow(f"hasp knew the new primary before it read INCR: {client.read()}")
        except (EOFError, ConnectionResetError):
            pass
        with hasp.connect() as other:
            assert other.call("GET", KEYS[0]) in (b"$1\r\n1\r\n", b"$-1\r\n")


def test_a_failover_is_not_seen_by_clients_with_nothing_in_flight(shared_cluster, start_hasp):
    # Not a shared hasp: one that has seen a slot move to `old` keeps that node for up to a minute.
    hasp = start_hasp(upstream=shared_cluster.upstream)
    with hasp.connect() as client:
        for key in KEYS:
            client.call("SET", key, 1)
        for _ in range(2):
            old = shared_cluster.owner(KEYS[0])
            shared_cluster.failover(old)
            # A command sent earlier might be in flight to the old primary, and hasp would close the
            # client.
            until(lambda old=old: f"cluster_node_gone address={old}\n" in hasp.log, "hasp to know the new primary")
            assert pipeline(client, *[("GET", key) for key in KEYS]) == [b"$1\r\n1\r\n"] * len(KEYS)


def test_counts_are_true_while_replicas_take_over(shared_cluster, hasp):
    counters = [Counter(hasp, name, KEYS) for name in range(3)]
    for one in counters:
        one.start()
    try:
        for _ in range(2):
            shared_cluster.failover(shared_cluster.owner(KEYS[0]))
            before = sum(one.rounds for one in counters)
            until(lambda before=before: sum(one.rounds for one in counters) > before + 3
                  or any(one.wrong for one in counters), "rounds of counting")
    finally:
        for one in counters:
            one.end()
