# SPDX-License-Identifier: BSD-3-Clause
"""The queue of waiters: its name, and the faults after which waiters still get the lock in
order."""

import contextlib
import signal
import socket

import pytest
from harness import encode, until
from harness.info import clients, subscribers
from harness.line import entries, nobody_waits, queue_of, soon, stand
from harness.marks import BOTH
from harness.replies import FENCE, OK, ONE, PONG, TAKEN
from harness.sections import VERBS, verbs
from harness.waiting import KEY, rule


# --- faults that a queue survives ------------------------------------------------


@pytest.mark.parametrize("blow", [
    lambda plain: plain.delete(queue_of(KEY)),
    lambda plain: plain.execute_command("DEBUG", "RELOAD"),
    lambda plain: plain.script_flush(),
], ids=["DEL of the queue", "DEBUG RELOAD", "SCRIPT FLUSH"])
def test_waiters_keep_their_order_through(share_hasp, plain, blow):
    hasp, away = share_hasp(VERBS), share_hasp(VERBS)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        ones = [(hasp, away)[n % 2].connect() for n in range(4)]
        for other in ones:
            stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        blow(plain)
        until(lambda: plain.zcard(queue_of(KEY)) == 4, "all clients to enter the queue again")
        for n, other in enumerate(ones):
            assert (ones[n - 1] if n else one).call("UNLOCK", KEY) == ONE
            assert other.read() == FENCE
        for other in ones:
            other.close()


def test_queue_outlives_its_longest_wait_and_not_much_more(clients, plain):
    """Without an expiry, the queue of a killed hasp would stay for ever."""
    one, other, third = clients(3, VERBS)
    one.call("LOCK", KEY)
    stand(plain, other, "LOCK", KEY, "WAIT", 50000)
    stand(plain, third, "LOCK", KEY, "WAIT", 10000)
    assert 45000 < plain.pttl(queue_of(KEY)) <= 60000


def test_release_wakes_though_the_queue_was_deleted(clients, plain):
    one, other, third = clients(3, VERBS)
    one.call("LOCK", KEY)
    stand(plain, other, "LOCK", KEY, "WAIT", 60000)
    stand(plain, third, "LOCK", KEY, "WAIT", 60000)
    plain.delete(queue_of(KEY))
    assert one.call("UNLOCK", KEY) == ONE
    assert other.read() == FENCE
    assert other.call("UNLOCK", KEY) == ONE
    assert third.read() == FENCE


@pytest.mark.parametrize("past_hasp", [False, True])
@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 60000), ("SETNX", "lock:1", "w")])
def test_one_of_the_waiters_gets_the_lock_after_flushall(share_hasp, plain, past_hasp, take):
    hasp = share_hasp(rule(wait="60s") + VERBS)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        one.call("SETNX", "lock:1", "v")
        ones = [hasp.connect() for _ in range(3)]
        for other in ones:
            stand(plain, other, *take)
        if past_hasp:
            plain.flushall()
        else:
            assert one.call("FLUSHALL") == OK
        for other in ones:
            assert other.read().startswith(b":")
            if take[0] == "LOCK":
                assert other.call("UNLOCK", KEY) == ONE
            else:
                assert other.call("DEL", "lock:1") == ONE
            other.close()
        nobody_waits(plain, take[1])


def test_release_while_the_subscription_is_down_is_made_good(start_hasp, plain):
    hasp, away = start_hasp(verbs(reentrant="no")), start_hasp(verbs(reentrant="no"))
    with hasp.connect() as one, away.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        (subscriber,) = subscribers(plain)
        with away.frozen():
            plain.client_kill_filter(_id=subscriber["id"])
            assert one.call("UNLOCK", KEY) == ONE
            assert not plain.exists(KEY)
        assert soon(plain, other, polled=True).startswith(b":")
        assert "subscriber_down" in away.log


def test_release_after_the_subscription_is_up_again(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        (subscriber,) = subscribers(plain)
        plain.client_kill_filter(_id=subscriber["id"])
        until(lambda: subscribers(plain) not in ([], [subscriber]), "hasp to subscribe again")
        assert one.call("UNLOCK", KEY) == ONE
        assert soon(plain, other, polled=True) == FENCE


@pytest.mark.parametrize("take, give", [(("LOCK", KEY, "WAIT", 60000), ("UNLOCK", KEY)),
                                        (("SETNX", "lock:1", "v"), ("DEL", "lock:1"))])
def test_waiter_passed_over_while_the_subscription_was_down_goes_before_a_newcomer(
        start_hasp, redis_server, plain, take, give):
    """Redis has a free lock and no queue; only hasp knows the waiter. The newcomer's command
    arrives while hasp is not subscribed."""
    hasp, away = start_hasp(rule(wait="60s") + VERBS), start_hasp(rule(wait="60s") + VERBS)
    with away.connect() as holder, hasp.connect() as one, hasp.connect() as two, hasp.connect() as newcomer:
        plain.hset(KEY, "somebody", 1)
        plain.set("lock:1", "somebody's")
        for other in (one, two):
            stand(plain, other, *take)
        (subscriber,) = subscribers(plain)
        with hasp.frozen():
            plain.client_kill_filter(_id=subscriber["id"])
            plain.delete(KEY, "lock:1")
            # The scripts pass over the waiters, whose hasp is not subscribed, and remove the queue.
            assert holder.call(*take) in TAKEN and holder.call(*give) == ONE
            assert not plain.exists(take[1], queue_of(take[1]))
            redis_server.freeze()
        try:
            until(lambda: "subscriber_down" in hasp.log, "hasp to notice that its subscription has ended")
            newcomer.send(encode(*take))
            hasp.take_turn()
        finally:
            redis_server.signal(signal.SIGCONT)
        for other in (one, two, newcomer):
            assert other.read() in TAKEN
            assert other.call(*give) == ONE


@pytest.mark.parametrize("take, give", [(("LOCK", KEY, "WAIT", 60000), ("UNLOCK", KEY)),
                                        (("SETNX", "lock:1", "v"), ("DEL", "lock:1"))])
def test_newcomer_does_not_pass_those_whose_places_cannot_be_asked_for_yet(start_hasp, plain, take, give):
    """hasp has subscribed again, but its own connection, which restores the places, is down."""
    hasp = start_hasp(rule(wait="60s") + VERBS).is_up()
    (own,) = clients(plain)
    away = start_hasp(rule(wait="60s") + VERBS)
    with away.connect() as holder, hasp.connect() as one, hasp.connect() as two, hasp.connect() as newcomer:
        plain.hset(KEY, "somebody", 1)
        plain.set("lock:1", "somebody's")
        for other in (one, two):
            stand(plain, other, *take)
        (subscriber,) = subscribers(plain)
        with hasp.frozen():
            for connection in (own, subscriber):
                plain.client_kill_filter(_id=connection["id"])
            plain.delete(KEY, "lock:1")
            assert holder.call(*take) in TAKEN and holder.call(*give) == ONE
            plain.execute_command("ACL", "SETUSER", "default", "-command")
        try:
            until(lambda: hasp.log.count("subscriber_up") == 2, "hasp to subscribe again")
            assert hasp.log.count("upstream_up") == 1
            newcomer.send(encode(*take))
            hasp.take_turn()
        finally:
            plain.execute_command("ACL", "SETUSER", "default", "+command")
        for other in (one, two, newcomer):
            assert other.read() in TAKEN
            assert other.call(*give) == ONE


def test_release_while_hasps_own_connection_is_down_is_made_good(start_hasp, plain):
    """The lease ends without a message, so only hasp's check can find the free lock."""
    hasp = start_hasp(VERBS)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    (own,) = clients(plain)
    with hasp.connect() as one:
        plain.hset(KEY, "somebody", 1)
        stand(plain, one, "LOCK", KEY, "WAIT", 60000)
        with hasp.frozen():
            plain.client_kill_filter(_id=own["id"])
            plain.delete(KEY)
        assert one.read() == FENCE
        assert "upstream_down" in hasp.log


@BOTH
def test_waiter_whose_link_was_killed_ends_well(start_hasp, plain, pooling):
    """On a shared link the waiter stays; with a link of its own, the client is closed."""
    hasp = start_hasp(VERBS)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    with hasp.connect() as other:
        plain.hset(KEY, "somebody", 1)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        for link in clients(plain, cmd="evalsha" if pooling == "shared" else "eval") or clients(plain):
            if link["sub"] == "0":
                plain.client_kill_filter(_id=link["id"])
        if pooling == "shared":
            plain.delete(KEY)
            assert other.read() == FENCE
        else:
            assert other.at_end()
            nobody_waits(plain)


@BOTH
@pytest.mark.parametrize("first", [("SETNX", "lock:1", "v"), ("LOCK", "k", "WAIT", 5000), ("SET", "guarded:1", "v")])
def test_client_that_only_half_closes_is_answered_when_hasp_is_ready_to_wait(start_hasp, redis_server, first):
    """hasp subscribes before the first command that may have to wait."""
    hasp = start_hasp(rule(wait="5s") + VERBS + "[guard guarded]\npattern = guarded:*\nacquire_on = GET\n").is_up()
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        with redis_server.frozen():
            one.send(encode(*first) + encode("PING"))
            one.sock.shutdown(socket.SHUT_WR)
            hasp.take_turn()
        assert not one.read().startswith(b"-")
        assert one.read() == PONG and one.at_end()


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 60000), ("SETNX", "lock:1", "w")])
def test_client_that_hangs_up_leaves_the_queue(clients, plain, half, take):
    one, other = clients(2, rule(wait="60s") + VERBS)
    one.call("LOCK", KEY)
    one.call("SETNX", "lock:1", "v")
    stand(plain, other, *take)
    if half:
        other.sock.shutdown(socket.SHUT_WR)
        assert other.at_end()
    else:
        other.close()
    nobody_waits(plain, take[1])


@contextlib.contextmanager
def frozen_at_release(hasp, gates, holder, *release):
    """Freezes hasp within the block, while its release is in transit to Redis. hasp must be up, or the
    request at the gate may be for another link."""
    gates.shut(requests={"link"})
    holder.send(encode(*release))
    until(lambda: gates.waiting, "the release to wait at the gate")
    with hasp.frozen():
        gates.open()
        yield


def test_lock_handed_to_one_who_has_hung_up_goes_to_the_next(start_hasp, gates, plain):
    """hasp may learn first of the closed connection, or of the grant."""
    hasp, away = start_hasp(VERBS, upstream=gates.address).is_up(), start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as gone, away.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, gone, "LOCK", KEY, "WAIT", 60000, "AS", "gone")
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        with frozen_at_release(hasp, gates, one, "UNLOCK", KEY):
            gone.close()
            until(lambda: plain.hgetall(KEY) == {"gone": "1"}, "the closed waiter to get the lock")
        assert soon(plain, other, polled=True) == FENCE


def test_waiters_of_a_hasp_that_was_killed_hold_up_nobody(start_hasp, plain):
    hasp, dead = start_hasp(rule() + VERBS), start_hasp(rule() + VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        one.call("SETNX", "lock:1", "v")
        gone = [dead.connect() for _ in range(6)]
        for n, connection in enumerate(gone):
            stand(plain, connection, *(("SETNX", "lock:1", "w") if n % 2 else ("LOCK", KEY, "WAIT", 60000)))
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        stand(plain, third, "SETNX", "lock:1", "w")
        dead.expect_exit = -signal.SIGKILL
        dead.kill()
        until(lambda: len(subscribers(plain)) == 1, "Redis to notice that the hasp is dead")
        one.call("UNLOCK", KEY)
        assert soon(plain, other) == FENCE
        one.call("DEL", "lock:1")
        assert soon(plain, third) == ONE
        for connection in gone:
            connection.close()


@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 20000, "PX", 3000), ("SET", "lock:1", "w", "NX", "PX", 3000)])
def test_grant_that_comes_after_its_lease_is_not_told(start_hasp, gates, plain, take):
    """hasp is frozen from the grant until another client has taken the lock."""
    hasp, away = start_hasp(rule() + VERBS, upstream=gates.address).is_up(), start_hasp(rule() + VERBS)
    key, verb = take[1], take[0] == "LOCK"
    with hasp.connect() as one, hasp.connect() as other, away.connect() as third:
        one.call(*(("LOCK", key) if verb else ("SETNX", key, "v")))
        stand(plain, other, *take)
        with frozen_at_release(hasp, gates, one, *(("UNLOCK", key) if verb else ("DEL", key))):
            until(lambda: not plain.exists(queue_of(key)), "the waiter to get the lock")
            until(lambda: not plain.exists(key), "the lease to end")
            assert third.call(*(("LOCK", key) if verb else ("SETNX", key, "x"))).startswith(b":")
        until(lambda: len(entries(plain, key)) == 1, "the waiter to enter the queue again")
        third.call(*(("UNLOCK", key) if verb else ("DEL", key)))
        assert other.read() == (FENCE if verb else OK)
        assert 0 < plain.pttl(key) <= 3000


@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 20000, "PX", 6000), ("SET", "lock:1", "w", "NX", "PX", 6000)])
def test_grant_that_comes_late_begins_its_lease_again(start_hasp, gates, plain, take):
    hasp = start_hasp(rule() + VERBS, upstream=gates.address).is_up()
    key, verb = take[1], take[0] == "LOCK"
    with hasp.connect() as one, hasp.connect() as other:
        one.call(*(("LOCK", key) if verb else ("SETNX", key, "v")))
        stand(plain, other, *take)
        with frozen_at_release(hasp, gates, one, *(("UNLOCK", key) if verb else ("DEL", key))):
            until(lambda: not plain.exists(queue_of(key)), "the waiter to get the lock")
            end = plain.pexpiretime(key)
            until(lambda: plain.pttl(key) < 4200, "part of the lease to pass")
        assert other.read() == (FENCE if verb else OK)
        assert plain.pexpiretime(key) > end


# --- databases and names ---------------------------------------------------------


@pytest.mark.parametrize("take, give", [(("LOCK", KEY, "WAIT", 60000), ("UNLOCK", KEY)),
                                        (("SETNX", "lock:1", "v"), ("DEL", "lock:1"))])
def test_queues_of_two_databases_are_two(share_hasp, redis_server, plain, take, give):
    hasp = share_hasp(rule() + VERBS)
    key = take[1]
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third, \
            redis_server.client(db=3) as three:
        assert one.call(*take) in TAKEN
        other.call("SELECT", 3)
        assert other.call(*take) in TAKEN
        third.call("SELECT", 3)
        stand(three, third, *take)
        assert one.call(*give) == ONE
        assert three.zcard(queue_of(key)) == 1
        assert other.call(*give) == ONE
        assert soon(three, third, polled=True).startswith(b":")
        assert not plain.exists(key)


def test_own_look_is_at_the_waiters_database(share_hasp, redis_server):
    hasp = share_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, redis_server.client(db=3) as three:
        for connection in (one, other):
            connection.call("SELECT", 3)
        one.call("LOCK", KEY, "PX", 900)
        stand(three, other, "LOCK", KEY, "WAIT", 60000, briefly=True)
        assert soon(three, other, polled=True) == FENCE


KEYS = [b"{a}b", b"a{b", b"a}b", b"{}a", b"", b" ", b"a b", b"a\r\nb", b"\0\xff\x80", b"%d%s", b"x" * 5000]


@pytest.mark.parametrize("take, give", [(("LOCK", "WAIT", 60000), "UNLOCK"), (("SETNX", b"\0 \r\n\xff"), "DEL")])
def test_any_key_can_be_waited_for(share_hasp, redis_server, take, give):
    hasp = share_hasp(VERBS if take[0] == "LOCK" else rule(pattern="*", wait="60s"))
    with hasp.connect() as one, hasp.connect() as other, redis_server.connect() as plain:
        for key in KEYS:
            assert one.call(take[0], key, *take[1:]).startswith(b":")
            other.send(encode(take[0], key, *take[1:]))
            tagged = key.startswith(b"{a}")
            queue = b"hasp:queue:" + (key + b":" if tagged else b"{" + key + b"}")
            until(lambda: plain.call("ZCARD", queue) == ONE, f"the waiter for {key} to enter the queue")  # noqa: B023
            assert one.call(give, key) == ONE
            assert other.read().startswith(b":")
            if give == "DEL":
                assert plain.call("GET", key) == b"$5\r\n\0 \r\n\xff\r\n"
            assert other.call(give, key) == ONE


def test_key_that_is_no_lock_is_an_error_and_nobody_waits(share_hasp, plain):
    with share_hasp(rule() + VERBS).connect() as one:
        plain.lpush(KEY, 1)
        plain.lpush("lock:1", 1)
        plain.set(queue_of("q"), 1)
        plain.hset("q", "somebody", 1)
        assert one.call("LOCK", KEY, "WAIT", 60000).startswith(b"-WRONGTYPE ")
        assert one.call("LOCK", "q", "WAIT", 60000).startswith(b"-WRONGTYPE ")
        assert not plain.exists(queue_of(KEY))
