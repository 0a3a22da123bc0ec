# SPDX-License-Identifier: BSD-3-Clause
"""A new server takes Redis' place and lacks some of the locks that hasp renews."""

import pytest
from harness import encode, until
from harness.enforced import told
from harness.guards import guard, is_lost
from harness.marks import covers
from harness.relay import Relay
from harness.renewal import LEASE, is_renewed, rises
from harness.replicas import Replicas
from harness.replies import FENCE, NIL, OK, ONE, TAKEN, bulk
from harness.sections import rule, verbs

KEY, LOCK = "k", "lock:1"
GONE, ANOTHERS = "the new primary does not have it", "on the new primary another owner has it"
TAKES = pytest.mark.parametrize("take", [("LOCK", KEY), ("SETNX", LOCK, "v")], ids=str)


class Unread(Relay):
    """A relay that holds back, while `held`, the INFO by which hasp recognises the server's
    data."""

    held = False

    def _is_held(self, data):
        return self.held and b"master_replid" in data


class Place:
    """An address whose server can be replaced by another one."""

    def __init__(self, servers, relay, start_hasp):
        self.old, self.new = servers.primary, servers.replicas[0]
        self.relay, self.start_hasp = relay, start_hasp

    def start(self, *more, address=None, **settings):
        settings = {"lease": LEASE, "on_disconnect": "release", **settings}
        return self.start_hasp(rule(**settings) + verbs(**settings) + "".join(more),
                               upstream=address or self.relay.address).is_up()

    def promote(self):
        """Promotes the new server. It does not get what is written to the old one from then on."""
        self.new.client().replicaof("NO", "ONE")
        return self.new.client()

    def switch(self):
        self.relay.target = self.new.address
        self.relay.cut()
        self.relay.mend()


@pytest.fixture
def place(start_hasp):
    with Replicas(1) as servers, Relay(servers.primary.address) as relay:
        yield Place(servers, relay, start_hasp)


def key_of(take):
    return take[1]


def lost(hasp, key, reason):
    return any(event["key"] == key and event["reason"] == reason for event in told(hasp, "lock_lost"))


@covers("lock_lost")
@TAKES
def test_lock_that_the_new_primary_does_not_have_is_logged_and_renewed_no_more(place, take):
    hasp = place.start()
    new = place.promote()
    with hasp.connect() as one:
        assert one.call(*take) in TAKEN
        place.switch()
        until(lambda: lost(hasp, key_of(take), GONE), "the loss to be logged")
        assert hasp.log.count("lock_lost") == 1
        # hasp has forgotten the lock, so it does not release the next holder's when `one` closes.
        with hasp.connect() as other:
            assert other.call(*take) in TAKEN
            one.close()
            assert is_renewed(new, key_of(take))
    until(lambda: not new.exists(key_of(take)), "the next holder's disconnect to release the lock")


@TAKES
def test_first_server_may_go_before_it_has_said_whose_data_it_has(start_hasp, take):
    with Replicas(1) as servers, Unread(servers.primary.address) as relay:
        place = Place(servers, relay, start_hasp)
        relay.held = True
        hasp = place.start()
        place.promote()
        with hasp.connect() as one:
            assert one.call(*take) in TAKEN
            relay.cut()
            relay.held = False
            place.switch()
            until(lambda: lost(hasp, key_of(take), GONE), "the loss to be logged")


@TAKES
def test_lock_that_somebody_else_has_meanwhile_is_not_prolonged(place, take):
    hasp, new = place.start(), place.promote()
    away = place.start(address="%s:%d" % place.new.address)
    long = (*take, "PX", 600000) if take[0] == "LOCK" else ("SET", LOCK, "v", "NX", "PX", 600000)
    with hasp.connect() as one, away.connect() as other:
        assert one.call(*take) in TAKEN and other.call(*long) in TAKEN
        end = new.pexpiretime(key_of(take))
        place.switch()
        until(lambda: lost(hasp, key_of(take), ANOTHERS), "the loss to be logged")
        one.close()
        with hasp.connect() as third:
            hasp.take_turn()
            assert third.call(*take) in (NIL, b":0\r\n")
        assert new.pexpiretime(key_of(take)) == end


@TAKES
def test_lock_that_the_new_primary_has_goes_on(place, take):
    hasp = place.start()
    with hasp.connect() as one:
        assert one.call(*take) in TAKEN
        until(lambda: place.new.client().exists(key_of(take)), "the replica to have the lock")
        new = place.promote()
        place.switch()
        assert is_renewed(new, key_of(take)) and one.call("PING") == b"+PONG\r\n"
        give = ("UNLOCK", KEY) if take[0] == "LOCK" else ("DEL", LOCK)
        assert one.call(*give) == ONE
    assert "lock_lost" not in hasp.log


@TAKES
def test_lock_that_a_restart_without_data_has_lost_is_logged(start_hasp, redis_server, plain, take):
    hasp = start_hasp(rule(lease=LEASE) + verbs(lease=LEASE)).is_up()
    with hasp.connect() as one:
        assert one.call(*take) in TAKEN
        redis_server.kill()
        redis_server.start()
        until(lambda: lost(hasp, key_of(take), GONE), "the loss to be logged")


@TAKES
def test_lock_that_was_deleted_past_hasp_at_the_same_server_is_not_lost_by_a_failover(place, take):
    """The server keeps its data, so hasp reports one lock as gone, and no failover."""
    hasp = place.start()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call(*take) in TAKEN and other.call("LOCK", "other") == FENCE
        # A renewal shows that hasp has recognised the server's data.
        assert rises(place.old.client(), 1, "other")
        place.old.client().delete(key_of(take))
        place.relay.cut()
        place.relay.mend()
        until(lambda: lost(hasp, key_of(take), "it is gone"), "hasp to log the lost lock")
        assert rises(place.old.client(), 1, "other")
    assert hasp.log.count("lock_lost") == 1


def test_guard_that_is_lost_lets_nothing_be_written(place):
    hasp = place.start(guard())
    place.old.client().set("stock:1", 5)
    until(lambda: place.new.client().get("stock:1") == "5", "the replica to have the value")
    new = place.promote()
    with hasp.connect() as one:
        assert one.call("GET", "stock:1") == bulk("5")
        place.switch()
        until(lambda: hasp.log.count("upstream_up") >= 2, "hasp to be connected to the new server")
        assert is_lost(one.call("SET", "stock:1", 6)) and new.get("stock:1") == "5"


def test_fencing_tokens_rise_over_it(place):
    hasp = place.start()
    place.promote()
    with hasp.connect() as one, hasp.connect() as other:
        before = one.call("LOCK", KEY)
        place.switch()
        until(lambda: lost(hasp, KEY, GONE), "the loss to be logged")
        other.send(encode("LOCK", KEY))
        assert int(other.read()[1:]) > int(before[1:])
        assert one.call("SET", "x", 1) == OK
