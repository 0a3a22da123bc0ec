# SPDX-License-Identifier: BSD-3-Clause
"""Locks, queues and guards over three primaries: when slots move or primaries die, waiters keep
their order and holders keep their locks."""

import contextlib

import pytest
from harness import Connection, encode, until
from harness.cluster import Cluster
from harness.guards import guard
from harness.line import queue_of
from harness.nodes import settles
from harness.replies import CROSSSLOT, NIL, OK, ONE, bulk, fence
from harness.sections import rule, verbs
from harness.wait import readable

WAIT_MS = 120000
RELEASING = verbs(on_disconnect="release")
PATIENT = "\nfailover_wait = 600s"


@pytest.fixture(scope="module")
def still():
    """A cluster of three primaries. Tests may move its slots, but kill no node."""
    with Cluster(replicas=0) as cluster:
        yield cluster


def start(start_hasp, cluster, rules, limits="", **options):
    hasp = start_hasp(rules, upstream=cluster.upstream + limits, **options)
    for node in cluster.primaries():
        until(lambda node=node: f"upstream_up address={node} " in hasp.log, f"{node} to be known")
    return hasp


def keys_of(cluster, prefix):
    """Returns one key for each primary."""
    keys = {}
    for n in range(100):
        keys.setdefault(cluster.owner(f"{prefix}:{n}"), f"{prefix}:{n}")
    assert len(keys) == 3
    return list(keys.values())


def waiting(cluster, queue, key):
    """Returns how many clients wait in the queue of `key`."""
    return settles(lambda: cluster.owner(key).ask("ZCARD", queue) + 1, "an answer") - 1


def until_renewed(*places):
    """Waits until hasp has renewed the leases of the locks, each a (node, key)."""
    ends = [(node, key, settles(lambda: node.ask("PEXPIRETIME", key), "an answer")) for node, key in places]
    settles(lambda: all(node.ask("PEXPIRETIME", key) > end for node, key, end in ends), "all leases to be renewed")


def stand(cluster, connection, *command, queue=None):
    """Sends the command, and returns when the client is in the queue."""
    key = command[1]
    queue = queue or queue_of(key)
    before = waiting(cluster, queue, key)
    connection.send(encode(*command))
    until(lambda: waiting(cluster, queue, key) == before + 1, f"{command} to stand in line")


class Line:
    """One client has the lock `key`; clients of each hasp in turn wait in its queue."""

    def __init__(self, cluster, key, *hasps, n=4):
        self.cluster, self.key = cluster, key
        self.all = [hasps[i % len(hasps)].connect(timeout=120) for i in range(n + 1)]
        self.fence = fence(self.all[0].call("LOCK", key))
        for one in self.all[1:]:
            stand(cluster, one, "LOCK", key, "WAIT", WAIT_MS)

    def serve(self, n=None):
        """Checks that `n` waiters, or all, get the lock in the order of the queue."""
        for one, following in list(zip(self.all, self.all[1:]))[:n]:
            assert one.call("UNLOCK", self.key) == ONE
            latest, self.fence = self.fence, fence(following.read())
            assert self.fence > latest
            self.all.remove(one)
            one.close()

    def end(self):
        assert len(self.all) == 1 and self.all[0].call("UNLOCK", self.key) == ONE
        self.all[0].close()


# --- Redisson's channels, which it publishes to by slot in a cluster -------------------------


@pytest.mark.parametrize("side, channel, message", [
    ((), "redisson_lock__channel:{%s}", b"0"), (("EXCLUSIVE",), "redisson_rwlock:{%s}", b"1")])
def test_redissons_waiters_hear_of_a_release_in_a_cluster(start_hasp, still, side, channel, message):
    hasp = start(start_hasp, still, verbs())
    key = "redisson:1"
    channel = (channel % key).encode()
    node = still.owner(key)
    with hasp.connect() as one, Connection((node.host, node.port)) as theirs:
        assert theirs.call("SSUBSCRIBE", channel).startswith(b"*3\r\n$10\r\nssubscribe\r\n")
        fence(one.call("LOCK", key, *side))
        assert one.call("UNLOCK", key) == ONE
        assert theirs.read().endswith(b"smessage\r\n" + bulk(channel) + bulk(message))


@pytest.mark.parametrize("side, channel", [((), "redisson_lock__channel:{%s}"),
                                           (("EXCLUSIVE",), "redisson_rwlock:{%s}")])
def test_hasp_hears_of_a_release_by_redisson_in_a_cluster(start_hasp, still, side, channel):
    hasp = start(start_hasp, still, verbs())
    key = "redisson:2"
    channel, node = channel % key, still.owner(key)
    with hasp.connect() as one:
        node.ask("HSET", key, *(("mode", "write", "they:1:write", 1) if side else ("they:1", 1)))
        stand(still, one, "LOCK", key, "WAIT", WAIT_MS, *side)
        until(lambda: dict([node.ask("PUBSUB", "SHARDNUMSUB", channel)]) == {channel: 1}, "hasp's subscription to Redisson's channel")

        before = polls_at(node)

        def has_polled():
            node.ask("SPUBLISH", channel, "0")
            return polls_at(node) > before + 60  # more polls than the checks of a minute, so messages caused them

        until(has_polled, "hasp to poll when a message arrives")
        node.ask("DEL", key)
        node.ask("SPUBLISH", channel, "0")
        assert fence(one.read())
        assert one.call("UNLOCK", key) == ONE


# --- slots that do not move -----------------------------------------------------------------


def test_locks_are_taken_waited_for_and_handed_off_at_each_primary(start_hasp, still):
    hasp = start(start_hasp, still, RELEASING, workers=2)
    lines = [Line(still, key, hasp) for key in keys_of(still, "k")]
    for line in lines:
        line.serve(2)
    for line in lines:
        line.all.pop(0).close()  # closing releases its lock
        assert fence(line.all[0].read()) > line.fence
        line.serve()
        line.end()
    for line in lines:
        assert still.owner(line.key).ask("EXISTS", line.key, queue_of(line.key)) == 0


def test_rules_with_wait_and_renewal_hold_at_each_primary(start_hasp, still):
    hasp = start(start_hasp, still, rule(wait="120s", lease="6s", on_disconnect="release"))
    keys = keys_of(still, "lock")
    nodes = [still.owner(key) for key in keys]
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(hasp.connect())
        others = [stack.enter_context(hasp.connect()) for _ in keys]
        for key, other in zip(keys, others):
            assert one.call("SETNX", key, "one") == ONE
            stand(still, other, "SETNX", key, "other")
        until_renewed(*zip(nodes, keys))
        one.close()
        assert [other.read() for other in others] == [ONE] * 3
        assert [node.ask("GET", key) for node, key in zip(nodes, keys)] == ["other"] * 3


def test_guards_hold_at_each_primary(start_hasp, still):
    hasp = start(start_hasp, still, guard())
    with hasp.connect() as one, hasp.connect() as other:
        for key in keys_of(still, "stock"):
            assert one.call("GET", key) == NIL
            stand(still, other, "GET", key, queue=f"hasp:queue:hasp:guard:{{{key}}}:")
            assert one.call("SET", key, 1) == OK
            assert other.read() == bulk("1")
            assert other.call("SET", key, 2) == OK


def test_a_lock_that_ends_by_itself_is_noticed_at_each_primary(start_hasp, still):
    hasp = start(start_hasp, still, RELEASING)
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(hasp.connect())
        for key in keys_of(still, "k"):
            other = stack.enter_context(hasp.connect())
            assert fence(one.call("LOCK", key, "PX", 3000))
            stand(still, other, "LOCK", key, "WAIT", WAIT_MS)
            assert fence(other.read())


def test_locks_of_one_slot_are_deleted_together_and_no_others(start_hasp, still):
    hasp = start(start_hasp, still, rule(wait="120s"))
    with hasp.connect() as one, hasp.connect() as other:
        assert [one.call("SETNX", f"lock:{{a}}{n}", 1) for n in range(3)] == [ONE] * 3
        assert other.call("DEL", *[f"lock:{{a}}{n}" for n in range(3)]) == b":0\r\n"
        assert one.call("DEL", *[f"lock:{{a}}{n}" for n in range(3)]) == b":3\r\n"
        assert one.call("DEL", *keys_of(still, "lock")) == CROSSSLOT


def test_locks_are_taken_in_transactions_at_each_primary(start_hasp, still):
    hasp = start(start_hasp, still, rule(on_disconnect="release") + RELEASING)
    with hasp.connect() as one, hasp.connect() as other:
        for key in keys_of(still, "lock"):
            assert [one.call("MULTI"), one.call("SETNX", key, 1)] == [OK, b"+QUEUED\r\n"]
            assert one.call("EXEC") == b"*1\r\n" + ONE
            assert other.call("DEL", key) == b":0\r\n"


# --- slots that move ----------------------------------------------------------------------------


def test_a_line_goes_on_where_its_slot_has_gone(start_hasp, still):
    hasp = start(start_hasp, still, RELEASING, workers=2)
    line = Line(still, "moving", hasp, n=7)
    for _ in range(3):
        still.migrate(still.slot(line.key), still.other_than(line.key))
        line.serve(2)
    with hasp.connect() as newcomer:
        stand(still, newcomer, "LOCK", line.key, "WAIT", WAIT_MS)
        line.serve()
        assert line.all[0].call("UNLOCK", line.key) == ONE
        assert fence(newcomer.read()) > line.fence


def test_of_two_processes_too(start_hasp, still):
    """A release in one hasp wakes a waiter in the other."""
    hasps = [start(start_hasp, still, RELEASING) for _ in range(2)]
    line = Line(still, "moving", *hasps)
    for _ in range(2):
        still.migrate(still.slot(line.key), still.other_than(line.key))
        line.serve(2)
    line.end()


def test_while_its_slot_moves_a_release_waits(start_hasp, still):
    hasp = start(start_hasp, still, RELEASING)
    line = Line(still, "moving", hasp, n=2)
    holder, first, _ = line.all
    slot, to = still.slot(line.key), still.other_than(line.key)
    source = still.begin_migration(slot, to)
    assert still.move_keys(slot, source, to, at_most=1) == 1
    holder.send(encode("UNLOCK", line.key))
    with hasp.connect() as another:
        assert another.call("PING") == b"+PONG\r\n"
        while still.move_keys(slot, source, to):
            pass
        still.end_migration(slot, source, to)
    assert holder.read() == ONE
    assert fence(first.read()) > line.fence
    line.fence, line.all = 0, line.all[1:]
    line.serve()
    line.end()


def polls_at(node):
    """Returns how often poll.lua has run at the node; see polls() in harness/line.py."""
    return node.ask("INFO", "commandstats").get("cmdstat_zrangebyscore", {}).get("calls", 0)


@pytest.mark.parametrize("command, args, reply", [("DEL", [], ONE), ("GETDEL", [], bulk("mine")), ("PEXPIREAT", [1], ONE)])
def test_when_its_slot_begins_to_move_a_lock_is_deleted_with_the_reply(start_hasp, still, command, args, reply):
    key = f"lock:{command}"
    slot = still.slot(key)
    hasp = start(start_hasp, still, rule(wait="60s", max_lease="1h") + verbs())
    with hasp.connect() as one, hasp.connect() as other:
        # All keys that the script names must exist: otherwise the node refuses to run the script.
        assert fence(one.call("LOCK", f"{{{key}}}")) > 0
        assert one.call("UNLOCK", f"{{{key}}}") == ONE
        assert one.call("SET", key, "mine", "NX") == OK
        stand(still, other, "SET", key, "its", "NX")
        to = next(node for node in still.primaries() if node is not still.owner(slot))
        source = still.begin_migration(slot, to)
        try:
            assert one.call(command, key, *args) == reply
        finally:
            for node in to, source:
                node.ask("CLUSTER", "SETSLOT", slot, "STABLE")
        assert other.read() == OK


def test_while_its_slot_moves_a_reader_whose_key_has_not_moved_yet_keeps_the_lock(start_hasp, still):
    hasp = start(start_hasp, still, RELEASING)
    key = "moving"
    with hasp.connect() as reader, hasp.connect(timeout=120) as writer:
        assert fence(reader.call("LOCK", key, "SHARED")) == fence(reader.call("LOCK", key, "SHARED"))
        stand(still, writer, "LOCK", key, "WAIT", WAIT_MS, "EXCLUSIVE")
        slot, to = still.slot(key), still.other_than(key)
        source = still.begin_migration(slot, to)
        all_keys = source.ask("CLUSTER", "GETKEYSINSLOT", slot, 100)
        moved = [name for name in all_keys if "rwlock_timeout" not in name]
        assert len(all_keys) - len(moved) == 2
        assert source.ask("MIGRATE", to.host, to.port, "", 0, 5000, "KEYS", *moved) == "OK"
        before = polls_at(to)

        def is_answered():
            return readable(writer.sock)

        until(lambda: polls_at(to) > before + 1 or is_answered(), "hasp to poll the lock at the new node")
        assert not is_answered()
        while still.move_keys(slot, source, to):
            pass
        still.end_migration(slot, source, to)
        assert reader.call("UNLOCK", key) == reader.call("UNLOCK", key) == ONE
        assert fence(writer.read())


@contextlib.contextmanager
def half_moved(cluster, key, gone=None):
    """Moves one key of the slot, or `gone`, so that no node can run a command on several of its
    keys."""
    slot, to = cluster.slot(key), cluster.other_than(key)
    source = cluster.begin_migration(slot, to)
    if gone:
        assert source.ask("MIGRATE", to.host, to.port, "", 0, 5000, "KEYS", gone) == "OK"
    else:
        assert cluster.move_keys(slot, source, to, at_most=1) == 1
    yield
    while cluster.move_keys(slot, source, to):
        pass
    cluster.end_migration(slot, source, to)


def test_while_its_slot_moves_none_waits_longer_than_it_would(start_hasp, still):
    """A waiter whose queue is out of reach still gets nil when its time to wait is over."""
    hasp = start(start_hasp, still, RELEASING, PATIENT)
    line = Line(still, "moving", hasp, n=1)
    with hasp.connect() as late, hasp.connect() as another:
        with half_moved(still, line.key):
            assert late.call("LOCK", line.key, "WAIT", 300) == NIL
            late.send(encode("SET", line.key + "{moving}", 1) + encode("LOCK", line.key, "WAIT", 300))
            assert [late.read(), late.read()] == [OK, NIL]
            assert another.call("PING") == b"+PONG\r\n"
        assert late.call("LOCK", line.key) == NIL
    line.serve()
    line.end()


def test_while_its_slot_moves_a_rule_and_a_guard_wait_no_longer_either(start_hasp, still):
    hasp = start(start_hasp, still, rule(wait="300ms", lease="60s") + guard(wait="300ms"), PATIENT)
    with hasp.connect() as one, hasp.connect() as late:
        assert one.call("SETNX", "lock:moving", "one") == ONE
        with half_moved(still, "lock:moving"):
            assert late.call("SETNX", "lock:moving", "late") == b":0\r\n"
        assert one.call("DEL", "lock:moving") == ONE
        assert one.call("GET", "stock:moving") == NIL
        still.owner("stock:moving").ask("SET", "{stock:moving}", "of its slot")
        with half_moved(still, "stock:moving"):
            assert late.call("GET", "stock:moving").startswith(b"-LOCKED ")
            assert late.call("PING") == b"+PONG\r\n"
        assert late.call("SET", "stock:moving", "late").startswith(b"-LOCKLOST ")
        assert one.call("SET", "stock:moving", 1) == OK


def test_while_its_slot_moves_several_locks_are_waited_for_no_longer_either(start_hasp, still):
    hasp = start(start_hasp, still, RELEASING, PATIENT)
    first, second = "a{several}", "several"
    with hasp.connect() as holder, hasp.connect() as late:
        assert fence(holder.call("LOCK", second)) > 0
        late.send(encode("MLOCK", 2, first, second, "WAIT", 2000))
        until(lambda: waiting(still, queue_of(second), second) == 1, "the client to enter the queue")
        with half_moved(still, second):
            assert late.read() == NIL
            assert late.call("PING") == b"+PONG\r\n"
        until(lambda: holder.call("LOCK", first) != NIL, "the MLOCK's first lock to be released")
        assert holder.call("MUNLOCK", 2, first, second) == b":2\r\n"


def test_a_rule_renews_what_has_moved(start_hasp, still):
    hasp = start(start_hasp, still, rule(lease="6s", on_disconnect="release"))
    with hasp.connect() as one:
        assert one.call("SETNX", "lock:moving", "v") == ONE
        still.migrate(still.slot("lock:moving"), still.other_than("lock:moving"))
        node = still.owner("lock:moving")
        until_renewed((node, "lock:moving"))
    until(lambda: not node.ask("EXISTS", "lock:moving"), "the lock to be released")


# --- primaries that die ------------------------------------------------------------------------


def replicated(cluster, primary):
    """Waits until the replica has all writes, because later ones die with the primary."""
    replica, *_ = settles(lambda: cluster.replicas_of(primary), "the primary's replica")
    written = primary.role()[1]
    settles(lambda: replica.role()[4] >= written, "the replica to have all writes")


def kill_owner(cluster, key):
    old = cluster.owner(key)
    replicated(cluster, old)
    old.kill()
    return cluster.until_moved_from(old, key)


def test_a_line_goes_on_where_the_replica_took_over(start_hasp, cluster):
    hasps = [start(start_hasp, cluster, RELEASING, workers=2) for _ in range(2)]
    keys = keys_of(cluster, "k")
    lines = [Line(cluster, key, *hasps, n=5) for key in keys]
    kill_owner(cluster, keys[0])
    for line in reversed(lines):
        line.serve()
        line.end()


def test_others_are_not_kept_waiting_by_a_primary_that_is_dead(start_hasp, cluster):
    hasp = start(start_hasp, cluster, RELEASING + rule(lease="5s", wait="120s"))
    dead, alive, _ = keys_of(cluster, "k")
    with hasp.connect() as one:
        assert fence(one.call("LOCK", dead))
        with cluster.owner(dead).frozen():
            line = Line(cluster, alive, hasp)
            line.serve()
            line.end()
    cluster.until_ok()


@pytest.mark.parametrize("command", [("LOCK", "{k}", "WAIT", "100"), ("SETNX", "lock:{k}", "v"), ("SET", "guarded:{k}", "v")])
def test_the_error_names_the_primary_that_is_dead(start_hasp, command):
    rules = verbs() + rule(wait="100ms") + guard(pattern="guarded:*", wait="100ms")
    with Cluster(replicas=0) as cluster:
        hasp = start(start_hasp, cluster, rules, PATIENT)
        dead = cluster.owner("{k}")
        dead.kill()
        until(lambda: f"upstream_down address={dead} " in hasp.log, "hasp to miss the primary")
        with hasp.connect() as c:
            assert c.call(*command) == (b"-ERR hasp: upstream %s: it cannot be reached, and the wait for a lock timed out\r\n"
                                        % str(dead).encode())
            assert c.call("ECHO", "open") == bulk("open")


def test_a_hold_is_renewed_at_the_new_primary_and_released_there(start_hasp, cluster):
    hasp = start(start_hasp, cluster, rule(lease="20s", on_disconnect="release"))
    with hasp.connect() as one:
        assert one.call("SETNX", "lock:1", "v") == ONE
        node = kill_owner(cluster, "lock:1")
        until_renewed((node, "lock:1"))
        assert one.call("PING") == b"+PONG\r\n"
    until(lambda: not node.ask("EXISTS", "lock:1"), "the lock to be released")


def test_a_wait_that_begins_at_a_dead_primary_is_at_the_replica_that_took_over(start_hasp, cluster):
    """hasp cannot subscribe at the dead primary, but the client waits for its whole time."""
    hasp = start(start_hasp, cluster, rule(lease="60s", wait="120s"))
    with hasp.connect() as one, hasp.connect() as late:
        assert one.call("SETNX", "lock:1", "v") == ONE
        old = cluster.owner("lock:1")
        replicated(cluster, old)
        old.kill()
        late.send(encode("SETNX", "lock:1", "w"))
        until(lambda: f"subscriber_down address={old} " in hasp.log, "hasp to fail to subscribe")
        node = cluster.until_moved_from(old, "lock:1")
        settles(lambda: node.ask("EXISTS", queue_of("lock:1")), "the waiter to enter the queue")
        assert one.call("DEL", "lock:1") == ONE
        assert late.read() == ONE
