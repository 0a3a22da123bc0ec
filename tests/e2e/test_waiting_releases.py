# SPDX-License-Identifier: BSD-3-Clause
"""Every release of a lock gives it to the next waiter: by commands, transactions, scripts or the
end of the lease."""

import contextlib
import time

import pytest
from harness import encode, until
from harness.line import entries, rechecks, soon, stand
from harness.replies import FENCE, OK, ONE, TAKEN, ZERO
from harness.sections import VERBS, verbs
from harness.waiting import KEY, rule

COMPARE_AND_DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"


def test_del_of_several_keys_hands_off_each_of_them(clients, plain):
    one, other, third, none = clients(4, rule() + "[lock other]\npattern = other:*\n")
    for key in ("lock:1", "lock:2", "lock:3", "other:1"):
        assert one.call("SETNX", key, "v") == ONE
    assert none.call("SETNX", "other:2", "v") == ONE
    stand(plain, other, "SETNX", "lock:1", "w")
    stand(plain, third, "SETNX", "lock:3", "w")
    assert one.call("DEL", "lock:1", "other:1", "plain", "lock:2", "other:2", "lock:3") == b":4\r\n"
    assert soon(plain, other) == soon(plain, third) == ONE
    assert plain.exists("lock:1", "lock:3", "other:2") == 3 and not plain.exists("lock:2", "other:1")


def test_del_of_anothers_lock_hands_nothing_over(clients, plain):
    one, other, third = clients(3, rule())
    one.call("SETNX", "lock:1", "v")
    stand(plain, other, "SETNX", "lock:1", "w")
    assert third.call("DEL", "lock:1") == ZERO
    assert len(entries(plain, "lock:1")) == 1
    assert plain.get("lock:1") == "v"


def past_date():
    return int(time.time()) - 1


RULE_RELEASES = [
    (("DEL", "lock:1"), ONE),
    (("UNLINK", "lock:1"), ONE),
    (("GETDEL", "lock:1"), b"$1\r\nv\r\n"),
    (("EXPIRE", "lock:1", 0), ONE),
    (("PEXPIRE", "lock:1", -1), ONE),
    (("EXPIREAT", "lock:1", past_date), ONE),
    (("RENAME", "lock:1", "elsewhere"), OK),
    (("GETEX", "lock:1", "EXAT", past_date), b"$1\r\nv\r\n"),
    (("EVAL", COMPARE_AND_DELETE, 1, "lock:1", "v"), ONE),
]


@pytest.mark.parametrize("owner", ["connection", "value"])
@pytest.mark.parametrize("release, reply", RULE_RELEASES, ids=lambda value: value[0] if isinstance(value, tuple) else "")
@pytest.mark.parametrize("multi", [False, True])
def test_release_under_a_rule_wakes_the_waiter(share_hasp, plain, owner, release, reply, multi):
    """The waiter is at another hasp."""
    hasp, away = share_hasp(rule(owner=owner)), share_hasp(rule(owner=owner))
    release = [word() if callable(word) else word for word in release]
    with hasp.connect() as one, away.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        if multi:
            assert one.call("MULTI") == OK
            assert one.call(*release) == b"+QUEUED\r\n"
        stand(plain, other, "SETNX", "lock:1", "w")
        one.send(encode("EXEC") if multi else encode(*release))
        assert soon(plain, other, polled=True) == ONE
        assert one.read() == (b"*1\r\n" + reply if multi else reply)


def test_compare_and_delete_with_anothers_value_wakes_nobody(clients, plain):
    one, other = clients(2, rule(owner="value"))
    one.call("SET", "lock:1", "v", "NX", "EX", 30)
    stand(plain, other, "SET", "lock:1", "w", "NX", "EX", 30)
    assert one.call("EVAL", COMPARE_AND_DELETE, 1, "lock:1", "w") == ZERO
    assert plain.get("lock:1") == "v" and len(entries(plain, "lock:1")) == 1
    assert one.call("EVAL", COMPARE_AND_DELETE, 1, "lock:1", "v") == ONE
    assert soon(plain, other, polled=True) == OK


def test_compare_and_delete_by_evalsha_wakes_the_waiter(start_hasp, plain):
    sha = plain.script_load(COMPARE_AND_DELETE)
    hasp = start_hasp(rule(owner="value"), workers=2)
    with contextlib.ExitStack() as stack:
        ones = [stack.enter_context(hasp.connect()) for _ in range(8)]  # clients of both workers
        ones[0].call("SET", "lock:1", 0, "NX", "EX", 30)
        for n, one in enumerate(ones):
            other = stack.enter_context(hasp.connect())
            stand(plain, other, "SET", "lock:1", n + 1, "NX", "EX", 30)
            assert one.call("EVALSHA", sha, 1, "lock:1", n) == ONE
            assert soon(plain, other, polled=True) == OK


VERB_RELEASES = [(("DEL", KEY), ONE), (("UNLINK", "x", KEY), ONE), (("GETDEL", KEY), None),
                 (("EXPIRE", KEY, 0), ONE), (("RENAME", KEY, "elsewhere"), OK),
                 (("EVAL", "return redis.call('DEL', KEYS[1])", 1, KEY), ONE)]


@pytest.mark.parametrize("release, reply", VERB_RELEASES, ids=lambda value: value[0] if isinstance(value, tuple) else "")
@pytest.mark.parametrize("multi", [False, True])
def test_release_without_a_rule_wakes_the_waiter_of_a_verb(share_hasp, plain, release, reply, multi):
    hasp = share_hasp(verbs(reentrant="no"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        if multi:
            assert one.call("MULTI") == OK
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        hasp.take_turn()  # so that the holder's worker knows the waiter
        if multi:
            assert one.call(*release) == b"+QUEUED\r\n"
        one.send(encode("EXEC") if multi else encode(*release))
        assert soon(plain, other, polled=True) == FENCE
        answer = one.read()
        assert reply is None or answer == (b"*1\r\n" + reply if multi else reply)


def test_release_without_a_rule_wakes_the_waiter_of_another_worker(start_hasp, plain):
    hasp = start_hasp(verbs(reentrant="no"), workers=2)
    with contextlib.ExitStack() as stack:
        ones = [stack.enter_context(hasp.connect()) for _ in range(8)]  # clients of both workers
        plain.set(KEY, "somebody")
        for one in ones:
            other = stack.enter_context(hasp.connect())
            stand(plain, other, "LOCK", KEY, "WAIT", 60000)
            hasp.take_turn()
            assert one.call("DEL", KEY) == ONE
            assert soon(plain, other, polled=True).startswith(b":")


def test_redissons_message_wakes_the_waiter_of_a_verb(start_hasp, plain):
    """Redisson's clients release in Redis and publish a message."""
    hasp = start_hasp(VERBS)
    with hasp.connect() as one:
        plain.hset(KEY, "somebody", 1)
        stand(plain, one, "LOCK", KEY, "WAIT", 60000)
        channel = f"redisson_lock__channel:{{{KEY}}}"
        until(lambda: plain.pubsub_numsub(channel)[0][1], "hasp to subscribe to Redisson's channel")
        plain.delete(KEY)
        plain.publish(channel, "0")
        assert soon(plain, one, polled=True) == FENCE


def test_redissons_waiters_are_told_when_none_of_ours_is_left(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, plain.pubsub() as listener:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        listener.subscribe(f"redisson_lock__channel:{{{KEY}}}")
        assert listener.get_message(timeout=30)["type"] == "subscribe"
        one.call("UNLOCK", KEY)
        other.read()
        before = plain.exists(KEY)
        other.call("UNLOCK", KEY)
        assert before and listener.get_message(timeout=30)["data"] == "0"
        assert listener.get_message(timeout=0.01) is None


def test_end_of_a_lease_hands_off(clients, plain):
    one, other, third = clients(3, rule() + VERBS)
    one.call("LOCK", KEY, "PX", 900)
    one.call("SET", "lock:1", "v", "NX", "PX", 900)
    stand(plain, other, "LOCK", KEY, "WAIT", 60000, briefly=True)
    stand(plain, third, "SETNX", "lock:1", "w", briefly=True)
    assert soon(plain, other, polled=True) == FENCE
    assert soon(plain, third, polled=True) == ONE


def test_waiters_own_lease_ends_for_the_next_one(clients, plain):
    """No message announces that this lease has ended."""
    one, other, third = clients(3, VERBS)
    one.call("LOCK", KEY)
    stand(plain, other, "LOCK", KEY, "WAIT", 60000, "PX", 900)
    stand(plain, third, "LOCK", KEY, "WAIT", 60000)
    one.call("UNLOCK", KEY)
    assert soon(plain, other) == FENCE
    assert soon(plain, third, polled=True) == FENCE


@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 60000), ("SETNX", "lock:1", "w")])
def test_lock_set_and_deleted_past_hasp_is_noticed_by_its_own_look(clients, plain, take):
    one, = clients(1, rule() + verbs(reentrant="no"))
    plain.set(take[1], "somebody's")
    stand(plain, one, *take)
    before = rechecks(plain)
    plain.delete(take[1])
    assert one.read() in TAKEN
    assert rechecks(plain) > before
