# SPDX-License-Identifier: BSD-3-Clause
"""A client does not wait for a lock of its own connection: the commands that could release the lock
would have to wait, too."""

import pytest
from harness import until
from harness.line import nobody_waits, queue_of, soon, stand
from harness.quorum import Quorum, connected
from harness.replies import FENCE, NIL, OK, ONE, ZERO, bulk
from harness.sections import VERBS, verbs
from harness.waiting import KEY, named, rule

RENEW = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"


def refused_at_once(plain, one, *command, answer=NIL, key=KEY):
    """Checks that the client gets the error long before the lock could end, and enters no queue."""
    assert one.call(*command) == answer
    assert plain.pttl(key) > 20000
    assert not plain.exists(queue_of(key))


def test_holder_that_shares_a_connection_does_not_wait_for_the_other_one(share_hasp, plain):
    """The first holder's renewals come after the second one's command, which must not hold them
    up."""
    with share_hasp(rule(owner="value", wait="60s")).connect() as one:
        assert one.call("SET", "lock:1", "a", "NX", "PX", 30000) == OK
        refused_at_once(plain, one, "SET", "lock:1", "b", "NX", "PX", 50000, key="lock:1")
        assert one.call("EVAL", RENEW, 1, "lock:1", "a", 40000) == ONE
        refused_at_once(plain, one, "SETNX", "lock:1", "b", answer=ZERO, key="lock:1")
        assert one.call("GET", "lock:1") == bulk("a")


def test_lock_that_a_script_renewed_past_its_lease_is_not_waited_for(share_hasp, plain):
    with share_hasp(rule(owner="value", wait="60s")).connect() as one:
        assert one.call("SET", "lock:1", "a", "NX", "PX", 2000) == OK
        assert one.call("EVAL", RENEW, 1, "lock:1", "a", 30000) == ONE
        until(lambda: plain.pttl("lock:1") < 27900, "the first lease to end")
        refused_at_once(plain, one, "SET", "lock:1", "b", "NX", "PX", 5000, key="lock:1")


def test_lock_that_a_script_released_is_waited_for_when_another_client_has_it(share_hasp, plain):
    hasp = share_hasp(rule(owner="value"))
    release = "return redis.call('del', KEYS[1])"
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:1", "a", "NX", "PX", 60000) == OK
        assert one.call("EVAL", release, 1, "lock:1") == ONE
        assert other.call("SET", "lock:1", "b", "NX", "PX", 60000) == OK
        stand(plain, one, "SET", "lock:1", "c", "NX", "PX", 60000)
        assert other.call("DEL", "lock:1") == ONE
        assert soon(plain, one) == OK


@pytest.mark.parametrize("owner", ["connection", "address"])
def test_connection_that_has_the_lock_of_a_rule_is_refused_it_at_once(share_hasp, plain, owner):
    with share_hasp(rule(owner=owner, wait="60s")).connect() as one:
        assert one.call("SETNX", "lock:1", "v") == ONE
        refused_at_once(plain, one, "SETNX", "lock:1", "v", answer=ZERO, key="lock:1")
        refused_at_once(plain, one, "SET", "lock:1", "w", "NX", key="lock:1")


def test_connection_that_changed_its_name_does_not_wait_for_what_it_has(share_hasp, plain):
    with named(share_hasp(rule(owner="name", wait="60s")).connect(), "alice") as one:
        assert one.call("SETNX", "lock:1", "v") == ONE
        named(one, "bob")
        refused_at_once(plain, one, "SETNX", "lock:1", "v", answer=ZERO, key="lock:1")


@pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
def test_lock_does_not_wait_for_another_owner_of_its_connection(share_hasp, plain, reentrant):
    with share_hasp(verbs(reentrant=reentrant)).connect() as one:
        assert one.call("LOCK", KEY, "AS", "r1") == FENCE
        refused_at_once(plain, one, "LOCK", KEY, "WAIT", 60000, "AS", "r2")
        assert one.call("UNLOCK", KEY, "AS", "r1") == ONE
        assert one.call("LOCK", KEY, "WAIT", 60000, "AS", "r2") == FENCE


def test_lock_waits_for_what_another_connection_took_by_the_same_owner_as_before(clients, plain):
    """The connection has released its lock, so it waits for a lock of the same owner elsewhere."""
    one, other = clients(2, VERBS)
    assert one.call("LOCK", KEY, "AS", "r1") == FENCE
    assert one.call("UNLOCK", KEY, "AS", "r1") == ONE
    assert other.call("LOCK", KEY, "AS", "r1") == FENCE
    stand(plain, one, "LOCK", KEY, "WAIT", 60000, "AS", "r2")
    assert other.call("UNLOCK", KEY, "AS", "r1") == ONE
    assert soon(plain, one) == FENCE


@pytest.mark.parametrize("has, asks", [("EXCLUSIVE", "EXCLUSIVE"), ("EXCLUSIVE", "SHARED"), ("SHARED", "EXCLUSIVE")])
def test_side_of_a_read_write_lock_is_not_waited_for_beside_ones_own(share_hasp, plain, has, asks):
    with share_hasp(VERBS).connect() as one:
        assert one.call("LOCK", KEY, has, "AS", "r1") == FENCE
        refused_at_once(plain, one, "LOCK", KEY, asks, "WAIT", 60000, "AS", "r2")


def test_place_of_a_semaphore_is_not_waited_for_beside_ones_own(share_hasp, plain):
    hasp = share_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY, "LIMIT", 2, "AS", "r1") == FENCE
        assert other.call("LOCK", KEY, "LIMIT", 2, "AS", "r2") == FENCE
        refused_at_once(plain, one, "LOCK", KEY, "LIMIT", 2, "WAIT", 60000, "AS", "r3")
        with hasp.connect() as third:
            stand(plain, third, "LOCK", KEY, "LIMIT", 2, "WAIT", 60000, "AS", "r4")
            assert one.call("UNLOCK", KEY, "AS", "r1") == ONE
            assert third.read() == FENCE


@pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
def test_mlock_does_not_wait_for_another_owner_of_its_connection(clients, plain, reentrant):
    """MLOCK can never get all of its locks, so it waits for none."""
    one, other = clients(2, verbs(reentrant=reentrant))
    assert one.call("LOCK", "k:2", "AS", "r1") == FENCE
    assert other.call("LOCK", "k:1") == FENCE
    refused_at_once(plain, one, "MLOCK", 3, "k:1", "k:2", "k:3", "WAIT", 60000, "AS", "r2", key="k:2")
    nobody_waits(plain, "k:1")
    assert not plain.exists("k:3")
    assert other.call("UNLOCK", "k:1") == ONE
    refused_at_once(plain, one, "MLOCK", 3, "k:1", "k:2", "k:3", "WAIT", 60000, "AS", "r2", key="k:2")
    assert not plain.exists("k:1")
    assert one.call("UNLOCK", "k:2", "AS", "r1") == ONE
    assert one.call("MLOCK", 3, "k:1", "k:2", "k:3", "WAIT", 60000, "AS", "r2") == FENCE


@pytest.fixture
def quorum():
    with Quorum() as quorum:
        yield quorum


def test_lock_of_a_quorum_is_not_waited_for_by_its_own_connection(start_hasp, quorum):
    sections = quorum.sections(lease="60s", max_lease="60s") + rule(
        quorum="locks", wait="60s", owner="value", lease="60s", max_lease="60s")
    hasp = connected(start_hasp(sections, workers=1).is_up(), 5)
    with hasp.connect() as one:
        assert one.call("LOCK", KEY, "AS", "r1") == FENCE
        assert one.call("LOCK", KEY, "WAIT", 60000, "AS", "r2") == NIL
        assert one.call("UNLOCK", KEY, "AS", "r1") == ONE
        assert one.call("LOCK", KEY, "WAIT", 60000, "AS", "r2") == FENCE
        assert one.call("SET", "lock:1", "a", "NX") == OK
        assert one.call("SETNX", "lock:1", "b") == ZERO
        assert one.call("SET", "lock:1", "b", "NX", "PX", 60000) == NIL
        assert one.call("DEL", "lock:1") == ONE
