# SPDX-License-Identifier: BSD-3-Clause
"""Sentinels announce a failover: commands wait until it is over, so that no write is lost."""

import threading
import time

import pytest
from harness import encode, until
from harness.announcer import Announcer
from harness.failover import announced_ahead, until_followed
from harness.marks import covers
from harness.renewal import is_renewed
from harness.replicas import Replicas
from harness.replies import OK
from harness.sentinel import Sentinels
from harness.wait import TooSlow, prompt

QUEUED = b"+QUEUED\r\n"


@pytest.fixture
def servers():
    with Replicas(1) as servers:
        yield servers


@pytest.fixture
def announcer(servers):
    with Announcer(servers.primary) as announcer:
        yield announcer


@pytest.fixture
def start(start_hasp, announcer):
    """start(failover_wait) starts a hasp that gets all messages of the sentinel."""
    def start(failover_wait, rules=""):
        hasp = start_hasp(rules, upstream=f"{announcer.upstream}\nfailover_wait = {failover_wait}").is_up()
        until(announcer.is_heard, "hasp to subscribe at the sentinel")
        return hasp

    return start


def begin(announcer, hasp, times=1):
    announcer.begins()
    until(lambda: hasp.log.count("failover_announced ") >= times, "hasp to log the announcement")
    hasp.take_turn()


def test_commands_wait_from_the_announcement_on_for_the_new_primary(start, servers, announcer):
    hasp = start("60s")
    replica = servers.replicas[0]
    with hasp.connect() as shared, hasp.connect() as own, hasp.connect() as idle, hasp.connect() as piped:
        assert shared.call("INCR", "n") == b":1\r\n"
        assert own.call("SELECT", "1") == OK and own.call("INCR", "n") == b":1\r\n"
        until(lambda: replica.client().get("n") and replica.client(db=1).get("n"), "the replica to have both values")
        begin(announcer, hasp)
        shared.send(encode("INCR", "n"))
        own.send(encode("INCR", "n"))
        with hasp.connect() as new:
            new.send(encode("INCR", "new"))
            piped.send(encode("INCR", "piped") * 3)
            hasp.take_turn()
            announcer.promotes(replica)
            assert shared.read() == own.read() == b":2\r\n" and new.read() == b":1\r\n"
            assert [piped.read() for _ in range(3)] == [b":1\r\n", b":2\r\n", b":3\r\n"]
            assert idle.call("GET", "n") == b"$1\r\n2\r\n"
    old = servers.primary.client()
    assert (old.get("n"), old.get("new"), old.get("piped")) == ("1", None, None)
    assert replica.client(db=1).get("n") == "2"


def test_transactions_are_not_carried_out_from_the_announcement_on(start, servers, announcer):
    hasp = start("60s")
    with hasp.connect() as c:
        assert c.call("MULTI") == OK and c.call("SET", "k", "v") == QUEUED
        begin(announcer, hasp)
        c.send(encode("EXEC"))
        hasp.take_turn()
        announcer.promotes(servers.replicas[0])
        assert c.at_end()
        until_named(hasp, servers.replicas[0])
    assert servers.primary.client().get("k") is None and servers.replicas[0].client().get("k") is None


def until_named(hasp, server):
    until(lambda: f" address=127.0.0.1:{server.port}" in hasp.log, "hasp to find the new primary")


@covers("failover_aborted")
def test_commands_go_on_when_the_failover_is_given_up(start, servers, announcer):
    hasp = start("60s")
    with hasp.connect() as plain, hasp.connect() as transaction, hasp.connect() as subscriber:
        assert plain.call("INCR", "n") == b":1\r\n"
        assert transaction.call("WATCH", "n") == transaction.call("MULTI") == OK
        assert b"subscribe" in subscriber.call("SUBSCRIBE", "news")
        begin(announcer, hasp)
        plain.send(encode("INCR", "m"))
        transaction.send(encode("SET", "k", "v"))
        hasp.take_turn()
        assert servers.primary.client().get("m") is None
        announcer.aborts()
        assert plain.read() == b":1\r\n" and transaction.read() == QUEUED
        assert transaction.call("EXEC") == b"*1\r\n+OK\r\n"
        assert plain.call("PUBLISH", "news", "x") == b":1\r\n" and b"message" in subscriber.read()
        begin(announcer, hasp, times=2)
    assert "failover_aborted " in hasp.log


@covers("failover_announced", "failover_overdue")
def test_failover_that_does_not_come_stops_nobody_for_longer_than_failover_wait(start, announcer):
    hasp = start("2s")
    with hasp.connect() as c:
        for n in range(1, 4):
            began = time.monotonic()
            announcer.begins()
            if n == 1:
                until(lambda: "failover_announced " in hasp.log, "hasp to log the announcement")
                hasp.take_turn()
            asked = announcer.asked
            c.send(encode("INCR", "n"))
            assert c.read() == b":%d\r\n" % n
            if n > 1:  # hasp ignores an announcement that follows another one at once
                announcer.switches()
                until(lambda asked=asked: announcer.asked > asked, "hasp to ask the sentinel after both messages")
                prompt(time.monotonic() - began, 1)
                assert hasp.log.count("failover_announced ") == 1
    assert hasp.log.count("failover_overdue ") == 1


def test_failovers_of_other_primaries_concern_nobody(start, announcer):
    hasp = start("60s")
    with hasp.connect() as c:
        announcer.begins("mymaster2")
        asked = announcer.asked
        announcer.switches()
        until(lambda: announcer.asked > asked, "hasp to ask the sentinel after both messages")
        assert c.call("INCR", "n") == b":1\r\n"
    assert "failover_announced " not in hasp.log


def test_nothing_is_held_back_where_nobody_is_to_wait(start, announcer):
    hasp = start("0")
    with hasp.connect() as c:
        asked = announcer.asked
        announcer.begins()
        announcer.switches()
        until(lambda: announcer.asked > asked, "hasp to ask the sentinel after both messages")
        assert c.call("INCR", "n") == b":1\r\n"
    assert "failover_announced " not in hasp.log


def test_locks_are_renewed_while_commands_wait(start, servers, announcer):
    hasp = start("60s", "[verbs]\nlease = 6s\n")
    with hasp.connect() as c:
        assert c.call("LOCK", "a")[:1] == b":"
        begin(announcer, hasp)
        assert is_renewed(servers.primary.client(), "a")


def test_lock_of_a_client_that_leaves_meanwhile_is_released_at_the_new_primary(start, servers, announcer):
    hasp = start("60s", "[verbs]\nlease = 600s\non_disconnect = release\n")
    with hasp.connect() as c:
        assert c.call("LOCK", "a")[:1] == b":"
        until(lambda: servers.replicas[0].client().exists("a"), "the replica to have the lock")
        begin(announcer, hasp)
    hasp.take_turn()
    announcer.promotes(servers.replicas[0])
    until(lambda: not servers.replicas[0].client().exists("a"), "the lock to be released")
    assert servers.primary.client().exists("a")


# --- real sentinels ------------------------------------------------------------------------------


class Counter(threading.Thread):
    """Increments through hasp, one command after the other. `told` counts the acknowledged ones."""

    def __init__(self, hasp):
        super().__init__()
        self.hasp, self.told, self.unknown, self.stopping = hasp, 0, 0, False

    def run(self):
        while not self.stopping:
            try:
                with self.hasp.connect() as c:
                    while not self.stopping and c.call("INCR", "n")[:1] == b":":
                        self.told += 1
            except (EOFError, ConnectionError):
                pass
            self.unknown += not self.stopping

    def end(self):
        self.stopping = True
        self.join()


def test_every_acknowledged_increment_outlives_planned_failovers(start_hasp):
    """A planned failover first stops the old primary, as in clusters. The sentinel that hasp asks
    is not the one that leads it."""
    with Sentinels("--min-replicas-to-write", 1) as sentinels:
        addresses = " ".join(reversed(sentinels.addresses))
        hasp = start_hasp(upstream=f"sentinels = {addresses}\nmaster = mymaster\nfailover_wait = 60s").is_up()
        until(lambda: hasp.log.count("subscriber_up ") >= 3, "hasp to subscribe at all sentinels")
        for _ in range(3):
            counter = Counter(hasp)
            before = int(sentinels.until_streaming().client().get("n") or 0)
            counter.start()
            until(lambda counter=counter: counter.told > 20, "twenty increments")
            try:
                _, new = sentinels.failover()
                until_followed(hasp, new)
                told = counter.told
                until(lambda counter=counter, told=told: counter.told > told + 20, "twenty increments at the new primary")
            finally:
                counter.end()
            lost = before + counter.told - int(new.client().get("n"))
            if lost > 0 and announced_ahead(hasp, new) < 0.05:
                raise TooSlow(f"the announcement came too late on this machine: {lost} increments were lost")
            assert -counter.unknown <= lost <= 0
