# SPDX-License-Identifier: BSD-3-Clause
"""hasp takes and releases a lock without waiters by short calls of its scripts. A script that finds
waiters answers +BUSY, and hasp sends the full call; the client does not notice."""

import functools
import socket
import subprocess
from hashlib import sha1

import pytest
from harness import TOP, encode
from harness.info import is_ready
from harness.line import entries, stand
from harness.marks import BOTH
from harness.replies import FENCE, NIL, OK, ONE, ZERO
from harness.sections import VERBS, verbs
from harness.waiting import rule

WAIT = ("WAIT", 60000)
RELEASES = {
    "UNLOCK": (VERBS, ("LOCK", "lock:1", "PX", 60000), ("UNLOCK", "lock:1"), FENCE),
    "UNLOCK of a string": (verbs(reentrant="no"), ("LOCK", "lock:1", "PX", 60000), ("UNLOCK", "lock:1"), FENCE),
    "DEL": (rule(), ("SET", "lock:1", "v", "NX", "PX", 60000), ("DEL", "lock:1"), OK),
    "DEL of a value": (rule(owner="value"), ("SET", "lock:1", "v", "NX", "PX", 60000), ("DEL", "lock:1"), OK),
}
EACH_RELEASE = pytest.mark.parametrize("rules, take, release, taken", RELEASES.values(), ids=RELEASES)


def sha_of(script):
    text = subprocess.check_output(["sh", TOP / "proxy/lock/scripts/embed.sh", "--text", script], text=True)
    return sha1(text.rstrip("\n").encode()).hexdigest()


@functools.cache  # not computed by workers of pytest that import the file but run none of its tests
def shas():
    names = ("acquire_count", "acquire_token", "take", "take_wait", "unlock", "del")
    return {sha_of(script): script for script in names}


class Calls:
    """Records the calls of hasp's scripts, as MONITOR shows them."""

    def __init__(self, plain, monitor):
        self.plain, self.monitor = plain, monitor
        assert monitor.call("MONITOR") == OK

    def told(self):
        """Returns (script, number of arguments), or "EVAL", for each call since the last told()."""
        self.plain.echo("the end")
        calls = []
        while b'"the end"' not in (line := self.monitor.read()):
            words = [word.strip(b'"').decode() for word in line.split(b" ")[3:]]
            if words[0].upper() == "EVALSHA" and words[1] in shas():
                calls.append((shas()[words[1]], len(words) - 2))
            elif words[0].upper() == "EVAL":
                calls.append("EVAL")
        return calls


@pytest.fixture
def calls(plain, redis_server):
    with redis_server.connect() as monitor:
        yield Calls(plain, monitor)


def waits(rules, take):
    """Returns `take` for a client that waits: LOCK needs WAIT, a rule has `wait`."""
    return take + WAIT if take[0] == "LOCK" else take


def test_a_lock_is_taken_and_released_by_short_calls(start_hasp, calls):
    with start_hasp(VERBS + rule(wait="0")).connect() as one:
        # The first calls load the scripts.
        for command in ("LOCK k", "UNLOCK k", "SETNX lock:1 v", "DEL lock:1"):
            one.call(*command.split())
        calls.told()
        assert one.call("LOCK", "k") == FENCE
        assert one.call("UNLOCK", "k") == ONE
        assert one.call("SETNX", "lock:1", "v") == ONE
        assert one.call("DEL", "lock:1") == ONE
        assert calls.told() == [("acquire_count", 1 + 4 + 3), ("unlock", 1 + 3 + 1), ("take", 1 + 3 + 5),
                                ("del", 1 + 3 + 2)]


@BOTH
@EACH_RELEASE
def test_a_busy_release_hands_off_to_a_waiter_of_another_hasp(share_hasp, plain, pooling, rules, take, release, taken):
    """The releasing client's hasp does not know the waiter, and sends the short call first."""
    hasp, away = share_hasp(rules, pooling=pooling), share_hasp(rules, pooling=pooling)
    with hasp.connect() as one, away.connect() as other:
        assert one.call(*take) == taken
        stand(plain, other, *waits(rules, take))
        # Later requests of the pipeline get their replies after the release.
        one.send(encode(*release) + encode("ECHO", "behind") + encode("EXISTS", "nothing"))
        assert [one.read() for _ in range(3)] == [ONE, b"$6\r\nbehind\r\n", ZERO]
        assert other.read() == taken
        assert not entries(plain, "lock:1")


@EACH_RELEASE
def test_a_release_with_a_known_waiter_is_a_full_call_at_once(start_hasp, plain, calls, rules, take, release, taken):
    hasp = start_hasp(rules)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call(*take) == taken
        stand(plain, other, *waits(rules, take))
        # The first calls load the scripts.
        assert one.call(*release) == ONE
        assert other.read() == taken
        assert other.call(*release) == ONE
        assert one.call(*take) == taken
        stand(plain, other, *waits(rules, take))
        calls.told()
        assert one.call(*release) == ONE
        assert other.read() == taken
        sent = [call for call in calls.told() if call[0] in ("unlock", "del")]
        assert sent in ([("unlock", 1 + 5 + 5)], [("del", 1 + 5 + 7)])


@EACH_RELEASE
@pytest.mark.parametrize("end", ["half closes", "closes"])
def test_a_client_that_leaves_behind_its_release_has_released(share_hasp, plain, rules, take, release, taken, end):
    """The lease is long, so only this release can free the lock."""
    rules += "on_disconnect = expire\n"
    hasp, away = share_hasp(rules), share_hasp(rules)
    with hasp.connect() as one, away.connect() as other:
        assert one.call(*take) == taken
        stand(plain, other, *waits(rules, take))
        one.send(encode(*release))
        if end == "closes":
            one.close()
        else:
            one.sock.shutdown(socket.SHUT_WR)
            assert one.read() == ONE
        assert other.read() == taken


def test_an_inner_unlock_gives_one_hold_back(clients, plain):
    """The unlocking connection may have the hold itself, or be another one of the same owner."""
    one, other = clients(2, VERBS)
    first = one.call("LOCK", "k", "AS", "us")
    assert one.call("LOCK", "k", "AS", "us") == first
    assert other.call("LOCK", "k", "AS", "us") == first
    for left in (2, 1):
        assert other.call("UNLOCK", "k", "AS", "us") == ONE
        assert plain.hgetall("k") == {"us": str(left)}
    assert one.call("UNLOCK", "k", "AS", "us") == ONE
    assert not plain.keys("*{k}*")


def test_a_newcomer_of_another_hasp_does_not_pass_a_queue(share_hasp, plain):
    """The lock was deleted directly in Redis. The newcomer's hasp does not know the waiter, so it
    sends a short call."""
    hasp, away = share_hasp(VERBS), share_hasp(VERBS)
    with hasp.connect() as one, away.connect() as other, away.connect() as third:
        assert third.call("LOCK", "k", "PX", 60000) == FENCE
        stand(plain, other, "LOCK", "k", *WAIT)
        plain.delete("k")
        assert one.call("LOCK", "k") == NIL
        assert other.read() == FENCE


@EACH_RELEASE
def test_scripts_that_redis_forgot_are_sent_again(start_hasp, plain, calls, rules, take, release, taken):
    # is_ready() waits until hasp's own connection is up, because hasp then loads the scripts.
    with is_ready(start_hasp(rules), plain).connect() as one:
        for forgets in (True, True, False):
            if forgets:
                plain.script_flush()
            assert one.call(*take) == taken
            if forgets:
                plain.script_flush()
            calls.told()
            assert one.call(*release) == ONE
            assert ("EVAL" in calls.told()) is forgets


def test_a_client_that_hears_no_replies_sends_full_calls(share_hasp, plain):
    hasp, away = share_hasp(VERBS), share_hasp(VERBS)
    with hasp.connect() as one, away.connect() as other:
        assert one.call("LOCK", "k", "PX", 60000, "AS", "me") == FENCE
        stand(plain, other, "LOCK", "k", *WAIT)
        one.send(encode("CLIENT", "REPLY", "OFF") + encode("UNLOCK", "k", "AS", "me"))
        assert other.read() == FENCE
        one.send(encode("CLIENT", "REPLY", "ON"))
        assert one.read() == OK
        assert one.call("PING") == b"+PONG\r\n"


def test_a_transaction_has_full_calls(share_hasp, plain):
    hasp, away = share_hasp(VERBS), share_hasp(VERBS)
    with hasp.connect() as one, away.connect() as other:
        assert one.call("LOCK", "k", "PX", 60000) == FENCE
        stand(plain, other, "LOCK", "k", *WAIT)
        one.send(encode("MULTI") + encode("UNLOCK", "k") + encode("EXEC"))
        assert [one.read() for _ in range(3)] == [OK, b"+QUEUED\r\n", b"*1\r\n:1\r\n"]
        assert other.read() == FENCE


@EACH_RELEASE
def test_a_release_of_nothing_answers_zero(clients, plain, rules, take, release, taken):
    one, other = clients(2, rules)
    assert one.call(*release) == ZERO
    assert other.call(*take) == taken
    assert one.call(*release) == ZERO
    assert plain.exists("lock:1")


def test_a_key_of_another_type_is_refused_as_before(share_hasp, plain):
    with share_hasp(VERBS).connect() as one:
        plain.rpush("k", 1)
        for command in (("LOCK", "k"), ("UNLOCK", "k")):
            assert one.call(*command).startswith(b"-WRONGTYPE ")
        assert plain.lrange("k", 0, -1) == ["1"]
