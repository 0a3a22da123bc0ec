# SPDX-License-Identifier: BSD-3-Clause
"""Owners shared by several connections: which connection holds the lock, and what each releases.

The connections belong to one worker, to two workers or to two proxies, which learn of each other in
different ways. To show that something does not happen, a test waits for a later event: Redis runs
hasp's own calls in the order in which hasp makes them.
"""

import signal

import pytest
from harness import encode, until
from harness.info import calls, is_ready
from harness.line import queue_of, stand
from harness.marks import LAYOUTS
from harness.partners import OWNERS, WHERE, Partners, setting
from harness.relay import Relay
from harness.renewal import LEASE, LEASE_MS, is_renewed, runs_out
from harness.replies import FENCE, NIL, OK, ONE, PONG, TAKEN, UNKNOWN
from harness.sections import rule, verbs

KEY, LOCK = "k", "lock:1"


def take(connection, *options):
    """Takes the lock by LOCK."""
    assert connection.call("LOCK", KEY, *options).startswith(b":")


@pytest.fixture
def partners(share_hasp, plain):
    made = []

    def make(where, owner, rules):
        plain.execute_command("ACL", "SETUSER", "us", "on", "nopass", "~*", "&*", "+@all")
        made.append(Partners(share_hasp, plain, where, owner, rules))
        return made[-1]

    yield make
    for them in made:
        for connection in them.connections:
            connection.close()


# --- owners that several connections share ---------------------------------------


@WHERE
@OWNERS
def test_client_that_hangs_up_releases_its_own_hold_and_nobody_elses(partners, plain, where, owner):
    them = partners(where, owner, verbs(on_disconnect="release", **setting(owner)))
    one, other = them.join()
    take(one, *them.words)
    take(other, *them.words)
    them.hang_up(other)
    assert plain.hvals(KEY) == ["1"]
    assert one.call("LOCK", KEY, "AS", "stranger") == NIL
    them.hang_up(one)
    assert not plain.exists(KEY)


@WHERE
@OWNERS
def test_pool_releases_each_lock_by_another_connection_than_took_it(partners, plain, where, owner):
    them = partners(where, owner, verbs(**setting(owner)))
    one, other = them.join()
    for taker, releaser, *release in (one, other, "UNLOCK"), (other, one, "UNLOCK"), (one, other, "MUNLOCK", "1"):
        take(taker, *them.words)
        assert releaser.call(*release, KEY, *them.words) == ONE
        assert not plain.exists(KEY)


@WHERE
def test_client_that_hangs_up_releases_all_of_its_own_holds(partners, plain, where):
    them = partners(where, "AS", verbs(on_disconnect="release"))
    one, other = them.join()
    for connection in (one, other, other, one, other):
        take(connection, *them.words)
    assert other.call("UNLOCK", KEY, *them.words) == ONE
    them.hang_up(other)
    assert plain.hvals(KEY) == ["2"]
    them.hang_up(one)
    assert not plain.exists(KEY)


@WHERE
@LAYOUTS
def test_client_that_hangs_up_leaves_what_its_partner_has_taken_since(partners, plain, where, reentrant):
    """For hasp, the lock that the partner took looks the same as its own client's."""
    them = partners(where, "AS", verbs(on_disconnect="release", reentrant=reentrant))
    one, other = them.join()
    take(one, *them.words)
    assert other.call("UNLOCK", KEY, *them.words) == ONE
    take(other, "PX", 60000, *them.words)
    them.hang_up(one)
    assert plain.exists(KEY)
    them.hang_up(other)
    assert not plain.exists(KEY)


@WHERE
@pytest.mark.parametrize("renewed", [False, True])
def test_client_that_hangs_up_leaves_what_its_partner_has_refreshed(partners, plain, where, renewed):
    them = partners(where, "AS", verbs(on_disconnect="release", reentrant="refresh"))
    one, other = them.join()
    for connection in (one, other):
        take(connection, *(() if renewed else ("PX", 60000)), *them.words)
    them.hang_up(one)
    assert plain.exists(KEY)
    take(other, *them.words)
    them.hang_up(other)
    assert not plain.exists(KEY)


@WHERE
@pytest.mark.parametrize("wait", ["0", "5s"])
@pytest.mark.parametrize("owner", ["address", "name", "user"])
def test_client_that_hangs_up_leaves_what_its_partner_has_taken_since_under_a_rule(partners, plain, where, owner, wait):
    them = partners(where, owner, rule(on_disconnect="release", owner=owner, wait=wait) + verbs())
    one, other = them.join()
    assert one.call("SETNX", LOCK, "v") == ONE
    assert other.call("DEL", LOCK) == ONE
    assert other.call("SET", LOCK, "v", "NX", "PX", 60000) == OK
    them.hang_up(one, last=("SETNX", "lock:last", "v"))
    assert plain.exists(LOCK)
    them.hang_up(other, last=("SETNX", "lock:last", "v"))
    assert not plain.exists(LOCK)


@pytest.mark.parametrize("where", ["two proxies"])
def test_lock_is_renewed_for_one_when_its_partner_releases_or_hangs_up(partners, plain, where):
    """hasp renews the lock for the remaining client, until that client leaves, too."""
    them = partners(where, "AS", verbs(lease=LEASE))
    one, other = them.join()
    for connection in (one, other, other):
        take(connection, *them.words)
    assert other.call("UNLOCK", KEY, *them.words) == ONE
    assert is_renewed(plain, KEY)
    other.close()
    assert is_renewed(plain, KEY)
    assert plain.hvals(KEY) == ["2"]
    assert one.call("UNLOCK", KEY, *them.words) == ONE
    assert runs_out(plain, KEY)


@pytest.mark.parametrize("where", ["two proxies"])
def test_shorter_lease_of_a_partner_ends_no_renewal(partners, plain, where):
    them = partners(where, "AS", verbs(lease=LEASE))
    one, other = them.join()
    take(one, *them.words)
    take(other, "PX", LEASE_MS - 1000, *them.words)
    assert is_renewed(plain, KEY)
    assert other.call("UNLOCK", KEY, *them.words) == ONE
    assert is_renewed(plain, KEY)


@WHERE
def test_shorter_lease_does_not_cut_a_partners(partners, plain, where):
    them = partners(where, "AS", verbs())
    one, other = them.join()
    take(one, "PX", 60000, *them.words)
    take(other, "PX", 10000, *them.words)
    assert plain.pttl(KEY) > 50000 and plain.pttl(f"hasp:fence:{{{KEY}}}") > 50000
    take(one, "PX", 90000, *them.words)
    assert plain.pttl(KEY) > 80000


def test_shorter_lease_does_not_cut_ones_own(clients, plain):
    one, = clients(1, verbs(lease=LEASE))
    assert one.call("LOCK", KEY) == FENCE
    end = plain.pexpiretime(KEY)
    assert one.call("LOCK", KEY, "PX", LEASE_MS - 1000) == FENCE
    assert plain.pexpiretime(KEY) >= end
    assert is_renewed(plain, KEY)
    assert one.call("UNLOCK", KEY) == one.call("UNLOCK", KEY) == ONE
    assert not plain.exists(KEY)


# --- partners that wait ----------------------------------------------------------


@pytest.mark.parametrize("alive", [True, False])
def test_shorter_lease_of_a_waiter_does_not_cut_that_of_its_partner_before_it(start_hasp, plain, alive):
    """Both clients get the lock, with the longer lease, unless the hasp of one was killed."""
    hasp, away = start_hasp(verbs()), start_hasp(verbs())
    with hasp.connect() as one, hasp.connect() as first, away.connect() as second:
        assert one.call("LOCK", KEY) == FENCE
        stand(plain, first, "LOCK", KEY, "PX", 60000, "WAIT", 60000, "AS", "us")
        stand(plain, second, "LOCK", KEY, "PX", 5000, "WAIT", 60000, "AS", "us")
        if not alive:
            away.expect_exit = -signal.SIGKILL
            away.kill()
            until(lambda: sum(c["sub"] != "0" for c in plain.client_list()) == 1, "Redis to notice that the hasp is dead")
        assert one.call("UNLOCK", KEY) == ONE
        assert first.read() == FENCE
        if alive:
            assert second.read() == FENCE
        assert plain.hgetall(KEY) == {"us": "2" if alive else "1"}
        assert plain.pttl(KEY) > 50000


def test_partners_who_hear_late_of_their_locks_have_one_hold_each(start_hasp, plain):
    """hasp reads both grants when part of the lease is over, and extends the lease for each
    client."""
    hasp, away = start_hasp(verbs()), start_hasp(verbs())
    with away.connect() as one, hasp.connect() as first, hasp.connect() as second:
        assert one.call("LOCK", KEY) == FENCE
        for other in (first, second):
            stand(plain, other, "LOCK", KEY, "PX", 6000, "WAIT", 60000, "AS", "us")
        with hasp.frozen():
            assert one.call("UNLOCK", KEY) == ONE
            until(lambda: plain.pttl(KEY) < 5100, "part of the lease to pass")
        assert first.read() == second.read() == FENCE
        assert plain.hgetall(KEY) == {"us": "2"}
        for other in (first, second):
            assert other.call("UNLOCK", KEY, "AS", "us") == ONE
        assert not plain.exists(KEY)


def test_partner_that_took_it_again_keeps_it_when_the_other_try_is_undone(start_hasp, redis_server, plain):
    """The lost reply belongs to the first attempt; the partner locked after it."""
    with Relay(redis_server.address) as relay:
        hasp, away = start_hasp(verbs()), is_ready(start_hasp(verbs(), upstream=relay.address), plain)
        with hasp.connect() as one, away.connect() as other:
            assert other.call("PING") == PONG  # so its link to Redis is connected
            relay.swallows = True
            other.send(encode("LOCK", KEY, "PX", 60000, "AS", "us"))
            until(lambda: plain.exists(KEY), "the lock to be taken")
            assert one.call("LOCK", KEY, "PX", 60000, "AS", "us") == FENCE
            relay.cut()
            assert other.read().startswith(UNKNOWN)
            relay.mend()
            until(lambda: plain.hvals(KEY) == ["1"], "one hold to be undone")
            assert one.call("UNLOCK", KEY, "AS", "us") == ONE
            assert not plain.exists(KEY)


@pytest.mark.parametrize("rules, take", [
    (verbs(reentrant="refresh"), ("LOCK", KEY, "PX", 60000, "AS", "us")),
    (rule(reentrant="refresh", owner="address", wait="2s"), ("SET", LOCK, "v", "NX", "PX", 60000)),
], ids=["verb", "rule"])
def test_undoing_a_refresh_leaves_the_partners_lock(start_hasp, redis_server, plain, rules, take):
    with Relay(redis_server.address) as relay:
        hasp, away = start_hasp(rules), start_hasp(rules, upstream=relay.address).is_up()
        with hasp.connect() as one, away.connect() as other:
            assert one.call(*take) in TAKEN
            assert other.call(*(word.replace(take[1], take[1] + "0") if word == take[1] else word for word in take)) \
                in TAKEN  # hasp has subscribed, and Redis has the scripts
            before = calls(plain, "evalsha", "eval")
            relay.swallows = True
            other.send(encode(*take))
            until(lambda: calls(plain, "evalsha", "eval") > before, "Redis to run the second LOCK")
            relay.cut()
            assert other.read().startswith(UNKNOWN)
            before = calls(plain, "evalsha", "eval")
            relay.mend()
            until(lambda: calls(plain, "evalsha", "eval") > before, "the undoing")
            assert plain.exists(take[1])
            assert plain.pttl(take[1]) > 50000


# --- what cannot be an owner, a lease or a queue ---------------------------------


@pytest.mark.parametrize("space", " \t\n\v\f\r")
def test_owner_with_a_space_of_any_kind_is_a_syntax_error(share_hasp, plain, space):
    """Spaces separate the words of queue entries and records."""
    with share_hasp(verbs()).connect() as one:
        for command in (("LOCK", KEY), ("LOCK", KEY, "WAIT", 60000), ("UNLOCK", KEY),
                        ("LOCK.EXTEND", KEY, "PX", 1000)):
            assert one.call(*command, "AS", f"b{space}b") == b"-ERR syntax error\r\n"
        assert not plain.keys("*")


LONGEST_MS = 2**63 - 1 - 2**43
TOO_LONG = [2**63 - 1, LONGEST_MS + 1]


@pytest.mark.parametrize("ms", TOO_LONG)
@pytest.mark.parametrize("take", [("SET", LOCK, "v", "NX"), ("LOCK", KEY, "WAIT", 60000)], ids=["SET", "LOCK"])
def test_lease_that_redis_could_not_set_stands_in_no_line(share_hasp, redis_server, plain, take, ms):
    """Such a waiter could never get the lock, and would block the waiters after it."""
    hasp = share_hasp(rule(wait="60s") + verbs())
    with hasp.connect() as one, hasp.connect() as other, redis_server.connect() as past:
        assert one.call("LOCK", KEY).startswith(b":") and one.call("SETNX", LOCK, "v") == ONE
        if take[0] == "SET":
            assert other.call(*take, "PX", ms) == past.call(*take, "PX", ms)
        else:
            assert other.call(*take, "PX", ms) == b"-ERR invalid expire time in 'lock' command\r\n"
        assert not plain.exists(queue_of(take[1]))


@pytest.mark.parametrize("take, give, ms", [
    (("SET", LOCK, "v", "NX"), ("DEL", LOCK), LONGEST_MS), (("LOCK", KEY, "WAIT", 60000), ("UNLOCK", KEY), 10**15)],
    ids=["SET", "LOCK"])
def test_longest_lease_is_waited_for_like_any_other(clients, plain, take, give, ms):
    one, other, third = clients(3, rule(wait="60s") + verbs())
    assert one.call(*take, "PX", ms) in TAKEN
    stand(plain, other, *take, "PX", ms)
    stand(plain, third, *take)
    assert one.call(*give) == ONE
    assert other.read() in TAKEN
    assert plain.pttl(take[1]) > ms - 10**6
    assert other.call(*give) == ONE
    assert third.read() in TAKEN


@pytest.mark.parametrize("spoil", [lambda plain, key: plain.set(key, "x"), lambda plain, key: plain.rpush(key, "x")],
                         ids=["string", "list"])
def test_queue_of_another_type_harms_no_client_that_takes_or_releases(share_hasp, plain, spoil):
    hasp = share_hasp(rule(wait="1s", on_disconnect="release") + verbs(on_disconnect="release")).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY) == FENCE and one.call("SETNX", LOCK, "v") == ONE
        for key in (KEY, LOCK):
            spoil(plain, queue_of(key))
        assert one.call("UNLOCK", KEY) == one.call("DEL", LOCK) == ONE
        assert not plain.exists(KEY, LOCK)
        assert one.call("LOCK", KEY) == FENCE and one.call("SETNX", LOCK, "v") == ONE
        one.close()
        until(lambda: not plain.exists(KEY, LOCK), "the disconnected client's locks to be released")
        assert other.call("LOCK", KEY, "WAIT", 1000) == FENCE and other.call("SETNX", LOCK, "v") == ONE


def test_subscriber_of_everything_does_not_stand_in_for_a_hasp_that_was_killed(start_hasp, redis_server, plain):
    hasp, dead = start_hasp(verbs()), start_hasp(verbs())
    with hasp.connect() as one, dead.connect() as gone, redis_server.connect() as monitor:
        assert monitor.call("PSUBSCRIBE", "*").startswith(b"*3\r\n")
        assert one.call("LOCK", KEY) == FENCE
        stand(plain, gone, "LOCK", KEY, "WAIT", 60000, "PX", 600000, "AS", "gone")
        dead.expect_exit = -signal.SIGKILL
        dead.kill()
        until(lambda: all(c["sub"] == "0" for c in plain.client_list()), "Redis to notice that the client has left")
        assert one.call("UNLOCK", KEY) == ONE
        assert not plain.exists(KEY)
        assert one.call("LOCK", KEY) == FENCE
