# SPDX-License-Identifier: BSD-3-Clause
"""Standing in line for a lock: LOCK ... WAIT, and rules with `wait`.

Who waits is seen in the queue, which is in Redis. hasp looks at a lock that is waited for
every second: what is to be noticed without that look is done right after somebody began to
wait, and must be told in half of that.
"""

import collections
import resource
import selectors
import signal
import socket
import time

import pytest
from harness import Connection, RedisServer, encode, until
from harness.line import queue_of, stand
from harness.relay import Relay

KEY = "k"
OK, ONE, ZERO, NIL, NIL3 = b"+OK\r\n", b":1\r\n", b":0\r\n", b"$-1\r\n", b"_\r\n"
AT_ONCE = 0.5
VERBS = "[verbs]\n"
COMPARE_AND_DELETE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"

BOTH = pytest.mark.parametrize("pooling", ["shared", "session"])
LAYOUTS = pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])


def verbs(**settings):
    return "\n".join(["[verbs]", *(f"{name} = {value}" for name, value in settings.items()), ""])


def rule(**settings):
    settings = {"pattern": "lock:*", "wait": "5s", **settings}
    return "\n".join(["[lock locks]", *(f"{name} = {value}" for name, value in settings.items()), ""])


@pytest.fixture
def pooling():
    """The queue does not depend on it; what a client sees is tested with BOTH."""
    return "shared"


def entries(plain, key=KEY):
    """The tickets in the queue, first come first."""
    return [entry.split(" ", 1)[0] for entry in plain.zrange(queue_of(key), 0, -1)]


def nobody_waits(plain, key=KEY):
    return until(lambda: not plain.exists(queue_of(key)), "the queue to be empty", timeout=5)


def soon(connection):
    """What it reads next, and that without hasp having looked at the lock by itself."""
    began = time.monotonic()
    reply = connection.read()
    assert time.monotonic() - began < AT_ONCE
    return reply


def calls(plain, *commands):
    stats = plain.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {}).get("calls", 0) for command in commands)


def clients(plain, **fields):
    """Redis' clients but the one that asks."""
    mine = str(plain.client_id())
    return [c for c in plain.client_list()
            if c["id"] != mine and all(c[name] == value for name, value in fields.items())]


def subscribers(plain):
    return [c for c in clients(plain) if c["sub"] != "0"]


# --- LOCK ... WAIT ---------------------------------------------------------------


@BOTH
@LAYOUTS
def test_free_lock_is_got_at_once(start_hasp, plain, reentrant):
    with start_hasp(verbs(reentrant=reentrant)).connect() as one:
        assert one.call("LOCK", KEY, "WAIT", 5000) == ONE
        assert not plain.exists(queue_of(KEY))


@BOTH
@LAYOUTS
def test_unlock_hands_over_to_the_next_one_with_a_new_fencing_token(start_hasp, plain, reentrant):
    hasp = start_hasp(verbs(reentrant=reentrant))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY) == ONE
        stand(plain, other, "LOCK", KEY, "WAIT", 5000)
        assert one.call("UNLOCK", KEY) == ONE
        assert soon(other) == b":2\r\n"
        assert one.call("LOCK", KEY) == NIL
        assert other.call("UNLOCK", KEY) == ONE
        assert not plain.exists(KEY, queue_of(KEY))


def test_unlock_tells_the_first_waiter_and_nobody_else(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third, \
            plain.pubsub() as listener:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 5000)
        stand(plain, third, "LOCK", KEY, "WAIT", 5000)
        first, second = entries(plain)
        listener.psubscribe("*")
        assert listener.get_message(timeout=5)["type"] == "psubscribe"
        before = calls(plain, "eval", "evalsha")
        assert one.call("UNLOCK", KEY) == ONE
        assert soon(other) == b":2\r\n"
        assert calls(plain, "eval", "evalsha") == before + 1
        assert entries(plain) == [second]
        plain.publish("end", "")
        messages = [listener.get_message(timeout=5) for _ in range(2)]
        assert [m["channel"] for m in messages] == [f"hasp:worker:{first.split('-')[0]}", "end"]
        assert messages[0]["data"].split()[:2] == [first, "2"]


def test_fencing_tokens_rise_from_holder_to_holder(start_hasp, plain):
    hasp = start_hasp(VERBS)
    ones = [hasp.connect() for _ in range(6)]
    ones[0].call("LOCK", KEY)
    for one in ones[1:]:
        stand(plain, one, "LOCK", KEY, "WAIT", 9000)
    for n, one in enumerate(ones[1:], 2):
        assert ones[n - 2].call("UNLOCK", KEY) == ONE
        assert one.read() == b":%d\r\n" % n
    for one in ones:
        one.close()


def in_turn(plain, holder, ones, take, give):
    """All of `ones` stand in line, and get the lock in that order."""
    for one in ones:
        stand(plain, one, *take)
    for n, one in enumerate(ones):
        assert (ones[n - 1] if n else holder).call(*give) == ONE
        assert one.read() in (b":%d\r\n" % (n + 2), ONE)
        assert len(entries(plain, take[1])) == len(ones) - n - 1


@BOTH
def test_first_come_first_served(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == ONE
        ones = [hasp.connect() for _ in range(8)]
        in_turn(plain, one, ones, ("LOCK", KEY, "WAIT", 9000), ("UNLOCK", KEY))
        for other in ones:
            other.close()


def test_first_come_first_served_by_workers_and_other_hasps(start_hasp, plain):
    hasps = [start_hasp(VERBS, workers=2), start_hasp(VERBS, workers=2)]
    with hasps[0].connect() as one:
        assert one.call("LOCK", KEY) == ONE
        ones = []
        while len(ones) < 8 or len({ticket.split("-")[0] for ticket in entries(plain)}) < 4:
            assert len(ones) < 80, "a worker that gets no connection"
            ones.append(hasps[len(ones) % 2].connect())
            stand(plain, ones[-1], "LOCK", KEY, "WAIT", 20000)
        for n, other in enumerate(ones):
            assert (ones[n - 1] if n else one).call("UNLOCK", KEY) == ONE
            assert other.read() == b":%d\r\n" % (n + 2)
        for other in ones:
            other.close()


def test_first_come_first_served_under_a_rule_by_two_hasps(start_hasp, plain):
    hasps = [start_hasp(rule()), start_hasp(rule())]
    with hasps[0].connect() as one:
        assert one.call("SETNX", "lock:1", "v") == ONE
        ones = [hasps[n % 2].connect() for n in range(6)]
        in_turn(plain, one, ones, ("SETNX", "lock:1", "v"), ("DEL", "lock:1"))
        for other in ones:
            other.close()


@pytest.mark.parametrize("take", [("LOCK", KEY), ("LOCK", KEY, "WAIT", 5000)])
def test_newcomer_does_not_overtake_who_waits(start_hasp, plain, take):
    """The lock is free, but its queue is not empty: nobody but the newcomer knows by now."""
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        plain.hset(KEY, "somebody", 1)
        stand(plain, one, "LOCK", KEY, "WAIT", 5000)
        plain.delete(KEY)
        other.send(encode(*take))
        assert soon(one) == ONE
        if len(take) == 2:
            assert other.read() == NIL
        else:
            assert one.call("UNLOCK", KEY) == ONE
            assert soon(other) == b":2\r\n"


def test_several_locks_have_a_queue_each(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", "a")
        one.call("LOCK", "b")
        stand(plain, other, "LOCK", "a", "WAIT", 5000)
        stand(plain, third, "LOCK", "b", "WAIT", 5000)
        assert one.call("UNLOCK", "b") == ONE
        assert soon(third) == b":3\r\n"
        assert plain.zcard(queue_of("a")) == 1


@BOTH
@pytest.mark.parametrize("proto, nil", [(2, NIL), (3, NIL3)])
def test_time_out_is_nil_and_leaves_the_queue(start_hasp, plain, proto, nil):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        other.call("HELLO", proto)
        began = time.monotonic()
        assert other.call("LOCK", KEY, "WAIT", 300) == nil
        assert 0.3 <= time.monotonic() - began < 3
        nobody_waits(plain)
        assert other.call("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("take, failed", [(("SETNX", "lock:1", "w"), ZERO), (("SET", "lock:1", "w", "NX"), NIL)])
def test_time_out_under_a_rule_is_what_redis_answers(start_hasp, plain, take, failed):
    hasp = start_hasp(rule(wait="300ms"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", "lock:1", "v")
        began = time.monotonic()
        assert other.call(*take) == failed
        assert 0.3 <= time.monotonic() - began < 3
        nobody_waits(plain, "lock:1")
        assert plain.get("lock:1") == "v"


def test_one_that_times_out_does_not_hold_up_those_behind_it(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 200)
        stand(plain, third, "LOCK", KEY, "WAIT", 9000)
        assert other.read() == NIL
        assert one.call("UNLOCK", KEY) == ONE
        assert soon(third) == b":2\r\n"


def test_wait_0_does_not_wait(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY, "WAIT", 0) == ONE
        other.send(encode("LOCK", KEY, "WAIT", 0))
        assert soon(other) == NIL
        assert not plain.exists(queue_of(KEY))


@pytest.mark.parametrize("ms, error", [
    ("x", b"timeout is not an integer or out of range"),
    ("", b"timeout is not an integer or out of range"),
    ("1.5", b"timeout is not an integer or out of range"),
    ("9223372036854775808", b"timeout is not an integer or out of range"),
    ("-1", b"timeout is negative"),
])
def test_wrong_wait_is_blpops_error(start_hasp, plain, ms, error):
    with start_hasp(VERBS).connect() as one:
        assert one.call("LOCK", KEY, "WAIT", ms) == b"-ERR %s\r\n" % error
        assert not plain.exists(KEY)


@pytest.mark.parametrize("options", [("WAIT",), ("WAIT", 1, "WAIT", 1), ("WAIT", 1, "PX")])
def test_wait_that_is_no_option_is_a_syntax_error(start_hasp, options):
    with start_hasp(VERBS).connect() as one:
        assert one.call("LOCK", KEY, *options) == b"-ERR syntax error\r\n"


def test_options_come_in_any_order_and_case(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "lock", KEY, "wait", 9000, "As", "bob", "eX", 40)
        one.call("UNLOCK", KEY)
        assert other.read() == b":2\r\n"
        assert plain.hgetall(KEY) == {"bob": "1"}
        assert 30000 < plain.pttl(KEY) <= 40000


def test_longest_wait_is_a_wait(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", (1 << 63) - 1 - (1 << 43))
        one.call("UNLOCK", KEY)
        assert soon(other) == b":2\r\n"


def test_lock_info_tells_how_many_wait(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        assert one.call("LOCK.INFO", KEY).endswith(b"$7\r\nwaiters\r\n:0\r\n")
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        stand(plain, third, "LOCK", KEY, "WAIT", 9000)
        assert one.call("LOCK.INFO", KEY).endswith(b"$7\r\nwaiters\r\n:2\r\n")


def test_waiters_lock_is_renewed_unless_it_has_a_lease(start_hasp, plain):
    hasp = start_hasp(verbs(lease="450ms"))
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        for key in ("a", "b"):
            one.call("LOCK", key)
        stand(plain, other, "LOCK", "a", "WAIT", 9000)
        stand(plain, third, "LOCK", "b", "WAIT", 9000, "PX", 450)
        for key in ("a", "b"):
            one.call("UNLOCK", key)
        other.read(), third.read()
        until(lambda: not plain.exists("b"), "the lease to end")
        seen, last = 0, 1 << 60
        while seen < 4:
            left = plain.pttl("a")
            assert left > 0
            seen, last = seen + (left > last), left
            time.sleep(0.005)


def test_waiters_lock_is_released_at_disconnect_when_it_shall(start_hasp, plain):
    hasp = start_hasp(verbs(on_disconnect="release"))
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        with hasp.connect() as other:
            stand(plain, other, "LOCK", KEY, "WAIT", 9000)
            one.call("UNLOCK", KEY)
            assert other.read() == b":2\r\n"
        until(lambda: not plain.exists(KEY), "the lock to go", timeout=5)


@pytest.mark.parametrize("pooling", ["session"])
@pytest.mark.parametrize("take, give", [(("LOCK", KEY, "WAIT", 9000), ("UNLOCK", KEY)),
                                        (("SETNX", "lock:1", "v"), ("DEL", "lock:1"))])
def test_answer_to_a_release_that_comes_after_the_grant_is_not_about_the_new_holder(
        start_hasp, redis_server, plain, take, give):
    """Who then hangs up has its lock released, for hasp still knows of it."""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(rule(on_disconnect="release") + verbs(on_disconnect="release"), upstream=relay.address)
        with hasp.connect() as one:
            one.call(*take)
            with hasp.connect() as other:
                stand(plain, other, *take)
                relay.holds_back = ONE
                one.send(encode(*give))
                assert other.read() in (b":2\r\n", ONE)
                relay.holds_back = None
                assert one.read() == ONE
            until(lambda: not plain.exists(take[1]), "the lock to go", timeout=5)
        hasp.stop()


def test_holder_that_hangs_up_hands_over(start_hasp, plain):
    hasp = start_hasp(verbs(on_disconnect="release"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.call("LOCK", KEY)
            stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        assert soon(other) == b":2\r\n"


# --- owners ----------------------------------------------------------------------


def named(connection, name):
    assert connection.call("CLIENT", "SETNAME", name) == OK
    return connection


@BOTH
@pytest.mark.parametrize("owner", ["connection", "name", "user"])
def test_waiter_gets_the_lock_for_its_owner(start_hasp, plain, owner):
    plain.execute_command("ACL", "SETUSER", "bob", "on", "nopass", "~*", "&*", "+@all")
    hasp = start_hasp(verbs(owner=owner))
    with named(hasp.connect(), "alice") as one, named(hasp.connect(), "bob") as other:
        assert other.call("AUTH", "bob", "x") == OK
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        one.call("UNLOCK", KEY)
        assert other.read() == b":2\r\n"
        (token,) = plain.hgetall(KEY)
        assert owner == "connection" or token.endswith("bob")
        assert one.call("UNLOCK", KEY) == ZERO
        assert other.call("UNLOCK", KEY) == ONE


def test_address_that_holds_a_lock_gets_in_again_and_others_wait(start_hasp, plain):
    hasp = start_hasp(verbs(owner="address"))
    with hasp.connect() as one, hasp.connect() as same, hasp.connect() as other:
        one.call("LOCK", KEY)
        assert same.call("LOCK", KEY, "WAIT", 5000) == ONE
        stand(plain, other, "LOCK", KEY, "WAIT", 9000, "AS", "other")
        assert same.call("UNLOCK", KEY) == ONE
        assert len(entries(plain)) == 1
        assert one.call("UNLOCK", KEY) == ONE
        assert soon(other) == b":2\r\n"


def test_named_owner_waits_and_another_connection_of_its_gives_back(start_hasp, plain):
    hasp, away = start_hasp(VERBS), start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, away.connect() as third:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000, "AS", "bob")
        one.call("UNLOCK", KEY)
        assert other.read() == b":2\r\n"
        assert third.call("UNLOCK", KEY, "AS", "bob") == ONE
        assert not plain.exists(KEY)


def test_count_is_shared_by_an_owners_connections_at_two_hasps(start_hasp, plain):
    hasp, away = start_hasp(VERBS), start_hasp(VERBS)
    with hasp.connect() as one, away.connect() as two, hasp.connect() as other:
        bob = ("AS", "bob")
        assert one.call("LOCK", KEY, "WAIT", 5000, *bob) == ONE
        stand(plain, other, "LOCK", KEY, "WAIT", 9000, "AS", "ann")
        # Whoever holds it need not stand behind those who wait for it.
        assert two.call("LOCK", KEY, "WAIT", 5000, *bob) == ONE
        assert one.call("UNLOCK", KEY, *bob) == ONE
        assert entries(plain) and plain.hgetall(KEY) == {"bob": "1"}
        assert one.call("UNLOCK", KEY, *bob) == ONE
        assert soon(other) == b":2\r\n"


def test_waiters_of_one_owner_all_get_in(start_hasp, plain):
    hasp, away = start_hasp(VERBS), start_hasp(VERBS)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        same = [(hasp, away)[n % 2].connect() for n in range(4)]
        for other in same:
            stand(plain, other, "LOCK", KEY, "WAIT", 4000, "AS", "bob")
        one.call("UNLOCK", KEY)
        assert [other.read() for other in same] == [b":2\r\n"] * 4
        assert plain.hgetall(KEY) == {"bob": "4"}
        for other in same:
            assert other.call("UNLOCK", KEY, "AS", "bob") == ONE
            other.close()
        assert not plain.exists(KEY)


def test_refreshing_owner_gets_in_again_and_others_wait(start_hasp, plain):
    hasp = start_hasp(verbs(reentrant="refresh"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY, "PX", 20000) == ONE
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        assert one.call("LOCK", KEY, "PX", 60000, "WAIT", 5000) == ONE
        assert plain.pttl(KEY) > 50000
        assert one.call("UNLOCK", KEY) == ONE
        assert soon(other) == b":2\r\n"


def test_layout_no_makes_its_own_owner_wait(start_hasp, plain):
    hasp = start_hasp(verbs(reentrant="no"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY, "AS", "bob") == ONE
        stand(plain, other, "LOCK", KEY, "WAIT", 9000, "AS", "bob")
        assert one.call("UNLOCK", KEY, "AS", "bob") == ONE
        assert soon(other) == b":2\r\n"


# --- rules with `wait` -----------------------------------------------------------


TAKES = [("SETNX", "lock:1", "w"), ("SET", "lock:1", "w", "NX"), ("SET", "lock:1", "w", "NX", "EX", 40),
         ("SET", "lock:1", "w", "px", 40000, "nx"),
         ("SET", "lock:1", "w", "NX", "EXAT", lambda: int(time.time()) + 40),
         ("SET", "lock:1", "w", "NX", "PXAT", lambda: int(time.time() * 1000) + 40000)]


@pytest.mark.parametrize("owner", ["connection", "value"])
@pytest.mark.parametrize("take", TAKES, ids=lambda take: "-".join(map(str, take[:1] + take[3:5])))
def test_rule_makes_setnx_and_set_nx_wait(start_hasp, plain, take, owner):
    hasp = start_hasp(rule(owner=owner, lease="40s"))
    take = [word() if callable(word) else word for word in take]
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        stand(plain, other, *take)
        assert one.call("DEL", "lock:1") == ONE
        assert soon(other) == (ONE if take[0] == "SETNX" else OK)
        assert plain.get("lock:1") == "w"
        assert 30000 < plain.pttl("lock:1") <= 40000
        if owner == "connection":
            assert one.call("DEL", "lock:1") == ZERO
            assert plain.pttl("hasp:owner:{lock:1}") > 30000
        assert other.call("DEL", "lock:1") == ONE


@BOTH
@pytest.mark.parametrize("take, took", [(("SETNX", "lock:1", "v"), ONE), (("SET", "lock:1", "v", "NX", "PX", 9000), OK)])
def test_free_lock_under_a_rule_is_got_at_once(start_hasp, plain, take, took):
    with start_hasp(rule()).connect() as one:
        assert one.call(*take) == took
        assert not plain.exists(queue_of("lock:1"))


def test_expiry_named_as_a_date_does_not_move_while_one_waits(start_hasp, plain):
    hasp = start_hasp(rule())
    date = int(time.time() * 1000) + 40000
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "SET", "lock:1", "w", "NX", "PXAT", date)
        until(lambda: time.time() * 1000 > date - 40000 + 300, "time to pass")
        one.call("DEL", "lock:1")
        assert other.read() == OK
        assert abs(plain.execute_command("PEXPIRETIME", "lock:1") - date) <= 1


@pytest.mark.parametrize("owner", ["address", "name", "user"])
def test_rule_with_wait_for_every_owner(start_hasp, plain, owner):
    plain.execute_command("ACL", "SETUSER", "bob", "on", "nopass", "~*", "&*", "+@all")
    hasp = start_hasp(rule(owner=owner))
    with named(hasp.connect(), "alice") as one, named(hasp.connect(), "bob") as other, \
            named(hasp.connect(), "bob") as same:
        for connection in (other, same):
            assert connection.call("AUTH", "bob", "x") == OK
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "SETNX", "lock:1", "v")
        one.call("DEL", "lock:1")
        assert soon(other) == ONE
        assert one.call("DEL", "lock:1") == (ONE if owner == "address" else ZERO)
        assert same.call("DEL", "lock:1") == (ZERO if owner == "address" else ONE)


def test_rule_with_wait_and_refresh_lets_its_owner_in_again(start_hasp, plain):
    hasp = start_hasp(rule(reentrant="refresh", lease="20s"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        stand(plain, other, "SETNX", "lock:1", "w")
        assert one.call("SET", "lock:1", "v", "NX", "EX", 60) == OK
        assert plain.pttl("lock:1") > 50000
        assert one.call("DEL", "lock:1") == ONE
        assert soon(other) == ONE


def test_rule_without_refresh_makes_its_owner_wait_for_itself(start_hasp, plain):
    with start_hasp(rule(wait="300ms")).connect() as one:
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert one.call("SETNX", "lock:1", "v") == ZERO
        nobody_waits(plain, "lock:1")


def test_set_nx_get_does_not_wait(start_hasp, plain):
    """It asks for the value that is there now."""
    hasp = start_hasp(rule())
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", "lock:1", "v")
        assert other.call("SET", "lock:1", "w", "NX", "GET") == b"$1\r\nv\r\n"
        assert not plain.exists(queue_of("lock:1"))


def test_other_writes_do_not_wait(start_hasp, plain):
    hasp = start_hasp(rule())
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", "lock:1", "v")
        assert other.call("SET", "lock:1", "w").startswith(b"-LOCKED ")
        assert other.call("SET", "lock:1", "w", "XX") == NIL
        assert other.call("INCR", "lock:1").startswith(b"-")
        assert not plain.exists(queue_of("lock:1"))


def test_rule_that_only_observes_makes_nobody_wait(start_hasp, plain):
    hasp = start_hasp(rule(mode="observe"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", "lock:1", "v")
        assert other.call("SETNX", "lock:1", "w") == ZERO
        assert not plain.exists(queue_of("lock:1"))


@BOTH
@pytest.mark.parametrize("take, failed", [(("LOCK", KEY, "WAIT", 9000), NIL), (("SETNX", "lock:1", "w"), ZERO),
                                          (("SET", "lock:1", "w", "NX"), NIL)])
def test_transaction_waits_for_nobody(start_hasp, plain, take, failed):
    hasp = start_hasp(rule() + VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        one.call("SETNX", "lock:1", "v")
        other.call("MULTI")
        assert other.call(*take) == b"+QUEUED\r\n"
        other.send(encode("EXEC"))
        assert soon(other) == b"*1\r\n" + failed
        assert not plain.exists(queue_of(take[1]))


def test_who_reads_no_replies_does_not_wait(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        other.send(encode("CLIENT", "REPLY", "OFF") + encode("LOCK", KEY, "WAIT", 9000)
                   + encode("CLIENT", "REPLY", "ON"))
        assert soon(other) == OK
        assert not plain.exists(queue_of(KEY))


def test_watched_key_is_not_waited_for(start_hasp, plain):
    """The application checks for itself."""
    hasp = start_hasp(rule())
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", "lock:1", "v")
        other.call("WATCH", "lock:1")
        other.send(encode("SETNX", "lock:1", "w"))
        assert soon(other) == ZERO


# --- releases of every kind ------------------------------------------------------


def test_del_of_several_keys_hands_over_each_of_them(start_hasp, plain):
    hasp = start_hasp(rule() + "[lock other]\npattern = other:*\n")
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third, hasp.connect() as none:
        for key in ("lock:1", "lock:2", "lock:3", "other:1"):
            assert one.call("SETNX", key, "v") == ONE
        assert none.call("SETNX", "other:2", "v") == ONE
        stand(plain, other, "SETNX", "lock:1", "w")
        stand(plain, third, "SETNX", "lock:3", "w")
        assert one.call("DEL", "lock:1", "other:1", "plain", "lock:2", "other:2", "lock:3") == b":4\r\n"
        assert soon(other) == soon(third) == ONE
        assert plain.exists("lock:1", "lock:3", "other:2") == 3 and not plain.exists("lock:2", "other:1")


def test_del_of_anothers_lock_hands_nothing_over(start_hasp, plain):
    hasp = start_hasp(rule())
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
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
def test_release_under_a_rule_wakes_the_waiter(start_hasp, plain, owner, release, reply, multi):
    """By whichever command, alone or in a transaction; the waiter is at another hasp's worker."""
    hasp, away = start_hasp(rule(owner=owner)), start_hasp(rule(owner=owner))
    release = [word() if callable(word) else word for word in release]
    with hasp.connect() as one, away.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == ONE
        if multi:
            assert one.call("MULTI") == OK
            assert one.call(*release) == b"+QUEUED\r\n"
        stand(plain, other, "SETNX", "lock:1", "w")
        one.send(encode("EXEC") if multi else encode(*release))
        assert soon(other) == ONE
        assert one.read() == (b"*1\r\n" + reply if multi else reply)


def test_compare_and_delete_with_anothers_value_wakes_nobody(start_hasp, plain):
    hasp = start_hasp(rule(owner="value"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SET", "lock:1", "v", "NX", "EX", 30)
        stand(plain, other, "SET", "lock:1", "w", "NX", "EX", 30)
        assert one.call("EVAL", COMPARE_AND_DELETE, 1, "lock:1", "w") == ZERO
        assert plain.get("lock:1") == "v" and len(entries(plain, "lock:1")) == 1
        assert one.call("EVAL", COMPARE_AND_DELETE, 1, "lock:1", "v") == ONE
        assert soon(other) == OK


def test_compare_and_delete_by_evalsha_wakes_the_waiter(start_hasp, plain):
    sha = plain.script_load(COMPARE_AND_DELETE)
    hasp = start_hasp(rule(owner="value"), workers=2)
    with hasp.connect() as other:
        ones = [hasp.connect() for _ in range(8)]  # at either worker
        ones[0].call("SET", "lock:1", 0, "NX", "EX", 30)
        for n, one in enumerate(ones):
            stand(plain, other, "SET", "lock:1", n + 1, "NX", "EX", 30)
            assert one.call("EVALSHA", sha, 1, "lock:1", n) == ONE
            assert soon(other) == OK
        for one in ones:
            one.close()


VERB_RELEASES = [(("DEL", KEY), ONE), (("UNLINK", "x", KEY), ONE), (("GETDEL", KEY), None),
                 (("EXPIRE", KEY, 0), ONE), (("RENAME", KEY, "elsewhere"), OK),
                 (("EVAL", "return redis.call('DEL', KEYS[1])", 1, KEY), ONE)]


@BOTH
@pytest.mark.parametrize("release, reply", VERB_RELEASES, ids=lambda value: value[0] if isinstance(value, tuple) else "")
@pytest.mark.parametrize("multi", [False, True])
def test_release_without_a_rule_wakes_who_waits_by_verb(start_hasp, plain, release, reply, multi):
    hasp = start_hasp(verbs(reentrant="no"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        if multi:
            assert one.call("MULTI") == OK
        stand(plain, other, "LOCK", KEY, "WAIT", 5000)
        hasp.take_turn()  # and knows it
        if multi:
            assert one.call(*release) == b"+QUEUED\r\n"
        one.send(encode("EXEC") if multi else encode(*release))
        assert soon(other) == b":2\r\n"
        answer = one.read()
        assert reply is None or answer == (b"*1\r\n" + reply if multi else reply)


def test_release_without_a_rule_wakes_who_waits_at_another_worker(start_hasp, plain):
    hasp = start_hasp(verbs(reentrant="no"), workers=2)
    ones = [hasp.connect() for _ in range(8)]  # at either worker
    with hasp.connect() as other:
        plain.set(KEY, "somebody")
        for one in ones:
            stand(plain, other, "LOCK", KEY, "WAIT", 5000)
            hasp.take_turn()
            assert one.call("DEL", KEY) == ONE
            assert soon(other).startswith(b":")
    for one in ones:
        one.close()


def test_redissons_message_wakes_who_waits_by_verb(start_hasp, plain):
    """Its clients release past hasp and say so."""
    hasp = start_hasp(VERBS)
    with hasp.connect() as one:
        plain.hset(KEY, "somebody", 1)
        stand(plain, one, "LOCK", KEY, "WAIT", 5000)
        channel = f"redisson_lock__channel:{{{KEY}}}"
        until(lambda: plain.pubsub_numsub(channel)[0][1], "hasp to listen")
        plain.delete(KEY)
        plain.publish(channel, "0")
        assert soon(one) == ONE


def test_redissons_waiters_are_told_when_none_of_ours_is_left(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, plain.pubsub() as listener:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        listener.subscribe(f"redisson_lock__channel:{{{KEY}}}")
        assert listener.get_message(timeout=5)["type"] == "subscribe"
        one.call("UNLOCK", KEY)
        other.read()
        before = plain.exists(KEY)
        other.call("UNLOCK", KEY)
        assert before and listener.get_message(timeout=5)["data"] == "0"
        assert listener.get_message(timeout=0.01) is None


def test_end_of_a_lease_hands_over(start_hasp, plain):
    hasp = start_hasp(rule() + VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY, "PX", 300)
        one.call("SET", "lock:1", "v", "NX", "PX", 300)
        stand(plain, other, "LOCK", KEY, "WAIT", 5000)
        stand(plain, third, "SETNX", "lock:1", "w")
        assert soon(other) == b":2\r\n"
        assert soon(third) == ONE


def test_waiters_own_lease_ends_for_the_next_one(start_hasp, plain):
    """Nobody tells when the lease of one who was handed the lock is over."""
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 5000, "PX", 200)
        stand(plain, third, "LOCK", KEY, "WAIT", 5000)
        one.call("UNLOCK", KEY)
        assert soon(other) == b":2\r\n"
        assert soon(third) == b":3\r\n"


@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 5000), ("SETNX", "lock:1", "w")])
def test_lock_set_and_deleted_past_hasp_is_noticed_by_its_own_look(start_hasp, plain, take):
    hasp = start_hasp(rule() + verbs(reentrant="no"))
    with hasp.connect() as one:
        plain.set(take[1], "somebody's")
        stand(plain, one, *take)
        plain.delete(take[1])
        began = time.monotonic()
        assert one.read() == ONE
        assert time.monotonic() - began < 1.5


# --- what the queue must survive ---------------------------------------------------


@pytest.mark.parametrize("blow", [
    lambda plain: plain.delete(queue_of(KEY)),
    lambda plain: plain.execute_command("DEBUG", "RELOAD"),
    lambda plain: plain.script_flush(),
], ids=["DEL of the queue", "DEBUG RELOAD", "SCRIPT FLUSH"])
def test_waiters_keep_their_order_through(start_hasp, plain, blow):
    hasp, away = start_hasp(VERBS), start_hasp(VERBS)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        ones = [(hasp, away)[n % 2].connect() for n in range(4)]
        for other in ones:
            stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        blow(plain)
        until(lambda: plain.zcard(queue_of(KEY)) == 4, "all to stand in line again")
        for n, other in enumerate(ones):
            assert (ones[n - 1] if n else one).call("UNLOCK", KEY) == ONE
            assert other.read() == b":%d\r\n" % (n + 2)
        for other in ones:
            other.close()


def test_queue_outlives_who_waits_longest_and_not_much_more(start_hasp, plain):
    """Of a hasp that was killed it would stay for ever."""
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 50000)
        stand(plain, third, "LOCK", KEY, "WAIT", 10000)
        assert 45000 < plain.pttl(queue_of(KEY)) <= 60000


def test_release_wakes_though_the_queue_was_deleted(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        stand(plain, third, "LOCK", KEY, "WAIT", 9000)
        plain.delete(queue_of(KEY))
        assert one.call("UNLOCK", KEY) == ONE
        assert other.read() == b":2\r\n"
        assert other.call("UNLOCK", KEY) == ONE
        assert third.read() == b":3\r\n"


@pytest.mark.parametrize("past_hasp", [False, True])
@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 9000), ("SETNX", "lock:1", "w")])
def test_one_of_the_waiters_gets_the_lock_after_flushall(start_hasp, plain, past_hasp, take):
    hasp = start_hasp(rule(wait="9s") + VERBS)
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
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        (subscriber,) = subscribers(plain)
        with away.frozen():
            plain.client_kill_filter(_id=subscriber["id"])
            assert one.call("UNLOCK", KEY) == ONE
            assert not plain.exists(KEY)
        assert soon(other).startswith(b":")
        assert "subscriber_down" in away.log


def test_release_after_the_subscription_is_up_again(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        (subscriber,) = subscribers(plain)
        plain.client_kill_filter(_id=subscriber["id"])
        until(lambda: subscribers(plain) not in ([], [subscriber]), "hasp to subscribe again")
        assert one.call("UNLOCK", KEY) == ONE
        assert soon(other) == b":2\r\n"


@BOTH
@pytest.mark.parametrize("take, give", [(("LOCK", KEY, "WAIT", 9000), ("UNLOCK", KEY)),
                                        (("SETNX", "lock:1", "v"), ("DEL", "lock:1"))])
def test_who_was_passed_over_while_the_subscription_was_down_goes_before_a_newcomer(
        start_hasp, redis_server, plain, take, give):
    """The lock is free and its queue empty, as far as Redis knows, and hasp is the one to know
    better. The newcomer asks while hasp is deaf."""
    hasp, away = start_hasp(rule(wait="9s") + VERBS), start_hasp(rule(wait="9s") + VERBS)
    with away.connect() as holder, hasp.connect() as one, hasp.connect() as two, hasp.connect() as newcomer:
        plain.hset(KEY, "somebody", 1)
        plain.set("lock:1", "somebody's")
        for other in (one, two):
            stand(plain, other, *take)
        (subscriber,) = subscribers(plain)
        with hasp.frozen():
            plain.client_kill_filter(_id=subscriber["id"])
            plain.delete(KEY, "lock:1")
            # It lets in whoever is there: nobody.
            assert holder.call(*take) == ONE and holder.call(*give) == ONE
            assert not plain.exists(take[1], queue_of(take[1]))
            redis_server.freeze()
        try:
            until(lambda: "subscriber_down" in hasp.log, "hasp to notice")
            newcomer.send(encode(*take))
            hasp.take_turn()
        finally:
            redis_server.signal(signal.SIGCONT)
        for fence, other in enumerate((one, two, newcomer), 2):
            assert other.read() in (b":%d\r\n" % fence, ONE)
            assert other.call(*give) == ONE


def test_release_while_hasps_own_connection_is_down_is_made_good(start_hasp, plain):
    """The lease of the lock ends without anybody's message: only a look can tell."""
    hasp = start_hasp(VERBS)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    (own,) = clients(plain)
    with hasp.connect() as one:
        plain.hset(KEY, "somebody", 1)
        stand(plain, one, "LOCK", KEY, "WAIT", 9000)
        with hasp.frozen():
            plain.client_kill_filter(_id=own["id"])
            plain.delete(KEY)
        assert one.read() == ONE
        assert "upstream_down" in hasp.log


@BOTH
def test_waiter_whose_link_was_killed_ends_well(start_hasp, plain, pooling):
    """A link that others share is none of its business; its own is its connection."""
    hasp = start_hasp(VERBS)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    with hasp.connect() as other:
        plain.hset(KEY, "somebody", 1)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        for link in clients(plain, cmd="evalsha" if pooling == "shared" else "eval") or clients(plain):
            if link["sub"] == "0":
                plain.client_kill_filter(_id=link["id"])
        if pooling == "shared":
            plain.delete(KEY)
            assert other.read() == ONE
        else:
            assert other.at_end()
            nobody_waits(plain)


@BOTH
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 60000), ("SETNX", "lock:1", "w")])
def test_client_that_hangs_up_leaves_the_queue(start_hasp, plain, half, take):
    hasp = start_hasp(rule(wait="60s") + VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, *take)
        if half:
            other.sock.shutdown(socket.SHUT_WR)
            assert other.at_end()
        else:
            other.close()
        nobody_waits(plain, take[1])


def test_lock_handed_to_one_who_has_hung_up_goes_to_the_next(start_hasp, plain):
    """Whichever of both hasp hears of first."""
    hasp, away = start_hasp(VERBS), start_hasp(VERBS)
    with hasp.connect() as one, away.connect() as gone, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, gone, "LOCK", KEY, "WAIT", 9000, "AS", "gone")
        with away.frozen():
            stand(plain, other, "LOCK", KEY, "WAIT", 9000)
            gone.close()
            assert one.call("UNLOCK", KEY) == ONE
            assert plain.hgetall(KEY) == {"gone": "1"}
        assert soon(other) == b":3\r\n"


def test_waiters_of_a_hasp_that_was_killed_hold_up_nobody(start_hasp, plain):
    hasp, dead = start_hasp(rule() + VERBS), start_hasp(rule() + VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        one.call("SETNX", "lock:1", "v")
        gone = [dead.connect() for _ in range(6)]
        for n, connection in enumerate(gone):
            stand(plain, connection, *(("SETNX", "lock:1", "w") if n % 2 else ("LOCK", KEY, "WAIT", 9000)))
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        stand(plain, third, "SETNX", "lock:1", "w")
        dead.expect_exit = -signal.SIGKILL
        dead.kill()
        until(lambda: len(subscribers(plain)) == 1, "Redis to notice")
        one.call("UNLOCK", KEY)
        assert soon(other) == b":2\r\n" or plain.hlen(KEY) == 1
        one.call("DEL", "lock:1")
        assert soon(third) == ONE
        for connection in gone:
            connection.close()


@pytest.mark.parametrize("take, lease", [(("LOCK", KEY, "WAIT", 9000, "PX", 300), VERBS),
                                         (("SET", "lock:1", "w", "NX", "PX", 300), rule(wait="9s"))])
def test_grant_that_comes_after_its_lease_is_not_told(start_hasp, plain, take, lease):
    """hasp sleeps while it is handed the lock, until another one has it."""
    hasp, slow = start_hasp(rule() + VERBS), start_hasp(rule(wait="9s") + VERBS)
    key, verb = take[1], take[0] == "LOCK"
    with hasp.connect() as one, slow.connect() as other, hasp.connect() as third:
        one.call(*(("LOCK", key) if verb else ("SETNX", key, "v")))
        stand(plain, other, *take)
        with slow.frozen():
            one.call(*(("UNLOCK", key) if verb else ("DEL", key)))
            assert plain.exists(key)
            until(lambda: not plain.exists(key), "the lease to end")
            assert third.call(*(("LOCK", key) if verb else ("SETNX", key, "x"))).startswith(b":")
        until(lambda: len(entries(plain, key)) == 1, "it to stand in line again")
        third.call(*(("UNLOCK", key) if verb else ("DEL", key)))
        assert soon(other) == (b":4\r\n" if verb else OK)
        assert 0 < plain.pttl(key) <= 300


@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 9000, "PX", 2000), ("SET", "lock:1", "w", "NX", "PX", 2000)])
def test_grant_that_comes_late_begins_its_lease_again(start_hasp, plain, take):
    hasp, slow = start_hasp(rule() + VERBS), start_hasp(rule(wait="9s") + VERBS)
    key, verb = take[1], take[0] == "LOCK"
    with hasp.connect() as one, slow.connect() as other:
        one.call(*(("LOCK", key) if verb else ("SETNX", key, "v")))
        stand(plain, other, *take)
        with slow.frozen():
            one.call(*(("UNLOCK", key) if verb else ("DEL", key)))
            until(lambda: plain.pttl(key) < 1400, "a part of the lease to pass")
        assert other.read() == (b":2\r\n" if verb else OK)
        assert plain.pttl(key) > 1800


# --- the client's other commands ---------------------------------------------------


@BOTH
def test_commands_behind_one_that_waits_wait(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        other.send(encode("SET", "x", 1) + encode("UNLOCK", KEY) + encode("PING"))
        hasp.take_turn()
        assert not plain.exists("x")
        assert one.call("SET", "y", 1) == OK  # maybe over the same link
        assert one.call("UNLOCK", KEY) == ONE
        assert [other.read() for _ in range(4)] == [b":2\r\n", OK, ONE, b"+PONG\r\n"]


@BOTH
def test_commands_before_one_that_waits_are_answered(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        other.send(encode("PING") + encode("LOCK", KEY, "WAIT", 9000) + encode("PING"))
        assert other.read() == b"+PONG\r\n"
        until(lambda: entries(plain), "it to stand in line")
        one.call("UNLOCK", KEY)
        assert [other.read(), other.read()] == [b":2\r\n", b"+PONG\r\n"]


def test_pipeline_of_locks_waits_for_each(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other:
        for key in "abc":
            one.call("LOCK", key)
        other.send(b"".join(encode("LOCK", key, "WAIT", 9000) for key in "abc"))
        for n, key in enumerate("abc"):
            until(lambda: entries(plain, key), f"{key} to be waited for")  # noqa: B023
            one.call("UNLOCK", key)
            assert soon(other) == b":%d\r\n" % (4 + n)


def test_waiters_do_not_hold_up_others(start_hasp, plain):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        ones = [hasp.connect() for _ in range(20)]
        for other in ones:
            other.send(encode("LOCK", KEY, "WAIT", 9000))
        until(lambda: len(entries(plain)) == 20, "all to stand in line")
        one.send(encode("PING") * 100)
        assert [soon(one) for _ in range(100)] == [b"+PONG\r\n"] * 100
        for other in ones:
            other.close()


# --- databases and names -----------------------------------------------------------


@BOTH
@pytest.mark.parametrize("take, give", [(("LOCK", KEY, "WAIT", 9000), ("UNLOCK", KEY)),
                                        (("SETNX", "lock:1", "v"), ("DEL", "lock:1"))])
def test_queues_of_two_databases_are_two(start_hasp, redis_server, plain, take, give):
    hasp = start_hasp(rule() + VERBS)
    key = take[1]
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third, \
            redis_server.client(db=3) as three:
        assert one.call(*take) == ONE
        other.call("SELECT", 3)
        assert other.call(*take) == ONE
        third.call("SELECT", 3)
        stand(three, third, *take)
        assert one.call(*give) == ONE
        assert three.zcard(queue_of(key)) == 1
        assert other.call(*give) == ONE
        assert soon(third).startswith(b":")
        assert not plain.exists(key)


def test_own_look_is_at_the_waiters_database(start_hasp, redis_server):
    hasp = start_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as other, redis_server.client(db=3) as three:
        for connection in (one, other):
            connection.call("SELECT", 3)
        one.call("LOCK", KEY, "PX", 300)
        stand(three, other, "LOCK", KEY, "WAIT", 9000)
        assert soon(other) == b":2\r\n"


KEYS = [b"{a}b", b"a{b", b"a}b", b"{}a", b"", b" ", b"a b", b"a\r\nb", b"\0\xff\x80", b"%d%s", b"x" * 5000]


@pytest.mark.parametrize("take, give", [(("LOCK", "WAIT", 9000), "UNLOCK"), (("SETNX", b"\0 \r\n\xff"), "DEL")])
def test_any_key_can_be_waited_for(start_hasp, redis_server, take, give):
    hasp = start_hasp(rule(pattern="*") + VERBS)
    with hasp.connect() as one, hasp.connect() as other, redis_server.connect() as plain:
        for key in KEYS:
            assert one.call(take[0], key, *take[1:]).startswith(b":")
            other.send(encode(take[0], key, *take[1:]))
            tagged = key.startswith(b"{a}")
            queue = b"hasp:queue:" + (key + b":" if tagged else b"{" + key + b"}")
            until(lambda: plain.call("ZCARD", queue) == ONE, f"{key} to be waited for")  # noqa: B023
            assert one.call(give, key) == ONE
            assert soon(other).startswith(b":")
            if give == "DEL":
                assert plain.call("GET", key) == b"$5\r\n\0 \r\n\xff\r\n"
            assert other.call(give, key) == ONE


def test_key_that_is_no_lock_is_an_error_and_nobody_waits(start_hasp, plain):
    with start_hasp(rule() + VERBS).connect() as one:
        plain.lpush(KEY, 1)
        plain.lpush("lock:1", 1)
        plain.set(queue_of("q"), 1)
        plain.hset("q", "somebody", 1)
        assert one.call("LOCK", KEY, "WAIT", 9000).startswith(b"-WRONGTYPE ")
        assert one.call("LOCK", "q", "WAIT", 9000).startswith(b"-WRONGTYPE ")
        assert not plain.exists(queue_of(KEY))


# --- what Redis allows -------------------------------------------------------------


def test_user_that_may_not_publish_releases_to_whom_hasp_then_finds(start_hasp, plain):
    plain.execute_command("ACL", "SETUSER", "app", "on", "nopass", "~*", "resetchannels", "+@all")
    hasp = start_hasp(rule() + VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        for connection in (one, other, third):
            assert connection.call("AUTH", "app", "x") == OK
        one.call("LOCK", KEY)
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        stand(plain, third, "SETNX", "lock:1", "w")
        assert one.call("UNLOCK", KEY) == ONE
        assert one.call("DEL", "lock:1") == ONE
        assert other.read().startswith(b":")
        assert third.read() == ONE
        nobody_waits(plain)


class ProtectedRedis(RedisServer):
    def __init__(self):
        super().__init__("--requirepass", "secret")

    def client(self, **options):
        return super().client(password="secret", **options)


@pytest.fixture
def protected(request):
    with ProtectedRedis() as server:
        yield server


def logged_in(hasp):
    connection = hasp.connect()
    assert connection.call("AUTH", "secret") == OK
    return connection


def upstream(server, **settings):
    """For start_hasp(upstream=...): the address, and further settings behind it."""
    return "\n".join([f"unix:{server.unix}", *(f"{name} = {value}" for name, value in settings.items())])


def test_hasp_subscribes_with_its_password(start_hasp, protected):
    hasp = start_hasp(VERBS, upstream=upstream(protected, password="secret"))
    with logged_in(hasp) as one, logged_in(hasp) as other, protected.client() as plain:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        one.call("UNLOCK", KEY)
        assert soon(other) == b":2\r\n"


def test_hasp_subscribes_as_its_user(start_hasp, protected):
    with protected.client() as plain:
        plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "&hasp:*", "+@all")
    hasp = start_hasp(VERBS, upstream=upstream(protected, user="hasp", password="pw"))
    with logged_in(hasp) as one, logged_in(hasp) as other, protected.client() as plain:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        (subscriber,) = subscribers(plain)
        assert subscriber["user"] == "hasp"
        one.call("UNLOCK", KEY)
        assert soon(other) == b":2\r\n"


def test_subscription_that_redis_refuses_is_an_error_to_who_would_wait(start_hasp, protected):
    hasp = start_hasp(rule() + VERBS, upstream=upstream(protected))
    with logged_in(hasp) as one:
        error = b"-ERR hasp: cannot wait for a lock: NOAUTH "
        assert one.call("LOCK", KEY, "WAIT", 9000).startswith(error)
        assert one.call("SETNX", "lock:1", "v").startswith(error)
        assert one.call("LOCK", KEY) == ONE  # who does not wait needs no subscription
        assert one.call("DEL", "lock:1") == ZERO


def test_subscription_is_tried_again(start_hasp, protected):
    with protected.client() as plain:
        plain.execute_command("ACL", "SETUSER", "hasp", "on", ">pw", "~*", "resetchannels", "+@all")
        hasp = start_hasp(VERBS, upstream=upstream(protected, user="hasp", password="pw"))
        with logged_in(hasp) as one:
            assert one.call("LOCK", KEY, "WAIT", 9000).startswith(b"-ERR hasp: cannot wait for a lock: NOPERM ")
            plain.execute_command("ACL", "SETUSER", "hasp", "&*")
            until(lambda: one.call("LOCK", KEY, "WAIT", 9000) == ONE, "hasp to subscribe")
        assert hasp.log.count("subscriber_down") == 1


# --- reload, end, and Redis' end ---------------------------------------------------


def reload(hasp, old, new):
    text = hasp.config_file.read_text()
    assert old in text
    before = hasp.log.count("reloaded")
    hasp.config_file.write_text(text.replace(old, new))
    hasp.signal(signal.SIGHUP)
    until(lambda: hasp.log.count("reloaded") > before, "the reload")


def test_waiters_outlive_a_reload(start_hasp, plain):
    hasp = start_hasp(rule() + VERBS)
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("LOCK", KEY)
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        stand(plain, third, "SETNX", "lock:1", "w")
        reload(hasp, "wait = 5s", "wait = 4s")
        one.call("UNLOCK", KEY)
        assert other.read() == b":2\r\n"
        one.call("DEL", "lock:1")
        assert third.read() == ONE


def test_waiters_whose_rule_is_gone_end_well(start_hasp, plain):
    """One gets the lock; one that lost its place asks again, and is told what Redis says."""
    hasp = start_hasp(rule(wait="9s"))
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        one.call("SETNX", "lock:1", "v")
        stand(plain, other, "SETNX", "lock:1", "w")
        stand(plain, third, "SETNX", "lock:1", "w")
        reload(hasp, "lock:*", "other:*")
        assert one.call("DEL", "lock:1") == ONE
        assert other.read() == ONE
        plain.delete(queue_of("lock:1"))
        assert third.read() == ZERO


def test_waiter_is_waited_for_when_hasp_is_to_leave(start_hasp, plain):
    hasp, away = start_hasp(VERBS), start_hasp(VERBS)
    with away.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        hasp.signal(signal.SIGTERM)
        until(lambda: "draining" in hasp.log, "hasp to drain")
        one.call("UNLOCK", KEY)
        assert other.read() == b":2\r\n"
        assert other.at_end()
        assert hasp.child.wait(5) == 0


@pytest.mark.parametrize("again", [False, True])
def test_waiters_have_left_the_queue_when_hasp_is_gone(start_hasp, plain, again):
    """After drain_timeout, or at a second SIGTERM."""
    hasp, away = start_hasp(VERBS, drain_timeout="30s" if again else "200ms"), start_hasp(VERBS)
    with away.connect() as one, hasp.connect() as other:
        one.call("LOCK", KEY)
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        hasp.signal(signal.SIGTERM)
        if again:
            until(lambda: "draining" in hasp.log, "hasp to drain")
            hasp.signal(signal.SIGTERM)
        assert other.at_end()
        hasp.child.wait(5)
        assert not entries(plain)


@BOTH
@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 20000), ("SETNX", "lock:1", "w")])
def test_waiters_end_well_when_redis_restarts(start_hasp, redis_server, plain, pooling, take):
    """With a link of its own that is the end of the connection, as it is without hasp."""
    hasp = start_hasp(rule(wait="20s") + VERBS)
    ones = [hasp.connect() for _ in range(3)]
    plain.hset(take[1], "somebody", 1)
    if take[0] == "SETNX":
        plain.delete(take[1])
        plain.set(take[1], "v")
    for other in ones:
        stand(plain, other, *take)
    redis_server.kill()
    redis_server.start()  # it remembers nothing
    for other in ones:
        if pooling == "session":
            assert other.at_end()
            continue
        other.sock.settimeout(10)
        assert other.read() == b":%d\r\n" % (ones.index(other) + 1 if take[0] == "LOCK" else 1)
        other.call(*(("UNLOCK", KEY) if take[0] == "LOCK" else ("DEL", "lock:1")))
    for other in ones:
        other.close()


# --- an outcome that is not known ---------------------------------------------------


class Lost:
    """hasp behind a relay that cuts between a command and its reply."""

    def __init__(self, start_hasp, redis_server, plain, rules):
        self.relay = Relay(redis_server.address)
        self.plain = plain
        self.hasp = start_hasp(rules, upstream=self.relay.address)
        until(lambda: "upstream_up" in self.hasp.log, "hasp's own connection")

    def lose(self, connection, *command, done):
        """Sends it, has Redis carry it out, and loses the answer. Returns what the client is told."""
        self.relay.swallows = True
        connection.send(encode(*command))
        until(done, f"{command} to be carried out")
        self.relay.cut()
        return connection.file.read()

    def subscribe(self, take, key):
        """hasp must have subscribed before it sends what may have to wait."""
        with self.hasp.connect() as one:
            one.call(*(key + ":0" if word == key else word for word in take))
            one.call("DEL", key + ":0", *(f"hasp:{side}:{{{key}:0}}" for side in ("fence", "owner")))


@pytest.fixture
def lost(start_hasp, redis_server, plain):
    losts = []

    def start(rules):
        losts.append(Lost(start_hasp, redis_server, plain, rules))
        return losts[-1]

    yield start
    for lost in losts:
        if lost.relay.listener.fileno() >= 0:
            lost.relay.cut()


UNKNOWN = b"-ERR hasp: upstream "
UNDONE = [
    (VERBS, ("LOCK", KEY), KEY),
    (VERBS, ("LOCK", KEY, "WAIT", 5000, "AS", "bob"), KEY),
    (verbs(reentrant="refresh"), ("LOCK", KEY, "PX", 60000), KEY),
    (verbs(reentrant="no"), ("LOCK", KEY), KEY),
    (rule(), ("SETNX", "lock:1", "v"), "lock:1"),
    (rule(), ("SET", "lock:1", "v", "NX", "EX", 60), "lock:1"),
    (rule(owner="value"), ("SET", "lock:1", "v", "NX", "EX", 60), "lock:1"),
    (rule(owner="name"), ("SETNX", "lock:1", "v"), "lock:1"),
    (rule(wait=0), ("SETNX", "lock:1", "v"), "lock:1"),
    (rule(wait=0), ("SET", "lock:1", "v", "NX", "EX", 60), "lock:1"),
    (rule(wait=0, owner="value"), ("SET", "lock:1", "v", "NX", "EX", 60), "lock:1"),
]


@BOTH
@pytest.mark.parametrize("rules, take, key", UNDONE, ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_lock_whose_taking_was_never_answered_is_undone(lost, plain, rules, take, key):
    it = lost(rules)
    it.subscribe(take, key)
    with it.hasp.connect() as one:
        assert one.call("CLIENT", "SETNAME", "me") == OK
        assert it.lose(one, *take, done=lambda: plain.exists(key)).startswith(UNKNOWN)
        assert plain.exists(key)
        it.relay.mend()
        until(lambda: not plain.exists(key), "the lock to be undone", timeout=5)
        assert not plain.keys("hasp:[oq]*") and not plain.keys("hasp:fence:*")


@pytest.mark.parametrize("rules, take, key", UNDONE, ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_lock_taken_in_a_transaction_that_was_never_answered_is_undone(lost, plain, rules, take, key):
    it = lost(rules)
    with it.hasp.connect() as one:
        assert one.call("CLIENT", "SETNAME", "me") == OK
        assert one.call("MULTI") == OK
        assert one.call(*take) == b"+QUEUED\r\n"
        it.lose(one, "EXEC", done=lambda: plain.exists(key))
        it.relay.mend()
        until(lambda: not plain.exists(key), "the lock to be undone", timeout=5)


def test_undoing_hands_over(lost, start_hasp, plain):
    it, away = lost(VERBS), start_hasp(VERBS)
    with it.hasp.connect() as one, away.connect() as other:
        it.lose(one, "LOCK", KEY, done=lambda: plain.exists(KEY))
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        it.relay.mend()
        assert other.read() == b":2\r\n"


def test_standing_in_line_that_was_never_answered_is_undone(lost, plain):
    it = lost(VERBS)
    with it.hasp.connect() as one:
        plain.hset(KEY, "somebody", 1)
        assert one.call("LOCK", "other", "WAIT", 5000) == ONE  # hasp has subscribed
        told = it.lose(one, "LOCK", KEY, "WAIT", 60000, done=lambda: entries(plain))
        assert told.startswith(UNKNOWN)
        it.relay.mend()
        nobody_waits(plain)


@pytest.mark.parametrize("owner", [(), ("AS", "bob")])
def test_undoing_one_hold_leaves_the_others(lost, plain, owner):
    it = lost(VERBS)
    with it.hasp.connect() as one:
        assert one.call("LOCK", KEY, *owner) == ONE
        told = it.lose(one, "LOCK", KEY, *owner, done=lambda: plain.hvals(KEY) == ["2"])
        assert told.startswith(UNKNOWN)
        it.relay.mend()
        until(lambda: plain.hvals(KEY) == ["1"], "one hold to be undone", timeout=5)


def test_undoing_finds_its_hold_behind_many_others(lost, start_hasp, plain):
    it = lost(VERBS)
    with it.hasp.connect() as one, start_hasp(VERBS).connect() as other:
        assert other.call("LOCK", KEY, "AS", "bob") == ONE
        told = it.lose(one, "LOCK", KEY, "AS", "bob", done=lambda: plain.hvals(KEY) == ["2"])
        assert told.startswith(UNKNOWN)
        for _ in range(100):
            assert other.call("LOCK", KEY, "AS", "bob") == ONE
            assert other.call("UNLOCK", KEY, "AS", "bob") == ONE
        it.relay.mend()
        until(lambda: plain.hvals(KEY) == ["1"], "one hold to be undone", timeout=5)


@pytest.mark.parametrize("stale", [{"set": "a rule's"}, {"zadd": {"1 t": 1}}])
def test_lock_is_got_again_beside_what_is_left_of_another_one(start_hasp, plain, stale):
    """The sidecar of a rule's lock that is over, or of a lock with another fencing token."""
    side = "hasp:owner:{k}"
    with start_hasp(VERBS).connect() as one:
        assert one.call("LOCK", KEY) == ONE
        for command, value in stale.items():
            getattr(plain, command)(side, value)
        assert one.call("LOCK", KEY) == ONE
        assert [member.split()[0] for member in plain.zrange(side, 0, -1)][-1] == "1"
        assert one.call("UNLOCK", KEY) == ONE
        assert plain.exists(KEY, side) == 2
        assert one.call("UNLOCK", KEY) == ONE
        assert not plain.exists(KEY, side)


HELD = [
    (verbs(reentrant="refresh"), ("LOCK", KEY, "PX", 60000), ("LOCK", KEY, "PX", 60000), "set"),
    (verbs(reentrant="no"), ("LOCK", KEY, "PX", 60000), ("LOCK", KEY, "PX", 60000), "get"),
    (rule(reentrant="refresh"), ("SETNX", "lock:1", "v"), ("SETNX", "lock:1", "v"), "set"),
    (rule(wait=0, reentrant="refresh"), ("SETNX", "lock:1", "v"), ("SETNX", "lock:1", "v"), "set"),
    (rule(wait=0), ("SETNX", "lock:1", "v"), ("SETNX", "lock:1", "v"), "set"),
    (rule(wait=0), ("SET", "lock:1", "v", "NX", "PX", 60000), ("SET", "lock:1", "v", "NX", "PX", 60000), "set"),
    (rule(wait=0), ("SET", "lock:1", "v", "NX", "PX", 60000), ("SET", "lock:1", "v", "NX", "PX", 20000), "set"),
    (rule(wait=0, owner="value"), ("SET", "lock:1", "v", "NX", "PX", 60000),
     ("SET", "lock:1", "v", "NX", "PX", 20000), "set"),
]


@pytest.mark.parametrize("rules, take, again, command", HELD, ids=range(len(HELD)))
def test_lock_held_before_is_not_undone(lost, plain, rules, take, again, command):
    it = lost(rules)
    with it.hasp.connect() as one:
        assert one.call(*take) in (ONE, OK)
        left = plain.pttl(take[1])
        until(lambda: plain.pttl(take[1]) < left - 50, "time to pass")
        before = calls(plain, command)
        assert it.lose(one, *again, done=lambda: calls(plain, command) > before).startswith(UNKNOWN)
        it.relay.mend()
        until(lambda: it.hasp.log.count("upstream_up") == 2, "hasp to be back")
        # What it does for itself it does in order: it has undone by now what it undoes.
        with it.hasp.connect() as other:
            other.call("LOCK", "x") if "[verbs]" in rules else other.call("SETNX", "lock:x", "v")
        until(lambda: calls(plain, "evalsha") > 0, "it")
        plain.ping()
        time.sleep(0.1)
        assert plain.exists(take[1])


# --- many ----------------------------------------------------------------------------


class Crowd:
    """So many raw connections, read without blocking."""

    def __init__(self, address, n):
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self.selector = selectors.DefaultSelector()
        self.ones = []
        for number in range(n):
            one = socket.create_connection(address)
            one.setblocking(False)
            self.selector.register(one, selectors.EVENT_READ, number)
            self.ones.append(one)

    def send(self, number, *command):
        self.ones[number].sendall(encode(*command))

    def replies(self, timeout=30):
        """(number, reply) of whoever has one, until nobody has for long."""
        while True:
            ready = self.selector.select(timeout)
            assert ready, "nobody is told anything"
            for key, _ in ready:
                data = key.fileobj.recv(256)
                assert data.endswith(b"\r\n"), data
                yield key.data, data

    def close(self):
        self.selector.close()
        for one in self.ones:
            one.close()


MANY = 10000


def test_ten_thousand_wait_for_one_lock_and_get_it_in_turn(start_hasp, plain):
    hasp = start_hasp(VERBS, max_clients=MANY + 50)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        crowd = Crowd(hasp.address, MANY)
        for number in range(MANY):
            crowd.send(number, "LOCK", KEY, "WAIT", 120000, "AS", f"w{number}")
        until(lambda: plain.zcard(queue_of(KEY)) == MANY, "all to stand in line", timeout=60)
        order = [int(entry.split()[5][1:]) for entry in plain.zrange(queue_of(KEY), 0, -1)]
        one.call("UNLOCK", KEY)
        got = []
        for number, reply in crowd.replies():
            if reply == ONE:  # its UNLOCK
                continue
            assert reply == b":%d\r\n" % (len(got) + 2)
            got.append(number)
            crowd.send(number, "UNLOCK", KEY, "AS", f"w{number}")
            if len(got) == MANY:
                break
        assert got == order
        crowd.close()


def test_ten_thousand_locks_are_waited_for_by_one_each(start_hasp, plain):
    hasp = start_hasp(VERBS, max_clients=MANY + 50)
    with hasp.connect() as one:
        one.sock.settimeout(60)
        one.send(b"".join(encode("LOCK", f"k{number}", "EX", 300) for number in range(MANY)))
        assert [one.read() for _ in range(MANY)] == [b":%d\r\n" % (number + 1) for number in range(MANY)]
        crowd = Crowd(hasp.address, MANY)
        for number in range(MANY):
            crowd.send(number, "LOCK", f"k{number}", "WAIT", 120000)
        until(lambda: plain.dbsize() == 3 * MANY + 1, "all to stand in line", timeout=60)
        one.send(b"".join(encode("UNLOCK", f"k{number}") for number in range(MANY)))
        got = collections.Counter()
        for number, reply in crowd.replies():
            assert MANY < int(reply[1:-2]) <= 2 * MANY
            got[number] += 1
            if len(got) == MANY:
                break
        assert set(got.values()) == {1}
        crowd.close()


def test_all_of_ten_thousand_leave_when_they_hang_up(start_hasp, plain):
    hasp = start_hasp(VERBS, max_clients=MANY + 50)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        crowd = Crowd(hasp.address, MANY)
        for number in range(MANY):
            crowd.send(number, "LOCK", KEY, "WAIT", 120000)
        until(lambda: plain.zcard(queue_of(KEY)) == MANY, "all to stand in line", timeout=60)
        crowd.close()
        until(lambda: not plain.exists(queue_of(KEY)), "all to leave", timeout=60)
        assert one.call("UNLOCK", KEY) == ONE and not plain.exists(KEY)
