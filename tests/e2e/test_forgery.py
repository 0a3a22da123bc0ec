# SPDX-License-Identifier: BSD-3-Clause
"""Forged messages to workers and forged entries of queues, which any client can write: hasp
believes none."""

import pytest
from harness import encode, until
from harness.info import calls
from harness.line import entries, nobody_waits, queue_of, stand
from harness.replies import FENCE, OK, ONE, TAKEN
from harness.sections import VERBS, rule, verbs

KEY, LOCK = "k", "lock:1"
RULE = rule(wait="60s")
LATER = 9999999999999
TAKES = pytest.mark.parametrize("take, give", [
    (("LOCK", KEY, "WAIT", 60000), ("UNLOCK", KEY)),
    (("SETNX", LOCK, "v"), ("DEL", LOCK)),
], ids=["LOCK", "SETNX"])


def polls(plain):
    return calls(plain, "evalsha", "eval")


@TAKES
def test_a_published_message_grants_no_lock(share_hasp, plain, take, give):
    hasp = share_hasp(RULE + VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call(*take) in TAKEN
        stand(plain, other, *take)
        [ticket] = entries(plain, take[1])
        seconds, micros = plain.time()
        for proof in ("", " " + "0" * 40, " look", " " + "f" * 400):
            before = polls(plain)
            assert plain.publish(f"hasp:worker:{ticket.split('-')[0]}",
                                 f"{ticket} 7 {seconds * 1000 + micros // 1000}{proof}") == 1
            until(lambda: polls(plain) > before, "hasp to poll the lock")  # noqa: B023
        hasp.take_turn()
        assert entries(plain, take[1]) == [ticket]
        assert one.call(*give) == ONE
        assert other.read() in TAKEN
        assert other.call(*give) == ONE


@TAKES
def test_a_forged_entry_writes_nothing(clients, plain, take, give):
    """The entry's values are written neither with hasp's permissions nor with the releasing
    client's."""
    one, other = clients(2, RULE + VERBS)
    assert one.call(*take) in TAKEN
    stand(plain, other, *take)
    [ticket] = entries(plain, take[1])
    kind = "h" if take[0] == "LOCK" else "r"
    worker = ticket.split("-")[0]
    plain.zadd(queue_of(take[1]), {f"{worker}-ffff {'0' * 40} 0 {LATER} {kind} 3600000 0 evil evil": 1})
    assert one.call(*give) == ONE
    # The script waits some time for the forged entry's client, then serves the next waiter.
    assert other.read() in TAKEN
    assert b"evil" not in (plain.dump(take[1]) or b"")
    assert other.call(*give) == ONE
    nobody_waits(plain, take[1])


def test_an_entry_of_another_lock_is_worth_nothing(share_hasp, plain):
    hasp = share_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as evil:
        assert one.call("LOCK", KEY) == FENCE
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        [entry] = plain.zrange(queue_of(KEY), 0, -1)
        assert evil.call("LOCK", "evil") == FENCE
        plain.zadd(queue_of("evil"), {entry: 1})
        before = polls(plain)
        assert evil.call("UNLOCK", "evil") == ONE
        assert not plain.exists("evil")
        until(lambda: polls(plain) > before + 1, "hasp to poll the lock")
        hasp.take_turn()
        assert one.call("UNLOCK", KEY) == ONE
        assert other.read() == FENCE


def test_an_entry_of_another_database_is_worth_nothing(share_hasp, plain, redis_server):
    hasp = share_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as evil, redis_server.client(db=1) as elsewhere:
        assert one.call("LOCK", KEY) == FENCE
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        [entry] = plain.zrange(queue_of(KEY), 0, -1)
        for block in (False, True):
            evil.call("SELECT", 0 if block else 1)
            elsewhere.hset(KEY, "evil", 1)
            elsewhere.zadd(queue_of(KEY), {entry: 1})
            if block:
                for command in (("MULTI",), ("SELECT", 1), ("UNLOCK", KEY, "AS", "evil")):
                    evil.call(*command)
                assert evil.call("EXEC") == b"*2\r\n+OK\r\n:1\r\n"
            else:
                assert evil.call("UNLOCK", KEY, "AS", "evil") == ONE
            assert not elsewhere.exists(KEY)
            elsewhere.flushdb()
        hasp.take_turn()
        assert one.call("UNLOCK", KEY) == ONE
        assert other.read() == FENCE


@TAKES
def test_hasps_hand_locks_to_each_other(share_hasp, plain, take, give):
    hasps = [share_hasp(RULE + VERBS) for _ in range(2)]
    ones = [hasps[n % 2].connect() for n in range(6)]
    assert ones[0].call(*take) in TAKEN
    for one in ones[1:]:
        stand(plain, one, *take)
    for one, following in zip(ones, ones[1:]):
        assert one.call(*give) == ONE
        assert following.read().startswith(b":")
    assert ones[-1].call(*give) == ONE
    nobody_waits(plain, take[1])
    for one in ones:
        one.close()


def test_of_one_owner_at_two_hasps_both_have_the_lock(share_hasp, plain):
    hasps = [share_hasp(verbs(owner="name")) for _ in range(2)]
    with hasps[0].connect() as one, hasps[0].connect() as other, hasps[1].connect() as third:
        for connection, name in ((one, "one"), (other, "other"), (third, "other")):
            assert connection.call("CLIENT", "SETNAME", name) == OK
        assert one.call("LOCK", KEY) == FENCE
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        stand(plain, third, "LOCK", KEY, "WAIT", 60000)
        assert one.call("UNLOCK", KEY) == ONE
        assert other.read() == third.read() == FENCE
        assert plain.hgetall(KEY) == {"name:other": "2"}


@pytest.mark.parametrize("command", [("DEL", LOCK), ("RPUSH", LOCK, "x"), ("EVAL", "return 1", 1, LOCK)])
@pytest.mark.parametrize("block", [False, True], ids=["alone", "in MULTI"])
def test_what_redis_refuses_makes_hasp_ask_nothing(clients, plain, command, block):
    """The client may not read these keys, but hasp may."""
    plain.execute_command("ACL", "SETUSER", "weak", "on", ">p", "~other", "&*", "+@all")
    one, other, weak = clients(3, rule(wait="60s", pattern="ruled:*") + VERBS)
    assert one.call("LOCK", LOCK, "PX", 3600000) == FENCE
    stand(plain, other, "LOCK", LOCK, "WAIT", 60000)
    assert weak.call("AUTH", "weak", "p") == OK
    before = polls(plain)
    for _ in range(40):
        weak.send(b"".join(encode(*c) for c in ([("MULTI",), command, ("EXEC",)] if block else [command])))
        for _ in range(3 if block else 1):
            reply = weak.read()
        assert reply.startswith(b"-EXECABORT" if block else b"-NOPERM")
    # hasp also polls each second.
    assert polls(plain) - before < 20
