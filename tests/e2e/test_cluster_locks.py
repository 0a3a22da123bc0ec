# SPDX-License-Identifier: BSD-3-Clause
"""Locks and guards in a Redis Cluster: the keys that hasp keeps beside a key are in the same slot.

The cluster has one node with all slots, so only wrong key names can cause -CROSSSLOT.
"""

import contextlib

import pytest
from harness import until
from harness.cluster import Cluster
from harness.guards import guard, is_lost
from harness.line import stand
from harness.replies import CROSSSLOT, NIL, OK, ONE, ZERO, bulk, fence
from harness.sections import VERBS, rule, verbs
from harness.told import told


@pytest.fixture(scope="module")
def node():
    with Cluster(primaries=1, replicas=0) as cluster:
        yield cluster.nodes[0]


@pytest.fixture
def plain(node):
    with node.client() as client:
        client.flushall()
        yield client


@pytest.fixture
def start(start_hasp, node):
    return lambda rules: start_hasp(rules, upstream=str(node)).is_up()


# {key: what stands for it in the names of hasp's own keys, such as hasp:queue:{k}}.
KEYS = {"k": "{k}", "{a}b": "{a}b:", "a{b": "{a{b}", "a}b": "{4w2}a}b!", "{}a": "{4LZ}{}a!", "": "{06S}!"}
EACH = pytest.mark.parametrize("key", KEYS)


def queue_of(key):
    return f"hasp:queue:{KEYS[key]}"


def test_several_locks_of_one_slot_are_taken_as_on_one_server(start, plain):
    hasp = start(VERBS)
    keys = "{t}a", "{t}b", "x{t}"
    with hasp.connect() as one, hasp.connect() as two:
        assert fence(one.call("LOCK", "{t}b")) > 0
        stand(plain, two, "MLOCK", 3, *keys, "WAIT", 60000, queue="hasp:queue:{t}b:")
        assert plain.exists(*keys) == 3
        assert one.call("UNLOCK", "{t}b") == ONE
        token = fence(two.read())
        assert [told(one, key)["fence"] for key in keys] == [token] * 3
        assert two.call("MUNLOCK", 3, *keys) == b":3\r\n"
        assert plain.exists(*keys) == 0


def test_several_locks_of_several_slots_are_refused(start, plain):
    hasp = start(VERBS)
    with hasp.connect() as one:
        for verb in ("MLOCK", "MUNLOCK"):
            assert one.call(verb, 2, "a", "b") == CROSSSLOT
        assert plain.keys() == []
        assert fence(one.call("MLOCK", 1, "a")) == told(one, "a")["fence"]


@EACH
@pytest.mark.parametrize("reentrant, words", [("count", ()), ("refresh", ()), ("no", ()), ("count", ("LIMIT", 1)),
                                              ("count", ("EXCLUSIVE",))])
def test_lock_is_waited_for_handed_off_and_released(start, plain, key, reentrant, words):
    hasp = start(verbs(reentrant=reentrant, on_disconnect="release"))
    with hasp.connect() as one, hasp.connect() as second, hasp.connect() as third:
        first = fence(one.call("LOCK", key, *words))
        stand(plain, second, "LOCK", key, *words, "WAIT", 60000, queue=queue_of(key))
        stand(plain, third, "LOCK", key, *words, "WAIT", 60000, queue=queue_of(key))
        assert told(one, key)["waiters"] == 2
        assert one.call("UNLOCK", key) == ONE
        next_one = fence(second.read())
        assert next_one > first
        assert second.call("LOCK.EXTEND", key, "PX", 60000) == ONE
        assert one.call("LOCK", key, *words) == NIL
        second.close()
        assert fence(third.read()) > next_one
        assert third.call("UNLOCK", key) == ONE
        assert one.call("UNLOCK", key) == ZERO
    (counter,) = plain.keys()
    assert counter.startswith("hasp:fence{")
    assert plain.cluster("KEYSLOT", counter) == plain.cluster("KEYSLOT", key)


def test_locks_of_a_slot_share_a_counter_and_no_others_do(start, plain):
    hasp = start(VERBS)
    with hasp.connect() as one:
        assert fence(one.call("LOCK", "{a}1")) < fence(one.call("LOCK", "{a}2"))
        one.call("LOCK", "b")
    assert len(plain.keys("hasp:fence{*")) == 2


@pytest.mark.parametrize("owner", ["connection", "value"])
@EACH
def test_rule_with_wait_hands_off(start, plain, key, owner):
    hasp = start(rule(pattern="*", wait="60s", owner=owner, on_disconnect="release"))
    with hasp.connect() as one, hasp.connect() as second, hasp.connect() as third:
        assert one.call("SETNX", key, "one") == ONE
        stand(plain, second, "SET", key, "second", "NX", "EX", 60, queue=queue_of(key))
        stand(plain, third, "SETNX", key, "third", queue=queue_of(key))
        assert one.call("DEL", key) == ONE
        assert second.read() == OK
        assert plain.get(key) == "second"
        second.close()
        assert third.read() == ONE
        assert third.call("EXPIRE", key, 60) == ONE
        assert third.call("DEL", key) == ONE
    until(lambda: plain.keys() == [], "no key to be left")


@EACH
def test_rule_renews_what_it_has(start, plain, key):
    hasp = start(rule(pattern="*", lease="3s"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", key, "v") == ONE
        until(lambda: hasp.client() and plain.pexpiretime(key) > 0, "the lease")
        first = plain.pexpiretime(key)
        until(lambda: plain.pexpiretime(key) > first, "the lease to be renewed")
        assert other.call("DEL", key) == ZERO
        assert one.call("DEL", key) == ONE


@EACH
def test_guard_is_waited_for(start, plain, key):
    hasp = start(guard(pattern="*", lease="60s", wait="60s"))
    with hasp.connect() as one:
        assert one.call("GET", key) == NIL
        with hasp.connect() as other:
            stand(plain, other, "GET", key, queue=f"hasp:queue:hasp:guard:{KEYS[key]}:")
            assert one.call("SET", key, 1) == OK
            assert other.read() == bulk("1")
            assert other.call("INCR", key) == b":2\r\n"
        assert one.call("SET", key, 3) == OK
    until(lambda: plain.keys() == [key], "no other key to be left")


def test_guards_of_several_keys_are_taken_in_one_slot_only(start, plain):
    hasp = start(guard(pattern="*", acquire_on="MGET", lease="60s", wait="0"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("MGET", "{a}1", "{a}2") == b"*2\r\n" + NIL * 2
        assert other.call("SET", "{a}1", "x")[:7] == b"-LOCKED"
        assert one.call("MSET", "{a}1", 1, "{a}2", 2) == OK
        assert other.call("SET", "{a}1", "x") == OK
        assert one.call("MGET", "{a}1", "b") == CROSSSLOT
    assert sorted(plain.keys()) == ["{a}1", "{a}2"]


def test_guarded_transaction(start, plain):
    hasp = start(guard(pattern="*", lease="60s"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", "a}b") == NIL
        assert one.call("MULTI") == OK
        assert one.call("SET", "a}b", 1) == b"+QUEUED\r\n"
        assert one.call("EXEC") == b"*1\r\n" + OK
        assert other.call("GET", "a}b") == bulk("1")
        plain.delete("hasp:guard:{4w2}a}b!")
        assert is_lost(other.call("SET", "a}b", 2), key="a}b")


def test_many_locks_are_renewed_and_waited_for_at_once(start, plain):
    """hasp sends one call for each slot."""
    hasp = start(rule(pattern="*", lease="3s", wait="60s"))
    keys = [f"lock:{n}" for n in range(8)] + [f"lock:{{a}}{n}" for n in range(8)]
    with contextlib.ExitStack() as stack:
        one = stack.enter_context(hasp.connect())
        assert [one.call("SETNX", key, "v") for key in keys] == [ONE] * len(keys)
        for key in keys:
            other = stack.enter_context(hasp.connect())
            stand(plain, other, "SETNX", key, "w", queue=f"hasp:queue:{key}:" if "{" in key else None)
        first = {key: plain.pexpiretime(key) for key in keys}
        until(lambda: all(plain.pexpiretime(key) > first[key] for key in keys), "all leases to be renewed")
        assert "renewal_failed" not in hasp.log
        for key in keys:
            plain.delete(key)  # hasp does not see this, and finds it by its check each second
        until(lambda: all(plain.get(key) == "w" for key in keys), "all locks to be handed off")
