# SPDX-License-Identifier: BSD-3-Clause
"""A client gets a lock at once, but the reply is late: hasp reports the lock only if the lease
still lasts."""

import time

import pytest
from harness import encode, until
from harness.gates import subscribe
from harness.guards import guard, is_lost
from harness.info import calls, is_ready, nscripts
from harness.line import queue_of
from harness.relay import Relay
from harness.replies import NIL, OK, ONE, ZERO, bulk
from harness.sections import rule, verbs
from harness.wait import prompt

LOCK = "lock:1"
BRIEF = "300ms"
LATE_EXEC = (b"-ERR hasp: Redis carried out the transaction, but its reply came after the lease of a lock that it took "
             b"had ended\r\n")


class Late:
    """A hasp behind gates, which hold back the reply to the command of the client `one`."""

    def __init__(self, start_hasp, gates, plain, rules, before=()):
        self.gates, self.plain = gates, plain
        self.hasp = is_ready(start_hasp(rules, upstream=gates.address), plain)
        loaded = calls(plain, "script|load")
        self.away = start_hasp(rules)
        # Otherwise the other hasp might load the scripts again after the test's SCRIPT FLUSH.
        until(lambda: calls(plain, "script|load") >= loaded + nscripts(), "the other hasp to have loaded its scripts")
        self.one, self.other = self.hasp.connect(), self.away.connect()
        assert self.one.call("PING") == b"+PONG\r\n"
        if "verbs" in rules:
            subscribe(self.hasp, gates, plain)
        for command in before:
            self.one.call(*command)

    def send(self, *commands):
        self.gates.shut(replies={"link"})
        self.one.send(b"".join(encode(*command) for command in commands))
        until(lambda: self.gates.waiting, "the reply to wait at the gate")

    def runs_out(self):
        until(lambda: not self.plain.exists(LOCK), "the lease to end")

    def takes(self, *command):
        """The client `other`, at another hasp, takes the lock before the reply arrives."""
        reply = self.other.call(*command)
        assert reply == OK or reply.startswith(b":"), reply

    def answer(self):
        self.gates.open()
        return self.one.read()

    def close(self):
        self.one.close()
        self.other.close()


@pytest.fixture
def late(start_hasp, gates, plain):
    made = []

    def make(rules, before=()):
        made.append(Late(start_hasp, gates, plain, rules, before))
        return made[-1]

    yield make
    for each in made:
        each.close()


LAYOUTS = pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])


@LAYOUTS
@pytest.mark.parametrize("terms", [("PX", 300), (), ("PX", 300, "AS", "me")], ids=str)
def test_lock_that_is_over_is_not_told_of(late, plain, reentrant, terms):
    them = late(verbs(reentrant=reentrant, lease=BRIEF))
    them.send(("LOCK", LOCK, *terms))
    them.runs_out()
    them.takes("LOCK", LOCK, "PX", 60000)
    assert them.answer() == NIL
    assert them.one.call("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("terms", [(), ("WAIT", 50)], ids=str)
def test_hasp_that_was_stopped_tells_of_no_lock_that_is_over(late, gates, terms):
    them = late(verbs())
    them.send(("LOCK", LOCK, "PX", 300, *terms))
    before = len(gates.passed["link"])
    with them.hasp.frozen():
        gates.open()
        until(lambda: len(gates.passed["link"]) > before, "the reply to arrive at hasp")
        them.runs_out()
        them.takes("LOCK", LOCK, "PX", 60000)
    assert them.one.read() == NIL


@LAYOUTS
def test_client_that_may_wait_does_when_its_lock_is_over(late, plain, reentrant):
    them = late(verbs(reentrant=reentrant))
    them.send(("LOCK", LOCK, "PX", 300, "WAIT", 60000))
    them.runs_out()
    them.takes("LOCK", LOCK, "PX", 60000)
    them.gates.open()
    until(lambda: plain.zcard(queue_of(LOCK)) == 1, "the client to enter the queue")
    before = int(plain.get("hasp:fence"))
    assert them.other.call("UNLOCK", LOCK) == ONE
    assert int(them.one.read()[1:]) == int(plain.get("hasp:fence")) > before


@LAYOUTS
def test_lock_that_is_over_and_free_is_taken_again(late, plain, reentrant):
    them = late(verbs(reentrant=reentrant))
    them.send(("LOCK", LOCK, "PX", 1500))
    them.runs_out()
    fence = int(plain.get("hasp:fence"))
    plain.set("hasp:fence", fence + 10)
    assert int(them.answer()[1:]) > fence + 10


@pytest.mark.parametrize("reentrant, again", [
    ("count", False), ("count", True), ("refresh", False), ("refresh", True), ("no", False)])
def test_lease_of_a_lock_that_is_told_late_begins_anew(late, plain, reentrant, again):
    before = [("LOCK", LOCK, "PX", 1000)] if again else []
    them = late(verbs(reentrant=reentrant), before)
    begun = time.monotonic()
    them.send(("LOCK", LOCK, "PX", 5000))
    fence = plain.get("hasp:fence").encode()
    ends = plain.pexpiretime(LOCK)
    until(lambda: plain.pttl(LOCK) < 4400, "more than a tenth of the lease to pass")
    answer = them.answer()
    prompt(time.monotonic() - begun, 4)  # else the lease may have ended, and hasp may have taken the lock again
    assert answer == b":" + fence + b"\r\n"
    assert plain.pexpiretime(LOCK) >= ends + 500
    assert them.one.call("UNLOCK", LOCK) == ONE


def test_extension_that_is_over_is_not_told_of(late):
    them = late(verbs(), [("LOCK", LOCK, "PX", 60000)])
    them.send(("LOCK.EXTEND", LOCK, "PX", 300))
    them.runs_out()
    them.takes("LOCK", LOCK, "PX", 60000)
    assert them.answer() == ZERO


class Slow(Relay):
    """Each reply takes longer than the leases of the tests."""

    def _pass_on(self, data, source, sink, replies):
        if replies:
            time.sleep(0.02)
        super()._pass_on(data, source, sink, replies)


@pytest.fixture
def slow_hasp(start_hasp, redis_server):
    with Slow(redis_server.address) as relay:
        yield start_hasp(verbs(), upstream=relay.address)


def test_mlock_whose_replies_are_all_late_is_not_taken(slow_hasp, plain):
    with slow_hasp.connect() as one:
        assert one.call("MLOCK", 2, LOCK, "k", "PX", 10) == NIL
        assert one.call("MLOCK", 2, LOCK, "k", "PX", 10, "WAIT", 100) == NIL
        until(lambda: not plain.exists(LOCK, "k"), "the locks to be free")


def test_extension_whose_replies_are_all_late_is_not_told_of(slow_hasp):
    with slow_hasp.connect() as one:
        assert one.call("LOCK", LOCK, "PX", 60000) != NIL
        assert one.call("LOCK.EXTEND", LOCK, "PX", 35) == ZERO


def is_quiet(plain):
    before = calls(plain, "evalsha")
    time.sleep(0.3)
    return calls(plain, "evalsha") <= before + 1


def test_mlock_that_is_sent_again_ends_with_its_client(slow_hasp, plain):
    with slow_hasp.connect() as one:
        one.send(encode("MLOCK", 2, LOCK, "k", "PX", 10, "WAIT", 600000))
        until(lambda: plain.exists(LOCK), "the locks to be taken")
        before = calls(plain, "evalsha")
        until(lambda: calls(plain, "evalsha") > before + 5, "the call to be repeated")
    # hasp then undoes the call after 0.5 s, 1 s, ...
    until(lambda: not plain.exists(LOCK) and is_quiet(plain), "hasp to give the locks back")


HELD = b"-LOCKED '%s' is held by another owner\r\n" % LOCK.encode()


OVER = [
    (("SETNX", LOCK, "v"), ZERO), (("SET", LOCK, "v", "NX"), NIL), (("SET", LOCK, "v", "NX", "GET"), bulk("5")),
    (("SET", LOCK, "v"), HELD), (("GETSET", LOCK, "v"), HELD), (("SET", LOCK, "v", "GET"), HELD)]
COUNTED = (("INCR", LOCK), b":6\r\n")  # not with owner = value, where a counter belongs to nobody


@pytest.mark.parametrize("command, refusal, owner", [
    *((*case, "connection") for case in (*OVER, COUNTED)), (*OVER[0], "user"), (*OVER[0], "value"), (*OVER[3], "value")],
    ids=str)
def test_rules_lock_that_is_over_is_not_told_of(late, plain, command, refusal, owner):
    """The lock has the lease of the rule."""
    them = late(rule(lease=BRIEF, owner=owner))
    plain.execute_command("ACL", "SETUSER", "other", "on", "nopass", "~*", "&*", "+@all")
    assert them.other.call("AUTH", "other", "any") == OK
    them.send(command)
    them.runs_out()
    them.takes("SET", LOCK, "5", "NX", "PX", 60000)
    assert them.answer() == refusal
    assert them.one.call("PING") == b"+PONG\r\n"
    assert plain.pttl(LOCK) > 10000


@pytest.mark.parametrize("settings", [{"renew": "yes"}, {"wait": "60s"}], ids=str)
def test_rules_lock_of_the_applications_own_lease_is_told_of_while_it_lasts_if_hasp_has_a_part(late, plain, settings):
    them = late(rule(**settings))
    them.send(("SET", LOCK, "v", "NX", "PX", 300))
    them.runs_out()
    them.takes("SET", LOCK, "w", "NX", "PX", 60000)
    if "renew" in settings:
        assert them.answer() == NIL
        return
    them.gates.open()
    until(lambda: plain.zcard(queue_of(LOCK)) == 1, "the client to enter the queue")
    assert them.other.call("DEL", LOCK) == ONE
    assert them.one.read() == OK


def test_rules_lock_of_the_applications_own_lease_is_told_of_as_by_redis(late):
    them = late(rule())
    them.send(("SET", LOCK, "v", "NX", "PX", 300))
    them.runs_out()
    assert them.answer() == OK


def test_lock_whose_end_is_a_date_is_told_of_though_hasp_has_no_connection_of_its_own_yet(start_hasp, gates, plain):
    """hasp must ask Redis whether that date has passed, over its own connection."""
    hasp = is_ready(start_hasp(rule(pattern="lock:*", renew="yes"), upstream=gates.address), plain)
    with hasp.connect() as one:
        assert one.call("PING") == b"+PONG\r\n"
        gates.shut(requests={"own"})
        gates.cut_links("own")
        until(lambda: "upstream_down" in hasp.log, "hasp's own connection to end")
        one.send(encode("SET", LOCK, "v", "NX", "PXAT", round(time.time() * 1000) + 3600000))
        until(lambda: plain.exists(LOCK), "the lock to be taken")
        gates.open()
        assert one.read() == OK
        assert one.call("DEL", LOCK) == ONE


@pytest.mark.parametrize("command, reply", [
    (("SET", LOCK, "w", "XX"), OK), (("SET", LOCK, "w"), OK), (("GETSET", LOCK, "w"), bulk("v")),
    (("SET", LOCK, "w", "XX", "GET"), bulk("v")), (("SETEX", LOCK, 5, "w"), OK)], ids=str)
@pytest.mark.parametrize("in_time", [False, True])
def test_refresh_is_told_of_while_it_lasts(late, plain, command, reply, in_time):
    lease = "5s" if in_time else BRIEF
    them = late(rule(lease=lease, renew="yes"), [("SET", LOCK, "v", "NX", "PX", 60000)])
    them.send(("SETEX", LOCK, 1, "w") if command[0] == "SETEX" and not in_time else command)
    if in_time:
        ends = plain.pexpiretime(LOCK)
        until(lambda: plain.pttl(LOCK) < 4400, "more than a tenth of the lease to pass")
        assert them.answer() == reply
        assert plain.pexpiretime(LOCK) >= ends + 500
        return
    them.runs_out()
    them.takes("SET", LOCK, "5", "NX", "PX", 60000)
    assert them.answer() == (NIL if "XX" in command else HELD)


@pytest.mark.parametrize("in_time", [False, True])
def test_transaction_whose_lock_is_over_is_answered_by_an_error(late, plain, in_time):
    them = late(verbs(), [("MULTI",), ("LOCK", LOCK, "PX", 60000 if in_time else 300), ("SET", "data", 1)])
    them.send(("EXEC",))
    if not in_time:
        them.runs_out()
        them.takes("LOCK", LOCK, "PX", 60000)
    if in_time:
        assert them.answer().startswith(b"*2\r\n:")
        return
    assert them.answer() == LATE_EXEC
    assert them.one.call("GET", "data") == bulk("1")
    assert plain.exists(LOCK)


@pytest.mark.parametrize("in_time", [False, True])
@pytest.mark.parametrize("before", [[], [("GET", "data")], [("WATCH", "x"), ("GET", "data")]], ids=str)
def test_guarded_transaction_is_no_exception(late, plain, before, in_time):
    them = late(verbs() + guard(pattern="data", acquire_on="GET"), [
        *before, ("MULTI",), ("LOCK", LOCK, "PX", 60000 if in_time else 300), ("SET", "data", 1)])
    them.send(("EXEC",))
    while not plain.exists(LOCK):  # EXEC first takes the guards, which needs several calls
        for held in ({"requests": {"link"}}, {"replies": {"link"}}):
            n = len(them.gates.waiting)
            them.gates.shut(**held)
            until(lambda n=n: len(them.gates.waiting) > n, "the next request or reply at the gates")
    if in_time:
        assert them.answer().startswith(b"*2\r\n:")
        return
    them.runs_out()
    them.takes("LOCK", LOCK, "PX", 60000)
    assert them.answer() == LATE_EXEC
    assert them.one.call("GET", "data") == bulk("1")
    assert plain.exists(LOCK)


def test_lock_of_a_client_that_hangs_up_while_hasp_asks_whether_it_is_over_is_undone(late, plain):
    them = late(verbs())
    them.send(("LOCK", LOCK, "PX", 60000))
    until(lambda: plain.pttl(LOCK) < 53900, "more than a tenth of the lease to pass", timeout=15)
    them.gates.shut(requests={"own"})
    them.hasp.take_turn()
    before = calls(plain, "evalsha")
    them.one.close()
    them.hasp.take_turn()
    them.gates.open()
    until(lambda: calls(plain, "evalsha") > before, "hasp to undo the LOCK")
    until(lambda: not plain.exists(LOCK), "the lock to be gone")


def test_late_read_of_a_guarded_key_is_followed_by_no_write(late, plain):
    """The guard expires before hasp gets the reply to the read."""
    them = late(guard(lease=BRIEF))
    them.send(("GET", "stock:1"))
    until(lambda: not plain.exists("hasp:guard:{stock:1}"), "the guard to expire")
    assert them.other.call("SET", "stock:1", "theirs") == OK
    assert them.answer() == NIL
    assert is_lost(them.one.call("SET", "stock:1", "mine"))
    assert plain.get("stock:1") == "theirs"


@pytest.mark.parametrize("kind", [(), ("SHARED",), ("EXCLUSIVE",)])
def test_call_that_is_sent_again_when_its_time_is_over_takes_the_lock_once(late, gates, plain, kind):
    """Redis lacks the script, and the client's wait is over when hasp learns that and sends EVAL;
    the second reply is late, too."""
    them = late(verbs(), before=[("LOCK", LOCK, *kind), ("UNLOCK", LOCK)])
    plain.script_flush()
    them.send(("LOCK", LOCK, *kind, "PX", 3000, "WAIT", 1))
    began = time.monotonic()
    until(lambda: time.monotonic() > began + 0.05, "the time to wait to end")
    n = len(gates.waiting)
    gates.shut(requests={"link"})
    until(lambda: len(gates.waiting) > n, "hasp to send the LOCK again")
    gates.shut(replies={"link"})
    until(lambda: 0 < plain.pttl(LOCK) < 2500, "part of the lease to pass")
    gates.open()
    assert them.one.read().startswith(b":")
    assert them.one.call("UNLOCK", LOCK) == ONE
    assert not plain.exists(LOCK)


def test_read_side_of_the_writer_that_is_told_late_is_held_once(late, plain):
    """Only the read side's lease is over, so hasp sends the LOCK again."""
    them = late(verbs(), before=[("LOCK", LOCK, "EXCLUSIVE", "PX", 600000)])
    them.send(("LOCK", LOCK, "SHARED", "PX", 1000))
    until(lambda: not plain.keys("*:rwlock_timeout:*"), "the lease to end")
    assert them.answer().startswith(b":")
    # Ended holds stay in the hash until another client asks for the lock.
    holds = plain.hgetall(LOCK)
    assert holds.pop("mode") == "write" and list(holds.values()) == ["1", "1"]
    assert them.one.call("UNLOCK", LOCK) == ONE
    them.one.call("UNLOCK", LOCK)
    assert not plain.exists(LOCK)
