# SPDX-License-Identifier: BSD-3-Clause
"""Waiting clients when Redis refuses permissions, at reloads, and at the end of hasp or Redis."""

import contextlib
import signal

import pytest
from harness import encode, until
from harness.guards import KEY as STOCK, QUEUE, guard, transact
from harness.info import subscribers
from harness.line import entries, nobody_waits, queue_of, soon, stand
from harness.marks import BOTH
from harness.processes import ProtectedRedis
from harness.replies import FENCE, OK, ONE, TAKEN, ZERO, bulk
from harness.script_queue import Workers
from harness.sections import VERBS
from harness.wait import TooSlow
from harness.waiting import KEY, rule


# --- permissions in Redis -----------------------------------------------------------


def test_user_that_may_not_publish_releases_to_the_waiter_that_hasp_then_finds(clients, plain):
    plain.execute_command("ACL", "SETUSER", "app", "on", "nopass", "~*", "resetchannels", "+@all")
    one, other, third = clients(3, rule() + VERBS)
    for connection in (one, other, third):
        assert connection.call("AUTH", "app", "x") == OK
    one.call("LOCK", KEY)
    one.call("SETNX", "lock:1", "v")
    stand(plain, other, "LOCK", KEY, "WAIT", 60000)
    stand(plain, third, "SETNX", "lock:1", "w")
    assert one.call("UNLOCK", KEY) == ONE
    assert one.call("DEL", "lock:1") == ONE
    assert other.read().startswith(b":")
    assert third.read() == ONE
    nobody_waits(plain)


@pytest.fixture
def protected(request):
    with ProtectedRedis() as server:
        yield server


def logged_in(hasp):
    connection = hasp.connect()
    assert connection.call("AUTH", "secret") == OK
    return connection


def upstream(server, **settings):
    """Returns `upstream` for start_hasp(): the server's address and further options."""
    return "\n".join([f"unix:{server.unix}", *(f"{name} = {value}" for name, value in settings.items())])


def test_hasp_subscribes_with_its_password(start_hasp, protected):
    hasp = start_hasp(VERBS, upstream=upstream(protected, password="secret"))
    with logged_in(hasp) as one, logged_in(hasp) as other, protected.client() as plain:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        one.call("UNLOCK", KEY)
        assert soon(plain, other) == FENCE


def test_hasp_subscribes_as_its_user(start_hasp, protected):
    with protected.client() as plain:
        plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "&hasp:*", "+@all")
    hasp = start_hasp(VERBS, upstream=upstream(protected, user="hasp", password="pw"))
    with logged_in(hasp) as one, logged_in(hasp) as other, protected.client() as plain:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        (subscriber,) = subscribers(plain)
        assert subscriber["user"] == "hasp"
        one.call("UNLOCK", KEY)
        assert soon(plain, other) == FENCE


def test_subscription_that_redis_refuses_is_an_error_to_clients_that_would_wait(start_hasp, protected):
    hasp = start_hasp(rule() + VERBS, upstream=upstream(protected))
    with logged_in(hasp) as one:
        error = b"-ERR hasp: cannot wait for a lock: NOAUTH "
        assert one.call("LOCK", KEY, "WAIT", 60000).startswith(error)
        assert one.call("SETNX", "lock:1", "v").startswith(error)
        assert one.call("LOCK", KEY) == FENCE  # LOCK without WAIT needs no subscription
        assert one.call("DEL", "lock:1") == ZERO


def test_transaction_that_could_not_wait_leaves_none_open(start_hasp, protected):
    hasp = start_hasp(guard(), upstream=upstream(protected))
    with logged_in(hasp) as one:
        error = b"-ERR hasp: cannot wait for a lock: NOAUTH "
        assert transact(one, ("SET", "stock:1", 1))[-1].startswith(error)
        assert one.call("PING") == b"+PONG\r\n"
        assert one.call("MULTI") == OK


def test_transaction_that_could_not_wait_has_one_reply_before_replies_are_left_out(start_hasp, protected):
    """hasp ends the transaction by DISCARD, whose reply the client must not get."""
    hasp = start_hasp(guard(), upstream=upstream(protected))
    with logged_in(hasp) as one:
        transact(one, ("SET", "stock:1", 1))  # hasp learns that it cannot subscribe
        assert one.call("MULTI") == OK
        one.send(b"".join(encode(*command) for command in [
            ("SET", "stock:1", 1), ("GET", "free"), ("EXEC",), ("CLIENT", "REPLY", "SKIP"), ("PING",), ("ECHO", "end")]))
        assert [one.read() for _ in range(2)] == [b"+QUEUED\r\n"] * 2
        assert one.read().startswith(b"-ERR hasp: cannot wait for a lock: NOAUTH ")
        assert one.read() == bulk("end")


@pytest.mark.parametrize("command", [("LOCK", KEY), ("SETNX", "lock:1", "v"), ("GET", "stock:1"),
                                     ("SET", "stock:1", 1), ("HINCRBY", "stock:1", "f", 1)])
def test_client_that_is_not_logged_in_is_asked_before_its_script_is_sent(start_hasp, protected, command):
    """Redis closes a client without a login that sends more than ten arguments, so hasp first asks
    whether a login is required."""
    hasp = start_hasp(rule(wait="0") + guard(wait="0") + VERBS, upstream=upstream(protected, password="secret"))
    until(lambda: "upstream_up" in hasp.log, "hasp to know that Redis asks for a login")
    with hasp.connect() as one, protected.client() as plain:
        assert one.call(*command) == b"-NOAUTH Authentication required.\r\n"
        plain.execute_command("ACL", "SETUSER", "default", "nopass")
        assert not one.call(*command).startswith(b"-")
        assert not transact(one, ("SET", "stock:2", 1))[-1].startswith(b"-")
        assert one.call("PING") == b"+PONG\r\n"


def test_subscription_is_tried_again(start_hasp, protected):
    with protected.client() as plain:
        plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "resetchannels", "+@all")
        hasp = start_hasp(VERBS, upstream=upstream(protected, user="hasp", password="pw"))
        with logged_in(hasp) as one:
            assert one.call("LOCK", KEY, "WAIT", 60000).startswith(b"-ERR hasp: cannot wait for a lock: NOPERM ")
            plain.execute_command("ACL", "SETUSER", "hasp", "&*")
            until(lambda: one.call("LOCK", KEY, "WAIT", 60000) == FENCE, "hasp to subscribe")
        assert hasp.log.count("subscriber_down") == 1


# --- reloads, and the end of hasp or Redis ---------------------------------------------


def test_waiters_outlive_a_reload(start_hasp, plain):
    hasp = start_hasp(rule() + VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        stand(plain, third, "SETNX", "lock:1", "w")
        hasp.reload("wait = 60s", "wait = 30s")
        one.call("UNLOCK", KEY)
        assert other.read() == FENCE
        one.call("DEL", "lock:1")
        assert third.read() == ONE


def test_waiters_whose_rule_is_gone_end_well(start_hasp, plain):
    """One waiter gets the lock; the other one, out of the queue, asks again and gets Redis'
    reply."""
    hasp = start_hasp(rule(wait="60s"))
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "SETNX", "lock:1", "w")
        stand(plain, third, "SETNX", "lock:1", "w")
        hasp.reload("lock:*", "other:*")
        assert one.call("DEL", "lock:1") == ONE
        assert other.read() == ONE
        plain.delete(queue_of("lock:1"))
        assert third.read() == ZERO


def test_waiter_is_waited_for_when_hasp_is_to_leave(start_hasp, plain):
    hasp, away = start_hasp(VERBS), start_hasp(VERBS)
    with away.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        hasp.signal(signal.SIGTERM)
        until(lambda: "draining" in hasp.log, "hasp to drain")
        one.call("UNLOCK", KEY)
        assert other.read() == FENCE
        assert other.call("UNLOCK", KEY) == ONE
        assert other.at_end()
        assert hasp.child.wait(60) == 0


@pytest.mark.parametrize("again", [False, True])
def test_waiters_have_left_the_queue_when_hasp_is_gone(start_hasp, plain, again):
    """hasp exits after drain_timeout, or at a second SIGTERM."""
    hasp, away = start_hasp(VERBS, drain_timeout="30s" if again else "200ms"), start_hasp(VERBS)
    with away.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        hasp.signal(signal.SIGTERM)
        if again:
            until(lambda: "draining" in hasp.log, "hasp to drain")
            hasp.signal(signal.SIGTERM)
        assert other.at_end()
        hasp.child.wait(60)
        assert not entries(plain)


@BOTH
@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 20000), ("SETNX", "lock:1", "w")])
def test_waiters_end_well_when_redis_restarts(share_hasp, redis_server, plain, pooling, take):
    """A client with a link of its own is closed, as it would be without hasp."""
    hasp = share_hasp(rule(wait="20s") + VERBS)
    ones = [hasp.connect() for _ in range(3)]
    plain.hset(take[1], "somebody", 1)
    if take[0] == "SETNX":
        plain.delete(take[1])
        plain.set(take[1], "v")
    for other in ones:
        stand(plain, other, *take)
    redis_server.kill()
    redis_server.start()  # Redis has lost its data
    for other in ones:
        if pooling == "session":
            assert other.at_end()
            continue
        other.sock.settimeout(10)
        assert other.read() in TAKEN
        other.call(*(("UNLOCK", KEY) if take[0] == "LOCK" else ("DEL", "lock:1")))
    for other in ones:
        other.close()


def test_wait_that_times_out_while_redis_is_gone_ends_with_an_error_that_says_so(start_hasp, redis_server, plain):
    hasp = start_hasp(rule(wait="5s") + guard(wait="5s") + VERBS)
    with contextlib.ExitStack() as stack:
        waiters = {}
        for holds, waits, queue in (
                (("GET", STOCK), ("GET", STOCK), QUEUE), (("SETNX", "lock:1", "v"), ("SETNX", "lock:1", "w"), None),
                (("LOCK", KEY), ("LOCK", KEY, "WAIT", 5000), None),
                (("LOCK", "other"), ("MLOCK", 1, "other", "WAIT", 5000), queue_of("other"))):
            one, other = stack.enter_context(hasp.connect()), stack.enter_context(hasp.connect())
            assert one.call(*holds)[:1] in b"$:"
            stand(plain, other, *waits, queue=queue, briefly=True)
            waiters[waits] = other
        redis_server.kill()
        until(lambda: "upstream_down" in hasp.log, "hasp to notice that Redis is down")
        for waits, other in waiters.items():
            answer = other.read()
            if not answer.startswith(b"-ERR") and "wait_timed_out" in hasp.log.partition("upstream_down")[0]:
                raise TooSlow(f"{waits} timed out while Redis was there")
            assert answer.startswith(b"-ERR hasp: upstream unix:"), (waits, answer)


def test_frozen_hasp_is_waited_for_once_not_for_each_of_its_waiters(start_hasp, redis_server, plain):
    """The script waits once for the frozen hasp; its waiters keep their places."""
    frozen, hasp = start_hasp(VERBS, workers=1).is_up(), start_hasp(VERBS, workers=1).is_up()
    with hasp.connect() as one, hasp.connect() as last, contextlib.ExitStack() as stack:
        assert one.call("LOCK", KEY) == FENCE
        waiters = [stack.enter_context(frozen.connect()) for _ in range(3)]
        for waiter in waiters:
            stand(plain, waiter, "LOCK", KEY, "WAIT", 600000)
        heard = Workers(redis_server, entries(plain, KEY)[0].split("-")[0])
        stack.callback(heard.c.close)
        with frozen.frozen():
            stand(plain, last, "LOCK", KEY, "WAIT", 600000)
            assert one.call("UNLOCK", KEY) == ONE
            assert last.read() == FENCE
        assert [what for _, what in heard.told()] == ["look"]
        assert last.call("UNLOCK", KEY) == ONE
        for waiter in waiters:
            assert waiter.read() == FENCE and waiter.call("UNLOCK", KEY) == ONE
