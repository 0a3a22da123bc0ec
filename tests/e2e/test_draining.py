# SPDX-License-Identifier: BSD-3-Clause
"""SIGTERM while a client works: hasp waits for the end of a lock, a guard or a transaction.

To show that hasp keeps a client, a test waits until hasp has closed another, idle client in the
same sweep.
"""

import contextlib
import signal
import socket

import pytest
from harness import encode, until
from harness.gates import Gates
from harness.guards import GUARD, KEY, guard, nothing_left
from harness.line import entries
from harness.marks import BOTH, covers
from harness.replies import FENCE, NIL, OK, ONE, PONG, QUEUED, TAKEN, bulk
from harness.scrape import HTTP, ask
from harness.sections import VERBS, rule, verbs
from harness.threads import threads_of_workers
from harness.told import told

LOCK = "lock:1"
SIDE = "hasp:owner:{lock:1}"


def drain(hasp):
    """Sends SIGTERM, and returns when hasp has closed the idle clients."""
    with hasp.connect() as idle:
        assert idle.call("PING") == PONG
        hasp.signal(signal.SIGTERM)
        assert idle.at_end()


def has_left(hasp):
    """Waits until hasp exits, for less than the default of drain_timeout."""
    return until(lambda: not hasp.running(), "hasp to leave")


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
def test_lame_duck_is_ended_by_its_time_and_by_a_second_signal(start_hasp, first):
    for lame_duck in "1500ms", "1h":
        hasp = start_hasp(HTTP, lame_duck=lame_duck)
        until(lambda: ask(hasp, "/readyz")[0].status == 200, "hasp to be ready")
        with hasp.connect() as one:
            hasp.signal(first)
            until(lambda: "lame_duck seconds=" in hasp.log, "lame_duck to begin")
            if lame_duck == "1h":
                assert ask(hasp, "/readyz")[1] == "hasp will shut down soon\n"
                assert one.call("PING") == PONG
                hasp.signal(signal.SIGTERM)
            assert one.at_end()
        assert has_left(hasp) and hasp.child.returncode == 0
        assert hasp.log.count(" shutting_down signal=15 how=draining") == 1


def test_lock_info_is_answered_when_other_workers_have_ended(start_hasp):
    """A worker without clients ends at once."""
    hasp = start_hasp(VERBS, workers=3, drain_timeout="1h")
    with hasp.connect() as one:
        one.call("LOCK", "k")
        drain(hasp)
        until(lambda: len(threads_of_workers(hasp)) == 1, "the other workers to end")
        assert told(one, "k")["address"] == "%s:%d" % one.sock.getsockname()
        assert one.call("UNLOCK", "k") == ONE
        assert one.at_end()
    has_left(hasp)


# --- what hasp waits for ----------------------------------------------------------

GIVES_BACK = [
    (("LOCK", "k"), ("UNLOCK", "k")),
    (("LOCK", "k", "PX", 60000), ("UNLOCK", "k")),
    (("SETNX", LOCK, "v"), ("DEL", LOCK)),
    (("SET", LOCK, "v", "NX", "PX", 60000), ("DEL", LOCK)),
    (("SET", LOCK, "v", "NX", "EXAT", 1 << 33), ("DEL", LOCK)),
    (("SET", LOCK, "v", "EX", 60), ("UNLINK", LOCK)),
]


@BOTH
@pytest.mark.parametrize("take, give, owner", [
    (take, give, owner) for take, give in GIVES_BACK for owner in ("connection", "address", "value")
    if take[0] != "LOCK" or owner == "connection"])
def test_holder_is_closed_when_it_gives_its_lock_back(start_hasp, plain, take, give, owner):
    hasp = start_hasp(rule(owner=owner) + VERBS)
    with hasp.connect() as one:
        assert one.call(*take) in TAKEN
        drain(hasp)
        assert plain.exists(take[1]) and one.call("PING") == PONG
        assert one.call(*give) == ONE
        assert one.at_end()
    has_left(hasp)


def test_holder_by_incr_is_closed_when_it_gives_its_lock_back(start_hasp):
    hasp = start_hasp(rule())
    with hasp.connect() as one:
        assert one.call("INCR", LOCK) == ONE
        drain(hasp)
        assert one.call("DEL", LOCK) == ONE
        assert one.at_end()
    has_left(hasp)


def test_holder_is_closed_when_its_lease_is_over(start_hasp, plain):
    hasp = start_hasp(rule(), drain_timeout="1h")
    with hasp.connect() as one:
        assert one.call("SET", LOCK, "v", "NX", "PX", 1500) == OK
        drain(hasp)
        assert one.at_end()
        # hasp counts a lease from the time of its request; Redis ends it a little later.
        until(lambda: not plain.exists(LOCK), "the lease to end")
    has_left(hasp)


def test_holder_of_several_locks_is_closed_when_it_gives_the_last_one_back(start_hasp):
    hasp = start_hasp(rule() + VERBS)
    with hasp.connect() as one:
        for _ in range(2):
            assert one.call("LOCK", "k", "PX", 60000) == FENCE
        assert one.call("SET", LOCK, "v", "NX", "PX", 60000) == OK
        drain(hasp)
        for give in ("UNLOCK", "k"), ("DEL", LOCK):
            assert one.call(*give) == ONE
        assert one.call("UNLOCK", "k") == ONE
        assert one.at_end()
    has_left(hasp)


@pytest.mark.parametrize("owner", ["address", "value"])
def test_holder_whose_lock_another_connection_released_is_closed(start_hasp, owner):
    """With owner = address or value, any connection of the client's pool may release the lock."""
    hasp = start_hasp(rule(owner=owner))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", LOCK, "v", "NX", "PX", 60000) == OK
        assert other.call("WATCH", "any") == OK
        drain(hasp)
        assert other.call("GET", LOCK) == bulk("v")
        assert other.call("DEL", LOCK) == ONE
        assert one.at_end()
        assert other.call("UNWATCH") == OK and other.at_end()
    has_left(hasp)


@BOTH
def test_reader_is_closed_when_it_has_written(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        drain(hasp)
        assert plain.exists(GUARD) and one.call("PING") == PONG
        assert one.call("SET", KEY, "new") == OK
        assert one.at_end()
    assert plain.get(KEY) == "new"
    nothing_left(plain)
    has_left(hasp)


@BOTH
def test_no_update_is_lost_by_a_restart(start_hasp, plain):
    """The next hasp serves other clients while the old one drains."""
    old, new = start_hasp(guard(wait="5s")), start_hasp(guard(wait="60s", lease="60s"))
    plain.set(KEY, 5)
    with old.connect() as one, new.connect() as other:
        assert one.call("GET", KEY) == bulk("5")
        drain(old)
        other.sock.settimeout(30)
        other.send(encode("GET", KEY))
        until(lambda: plain.keys("hasp:queue:*"), "the second client to wait")
        assert one.call("SET", KEY, 6) == OK and one.at_end()
        assert other.read() == bulk("6") and other.call("SET", KEY, 7) == OK
    assert plain.get(KEY) == "7"
    has_left(old)


@BOTH
@pytest.mark.parametrize("begin, end", [
    (("MULTI",), ("EXEC",)), (("MULTI",), ("DISCARD",)), (("WATCH", "any"), ("UNWATCH",))])
def test_transaction_is_waited_for(start_hasp, begin, end):
    hasp = start_hasp()
    with hasp.connect() as one:
        assert one.call(*begin) == OK
        drain(hasp)
        assert one.call("SET", "any", "v") in (OK, QUEUED)
        assert one.call(*end) in (OK, b"*1\r\n+OK\r\n")
        assert one.at_end()
    has_left(hasp)


@BOTH
def test_busy_client_is_closed_behind_an_answer(start_hasp, plain):
    """hasp closes the client after a reply, and drops no command that it has sent to Redis."""
    hasp = start_hasp(drain_timeout="1h")
    with hasp.connect() as one:
        assert one.call("INCR", "n") == ONE
        hasp.signal(signal.SIGTERM)
        answered = 1
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                assert one.call("INCR", "n") == b":%d\r\n" % (answered + 1)
                answered += 1
    has_left(hasp)
    assert plain.get("n") == str(answered)


def test_request_that_hasp_has_not_read_yet_is_answered(start_hasp):
    hasp = start_hasp()
    ones = [hasp.connect() for _ in range(100)]
    assert all(one.call("PING") == PONG for one in ones)
    with hasp.frozen():
        hasp.signal(signal.SIGTERM)
        for one in ones:
            one.send(encode("PING"))
    for one in ones:
        assert one.read() == PONG and one.at_end()
        one.close()
    has_left(hasp)


def test_client_that_sent_what_is_no_request_is_told_so(start_hasp, redis_server):
    """SIGTERM arrives while Redis is slow to answer the request before the malformed one."""
    hasp = start_hasp()
    with hasp.connect() as one, hasp.connect() as idle:
        assert one.call("WATCH", "k") == OK and idle.call("PING") == PONG
        with redis_server.frozen():
            one.send(encode("GET", "k") + b"*1\r\n$x\r\n")
            one.sock.shutdown(socket.SHUT_WR)
            hasp.take_turn()
            hasp.signal(signal.SIGTERM)
            assert idle.at_end()
        assert one.read() == NIL
        assert one.read() == b"-ERR Protocol error: invalid bulk length\r\n"
        assert one.at_end()
    has_left(hasp)


# --- clients that are cut off ----------------------------------------------------


def at_the_end_of_drain_timeout(hasp):
    hasp.signal(signal.SIGTERM)


def by_a_second_signal(hasp):
    hasp.signal(signal.SIGTERM)
    until(lambda: "draining" in hasp.log, "hasp to drain")
    hasp.signal(signal.SIGTERM)


def by_a_second_interrupt(hasp):
    hasp.signal(signal.SIGINT)
    until(lambda: "draining" in hasp.log, "hasp to drain")
    hasp.signal(signal.SIGINT)


CUTS = pytest.mark.parametrize("cut", [at_the_end_of_drain_timeout, by_a_second_signal, by_a_second_interrupt])


def timeout_of(cut):
    return "200ms" if cut is at_the_end_of_drain_timeout else "1h"


@CUTS
@pytest.mark.parametrize("take, reentrant", [
    (("LOCK", "k"), "count"), (("LOCK", "k"), "refresh"), (("LOCK", "k", "PX", 60000), "count"),
    (("LOCK", "k", "PX", 60000), "refresh"), (("SETNX", LOCK, "v"), "count"),
    (("SET", LOCK, "v", "NX", "PX", 60000), "count")])
def test_lock_of_a_client_that_is_cut_off_runs_out_with_its_lease(start_hasp, plain, cut, take, reentrant):
    settings = {"lease": "60s", "on_disconnect": "release"}
    hasp = start_hasp(rule(**settings) + verbs(reentrant=reentrant, **settings), drain_timeout=timeout_of(cut))
    with hasp.connect() as one:
        assert one.call(*take) in TAKEN
        cut(hasp)
        assert one.at_end()
    has_left(hasp)
    assert 0 < plain.pttl(take[1]) <= 60000


@CUTS
def test_guard_of_a_client_that_is_cut_off_runs_out_with_its_lease(start_hasp, plain, cut):
    hasp, away = start_hasp(guard(lease="60s"), drain_timeout=timeout_of(cut)), start_hasp(guard(wait=0))
    plain.set(KEY, 5)
    with hasp.connect() as one, away.connect() as other:
        assert one.call("GET", KEY) == bulk("5")
        cut(hasp)
        assert one.at_end()
        has_left(hasp)
        assert 0 < plain.pttl(GUARD) <= 60000
        # hasp therefore refuses the client's write over another connection, too.
        assert other.call("SET", KEY, 6).startswith(b"-LOCKED ")
    assert plain.get(KEY) == "5"


def test_guard_of_a_write_in_flight_stays_when_its_client_is_cut_off(start_hasp, redis_server, plain):
    with Gates(redis_server.address) as gates:
        hasp = start_hasp(guard(lease="60s"), upstream=gates.address, drain_timeout="200ms").is_up()
        with hasp.connect() as one:
            assert one.call("GET", KEY) == NIL
            gates.shut(requests={"link"})
            one.send(encode("SET", KEY, "v"))
            until(lambda: gates.waiting, "the write to wait at the gate")
            hasp.signal(signal.SIGTERM)
            assert one.at_end()
        has_left(hasp)
        assert plain.exists(GUARD)


@covers("drain_timeout")
def test_waiter_that_is_cut_off_leaves_the_queue(start_hasp, plain):
    hasp, away = start_hasp(VERBS, drain_timeout="200ms"), start_hasp(VERBS)
    with away.connect() as holder, hasp.connect() as one:
        assert holder.call("LOCK", "k") == FENCE
        one.send(encode("LOCK", "k", "WAIT", 60000))
        until(lambda: entries(plain), "the client to enter the queue")
        hasp.signal(signal.SIGTERM)
        assert one.at_end()
        has_left(hasp)
        assert not entries(plain)
        assert holder.call("UNLOCK", "k") == ONE


@BOTH
def test_holder_that_hangs_up_while_hasp_drains_releases(start_hasp, plain):
    hasp = start_hasp(rule(lease="60s", on_disconnect="release"))
    with hasp.connect() as one:
        assert one.call("SETNX", LOCK, "v") == ONE
        drain(hasp)
    until(lambda: not plain.exists(LOCK, SIDE), "the lock to be released")
    has_left(hasp)
