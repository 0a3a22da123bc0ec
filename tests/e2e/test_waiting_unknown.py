# SPDX-License-Identifier: BSD-3-Clause
"""hasp releases a lock, or a place in the queue, if the reply that granted it was lost."""

import time

import pytest
from harness import encode, until
from harness.info import calls, is_ready
from harness.line import entries, nobody_waits, stand
from harness.relay import Relay
from harness.replies import FENCE, OK, ONE, PONG, QUEUED, TAKEN, UNKNOWN
from harness.sections import VERBS, verbs
from harness.waiting import KEY, rule


class Lost:
    """A hasp behind a relay that cuts the connection between a command and its reply."""

    def __init__(self, start_hasp, redis_server, plain, rules):
        self.relay = Relay(redis_server.address)
        self.plain = plain
        self.hasp = is_ready(start_hasp(rules, upstream=self.relay.address), plain)

    def lose(self, connection, *command, done):
        """Sends the command, and cuts the connection after Redis has run it. Returns what the
        client gets."""
        assert connection.call("PING") in (PONG, QUEUED)  # so its link to Redis is connected
        self.relay.swallows = True
        connection.send(encode(*command))
        until(done, f"Redis to run {command}")
        self.relay.cut()
        return connection.file.read()

    def subscribe(self, take, key):
        """Waits until hasp has subscribed, so that its commands may enter a queue."""
        with self.hasp.connect() as one:
            one.call(*(key + ":0" if word == key else word for word in take))
            one.call("DEL", key + ":0")
        self.plain.delete(key + ":0", *(f"hasp:{side}:{{{key}:0}}" for side in ("fence", "owner")))


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


UNDONE = [
    (VERBS, ("LOCK", KEY), KEY),
    (VERBS, ("LOCK", KEY, "WAIT", 60000, "AS", "bob"), KEY),
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


@pytest.mark.parametrize("rules, take, key", UNDONE, ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_lock_whose_taking_was_never_answered_is_undone(lost, plain, rules, take, key):
    it = lost(rules)
    it.subscribe(take, key)
    with it.hasp.connect() as one:
        assert one.call("CLIENT", "SETNAME", "me") == OK
        assert it.lose(one, *take, done=lambda: plain.exists(key)).startswith(UNKNOWN)
        assert plain.exists(key)
        it.relay.mend()
        until(lambda: not plain.exists(key), "the lock to be undone")
        assert not plain.keys("hasp:[oq]*") and not plain.keys("hasp:fence:*")


@pytest.mark.parametrize("rules, take, key", [UNDONE[0], UNDONE[3], *UNDONE[5:7]],
                         ids=lambda value: value[0] if isinstance(value, tuple) else "")
def test_lock_taken_in_a_transaction_that_was_never_answered_is_undone(lost, plain, rules, take, key):
    it = lost(rules)
    with it.hasp.connect() as one:
        assert one.call("CLIENT", "SETNAME", "me") == OK
        assert one.call("MULTI") == OK
        assert one.call(*take) == b"+QUEUED\r\n"
        it.lose(one, "EXEC", done=lambda: plain.exists(key))
        it.relay.mend()
        until(lambda: not plain.exists(key), "the lock to be undone")


def test_undoing_hands_off(lost, share_hasp, plain):
    it, away = lost(VERBS), share_hasp(VERBS)
    with it.hasp.connect() as one, away.connect() as other:
        it.lose(one, "LOCK", KEY, done=lambda: plain.exists(KEY))
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        it.relay.mend()
        assert other.read() == FENCE


def test_standing_in_line_that_was_never_answered_is_undone(lost, plain):
    it = lost(VERBS)
    with it.hasp.connect() as one:
        plain.hset(KEY, "somebody", 1)
        assert one.call("LOCK", "other", "WAIT", 60000) == FENCE  # so hasp has subscribed
        told = it.lose(one, "LOCK", KEY, "WAIT", 60000, done=lambda: entries(plain))
        assert told.startswith(UNKNOWN)
        it.relay.mend()
        nobody_waits(plain)


@pytest.mark.parametrize("owner", [(), ("AS", "bob")])
def test_undoing_one_hold_leaves_the_others(lost, plain, owner):
    it = lost(VERBS)
    with it.hasp.connect() as one:
        assert one.call("LOCK", KEY, *owner) == FENCE
        told = it.lose(one, "LOCK", KEY, *owner, done=lambda: plain.hvals(KEY) == ["2"])
        assert told.startswith(UNKNOWN)
        it.relay.mend()
        until(lambda: plain.hvals(KEY) == ["1"], "one hold to be undone")


def test_undoing_finds_its_hold_behind_many_others(lost, share_hasp, plain):
    it = lost(VERBS)
    with it.hasp.connect() as one, share_hasp(VERBS).connect() as other:
        assert other.call("LOCK", KEY, "AS", "bob") == FENCE
        told = it.lose(one, "LOCK", KEY, "AS", "bob", done=lambda: plain.hvals(KEY) == ["2"])
        assert told.startswith(UNKNOWN)
        for _ in range(100):
            assert other.call("LOCK", KEY, "AS", "bob") == FENCE
            assert other.call("UNLOCK", KEY, "AS", "bob") == ONE
        it.relay.mend()
        until(lambda: plain.hvals(KEY) == ["1"], "one hold to be undone")


@pytest.mark.parametrize("stale", [{"set": "a rule's"}, {"zadd": {"1 t": 1}}])
def test_lock_is_got_again_beside_what_is_left_of_another_one(share_hasp, plain, stale):
    """The sidecar is left from an expired lock under a rule, or has another fencing token."""
    side = "hasp:owner:{k}"
    with share_hasp(VERBS).connect() as one:
        first = one.call("LOCK", KEY)
        for command, value in stale.items():
            getattr(plain, command)(side, value)
        assert one.call("LOCK", KEY) == first == FENCE
        assert [member.split()[0] for member in plain.zrange(side, 0, -1)][-1] == first[1:-2].decode()
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
        assert one.call(*take) in TAKEN
        left = plain.pttl(take[1])
        until(lambda: plain.pttl(take[1]) < left - 50, "time to pass")
        before = calls(plain, command)
        assert it.lose(one, *again, done=lambda: calls(plain, command) > before).startswith(UNKNOWN)
        it.relay.mend()
        until(lambda: it.hasp.log.count("upstream_up") >= 2, "hasp to be connected again")
        # hasp runs its own calls in order, so this later one comes after the undo.
        with it.hasp.connect() as other:
            other.call("LOCK", "x") if "[verbs]" in rules else other.call("SETNX", "lock:x", "v")
        until(lambda: calls(plain, "evalsha") > 0, "the later call")
        plain.ping()
        time.sleep(0.1)
        assert plain.exists(take[1])
