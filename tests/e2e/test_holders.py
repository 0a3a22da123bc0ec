# SPDX-License-Identifier: BSD-3-Clause
"""Who has a lock, when several may: owners that connections share, and what was said too late.

An owner is shared by connections of one worker, of two workers and of two proxies: they
know of each other in different ways. What must not happen is waited for by what comes after it:
hasp's own calls to Redis are carried out in the order in which it makes them.
"""

import signal
import threading
import time

import pytest
from harness import encode, until
from harness.line import queue_of, stand
from harness.relay import Relay, hang_up

KEY, LOCK = "k", "lock:1"
OK, ONE, ZERO, NIL = b"+OK\r\n", b":1\r\n", b":0\r\n", b"$-1\r\n"
UNKNOWN = b"-ERR hasp: upstream "
LEASE_MS = 450

LAYOUTS = pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
OWNERS = pytest.mark.parametrize("owner", ["address", "name", "user", "AS"])
WHERE = pytest.mark.parametrize("where", ["worker", "two workers", "two proxies"])


def section(name, settings):
    return "\n".join([f"[{name}]", *(f"{option} = {value}" for option, value in settings.items()), ""])


def verbs(**settings):
    return section("verbs", settings)


def rule(**settings):
    return section("lock locks", {"pattern": "lock:*", **settings})


@pytest.fixture
def pooling():
    """Who holds a lock does not depend on it."""
    return "shared"


def take(connection, *options):
    """By verb; the fencing token does not matter."""
    assert connection.call("LOCK", KEY, *options).startswith(b":")


def calls(plain, *commands):
    stats = plain.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {}).get("calls", 0) for command in commands)


def rises(plain, key, count):
    """Waits until the expiry of `key` has risen so often. False: it went."""
    seen, last = 0, 1 << 60
    deadline = time.monotonic() + 10
    while seen < count:
        assert time.monotonic() < deadline, f"neither renewed nor gone: {key}"
        left = plain.pttl(key)
        if left < 0:
            return False
        seen += left > last
        last = left
        time.sleep(0.005)
    return True


def is_renewed(plain, key):
    """Longer than any lease."""
    return rises(plain, key, 4)


def runs_out(plain, key):
    """Without being renewed once."""
    return not rises(plain, key, 1)


class Gates(Relay):
    """A relay that knows hasp's connections apart: "own", "listening", and "link" for its
    clients'. shut() names those whose requests or replies are held up until they are named no more;
    `waiting` is what was held up, `passed` the replies that went through."""

    def __init__(self, target):
        self.requests, self.replies, self.waiting = set(), set(), []
        self.kinds, self.passed = {}, {"own": b"", "listening": b"", "link": b""}
        self.changed = threading.Condition()
        super().__init__(target)

    def shut(self, requests=(), replies=()):
        """These, and no others."""
        with self.changed:
            self.requests, self.replies = set(requests), set(replies)
            self.changed.notify_all()

    def open(self):
        self.shut()

    def cut_links(self):
        """hasp's end of them; what is held up still goes to Redis."""
        for near, far in self.pairs:
            if self.kinds.get(far) == "link":
                hang_up(near)

    def cut(self):
        self.open()
        super().cut()

    def _copy(self, source, sink, replies):
        """The far end of a connection names it."""
        far, shut = (source, "replies") if replies else (sink, "requests")
        try:
            while data := source.recv(65536):
                if not replies and b"SUBSCRIBE" in data:
                    self.kinds[far] = "listening"
                elif not replies and b"\r\nCOMMAND\r\n" in data:
                    self.kinds[far] = "own"
                kind = self.kinds.setdefault(far, "link")
                with self.changed:
                    if kind in getattr(self, shut):
                        self.waiting.append(data)
                        self.changed.wait_for(lambda: kind not in getattr(self, shut))
                sink.sendall(data)
                if replies:
                    self.passed[kind] += data
        except OSError:
            pass
        hang_up(source)
        hang_up(sink)


@pytest.fixture
def gates(redis_server):
    with Gates(redis_server.address) as relay:
        yield relay


def is_up(hasp, workers=1):
    """hasp's own connection is, and Redis has its scripts."""
    until(lambda: hasp.log.count("upstream_up") == workers, "hasp's own connection")
    return hasp


def subscribe(hasp, gates, plain):
    """hasp does when somebody is to wait."""
    with hasp.connect() as one:
        assert one.call("LOCK", "other", "AS", "somebody") == ONE
        assert one.call("LOCK", "other", "WAIT", 10) == NIL
    until(lambda: b"subscribe" in gates.passed["listening"], "hasp to subscribe")
    until(lambda: not plain.exists(queue_of("other")), "it to leave the queue")
    hasp.take_turn()


class Partners:
    """Connections, at the same worker or apart, of which those made by join() are one owner."""

    def __init__(self, start_hasp, plain, where, owner, rules):
        self.plain, self.owner = plain, owner
        workers = 2 if where == "two workers" else 1
        self.hasps = [is_up(start_hasp(rules, workers=workers), workers)
                      for _ in range(2 if where == "two proxies" else 1)]
        self.apart = where == "two workers"
        self.words = ("AS", "us") if owner == "AS" else ()
        self.connections = []

    def worker_of(self, connection):
        """By the ticket of a lock."""
        assert connection.call("LOCK", "probe", "AS", "probe").startswith(b":")
        worker = self.plain.get("hasp:fence:{probe}").split(" ")[2].split("-")[0]
        assert connection.call("UNLOCK", "probe", "AS", "probe") == ONE
        return worker

    def connect(self, number=0):
        """Every other one elsewhere, if there is an elsewhere."""
        connection = self.hasps[number % len(self.hasps)].connect()
        self.connections.append(connection)
        return connection

    def join(self):
        one, other = self.connect(0), self.connect(1)
        for _ in range(80 if self.apart else 0):
            if self.worker_of(other) != self.worker_of(one):
                break
            other = self.connect(1)
        else:
            assert not self.apart, "a worker that gets no connection"
        for connection in (one, other):
            if self.owner == "name":
                assert connection.call("CLIENT", "SETNAME", "us") == OK
            if self.owner == "user":
                assert connection.call("AUTH", "us", "x") == OK
        return one, other

    def hang_up(self, connection, last=("LOCK", "last", "AS", "last")):
        """Returns when all that it had is given back: the last it took is."""
        assert connection.call(*last).startswith(b":")
        connection.close()
        until(lambda: not self.plain.exists(last[1]), "the last lock to be given back", timeout=5)


@pytest.fixture
def partners(start_hasp, plain):
    made = []

    def make(where, owner, rules):
        plain.execute_command("ACL", "SETUSER", "us", "on", "nopass", "~*", "&*", "+@all")
        made.append(Partners(start_hasp, plain, where, owner, rules))
        return made[-1]

    yield make
    for them in made:
        for connection in them.connections:
            connection.close()


def setting(owner):
    """AS names an owner whatever is configured."""
    return {} if owner == "AS" else {"owner": owner}


# --- owners that several connections share ------------------------------------------


@WHERE
@OWNERS
def test_who_hangs_up_gives_back_its_own_hold_and_nobody_elses(partners, plain, where, owner):
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
def test_who_hangs_up_gives_back_all_of_its_own_holds(partners, plain, where):
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
def test_who_hangs_up_leaves_what_its_partner_has_taken_since(partners, plain, where, reentrant):
    """To who hangs up it looks like its own lock."""
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
def test_who_hangs_up_leaves_what_its_partner_has_refreshed(partners, plain, where, renewed):
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
def test_who_hangs_up_leaves_what_its_partner_has_taken_since_under_a_rule(partners, plain, where, owner, wait):
    them = partners(where, owner, rule(on_disconnect="release", owner=owner, wait=wait) + verbs())
    one, other = them.join()
    assert one.call("SETNX", LOCK, "v") == ONE
    assert other.call("DEL", LOCK) == ONE
    assert other.call("SET", LOCK, "v", "NX", "PX", 60000) == OK
    them.hang_up(one, last=("SETNX", "lock:last", "v"))
    assert plain.exists(LOCK)
    them.hang_up(other, last=("SETNX", "lock:last", "v"))
    assert not plain.exists(LOCK)


@WHERE
def test_lock_is_renewed_for_one_when_its_partner_gives_back_or_hangs_up(partners, plain, where):
    """What the partner left behind when it hung up runs out when there is no other hold."""
    them = partners(where, "AS", verbs(lease=f"{LEASE_MS}ms"))
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


@WHERE
def test_shorter_lease_of_a_partner_ends_no_renewal(partners, plain, where):
    them = partners(where, "AS", verbs(lease=f"{LEASE_MS}ms"))
    one, other = them.join()
    take(one, *them.words)
    take(other, "PX", 250, *them.words)
    assert is_renewed(plain, KEY)
    assert other.call("UNLOCK", KEY, *them.words) == ONE
    assert is_renewed(plain, KEY)


@WHERE
def test_shorter_lease_does_not_cut_a_partners(partners, plain, where):
    them = partners(where, "AS", verbs())
    one, other = them.join()
    take(one, "PX", 60000, *them.words)
    take(other, "PX", 100, *them.words)
    assert plain.pttl(KEY) > 50000 and plain.pttl(f"hasp:fence:{{{KEY}}}") > 50000
    take(one, "PX", 90000, *them.words)
    assert plain.pttl(KEY) > 80000


def test_shorter_lease_does_not_cut_ones_own(start_hasp, plain):
    hasp = start_hasp(verbs(lease=f"{LEASE_MS}ms"))
    with hasp.connect() as one:
        assert one.call("LOCK", KEY) == one.call("LOCK", KEY, "PX", 100) == ONE
        assert is_renewed(plain, KEY)
        assert one.call("UNLOCK", KEY) == one.call("UNLOCK", KEY) == ONE
        assert not plain.exists(KEY)


# --- partners that wait ------------------------------------------------------------


@pytest.mark.parametrize("alive", [True, False])
def test_shorter_lease_of_a_waiter_does_not_cut_that_of_its_partner_before_it(start_hasp, plain, alive):
    """Both are let in together; of one who is not there any more nothing is left."""
    hasp, away = start_hasp(verbs()), start_hasp(verbs())
    with hasp.connect() as one, hasp.connect() as first, away.connect() as second:
        assert one.call("LOCK", KEY) == ONE
        stand(plain, first, "LOCK", KEY, "PX", 60000, "WAIT", 9000, "AS", "us")
        stand(plain, second, "LOCK", KEY, "PX", 100, "WAIT", 9000, "AS", "us")
        if not alive:
            away.expect_exit = -signal.SIGKILL
            away.kill()
            until(lambda: sum(c["sub"] != "0" for c in plain.client_list()) == 1, "Redis to notice")
        assert one.call("UNLOCK", KEY) == ONE
        assert first.read() == b":2\r\n"
        if alive:
            assert second.read() == b":2\r\n"
        assert plain.hgetall(KEY) == {"us": "2" if alive else "1"}
        assert plain.pttl(KEY) > 50000


def test_partners_who_hear_late_of_their_locks_have_one_hold_each(start_hasp, plain):
    """A part of the lease is over when they do: that is made good, for each of them."""
    hasp, away = start_hasp(verbs()), start_hasp(verbs())
    with away.connect() as one, hasp.connect() as first, hasp.connect() as second:
        assert one.call("LOCK", KEY) == ONE
        for other in (first, second):
            stand(plain, other, "LOCK", KEY, "PX", 2000, "WAIT", 9000, "AS", "us")
        with hasp.frozen():
            assert one.call("UNLOCK", KEY) == ONE
            until(lambda: plain.pttl(KEY) < 1700, "a part of the lease to pass")
        assert first.read() == second.read() == b":2\r\n"
        assert plain.hgetall(KEY) == {"us": "2"}
        for other in (first, second):
            assert other.call("UNLOCK", KEY, "AS", "us") == ONE
        assert not plain.exists(KEY)


def test_partner_that_took_it_again_keeps_it_when_the_other_try_is_undone(start_hasp, redis_server, plain):
    """The try that was never answered came first."""
    with Relay(redis_server.address) as relay:
        hasp, away = start_hasp(verbs()), is_up(start_hasp(verbs(), upstream=relay.address))
        with hasp.connect() as one, away.connect() as other:
            relay.swallows = True
            other.send(encode("LOCK", KEY, "PX", 60000, "AS", "us"))
            until(lambda: plain.exists(KEY), "the lock to be taken")
            assert one.call("LOCK", KEY, "PX", 60000, "AS", "us") == ONE
            relay.cut()
            assert other.read().startswith(UNKNOWN)
            relay.mend()
            until(lambda: plain.hvals(KEY) == ["1"], "one hold to be undone", timeout=5)
            assert one.call("UNLOCK", KEY, "AS", "us") == ONE
            assert not plain.exists(KEY)


@pytest.mark.parametrize("rules, take", [
    (verbs(reentrant="refresh"), ("LOCK", KEY, "PX", 60000, "AS", "us")),
    (rule(reentrant="refresh", owner="address", wait="2s"), ("SET", LOCK, "v", "NX", "PX", 60000)),
], ids=["verb", "rule"])
def test_undoing_a_refresh_leaves_the_partners_lock(start_hasp, redis_server, plain, rules, take):
    with Relay(redis_server.address) as relay:
        hasp, away = start_hasp(rules), is_up(start_hasp(rules, upstream=relay.address))
        with hasp.connect() as one, away.connect() as other:
            assert one.call(*take) in (ONE, OK)
            assert other.call(*(word.replace(take[1], take[1] + "0") if word == take[1] else word for word in take)) \
                in (b":2\r\n", OK)  # hasp has subscribed, and Redis its scripts
            before = calls(plain, "evalsha", "eval")
            relay.swallows = True
            other.send(encode(*take))
            until(lambda: calls(plain, "evalsha", "eval") > before, "it to be carried out")
            relay.cut()
            assert other.read().startswith(UNKNOWN)
            before = calls(plain, "evalsha", "eval")
            relay.mend()
            until(lambda: calls(plain, "evalsha", "eval") > before, "the undoing")
            assert plain.exists(take[1])
            assert plain.pttl(take[1]) > 50000


# --- locks that are given back, and lost -------------------------------------------


@pytest.mark.parametrize("owner", ["connection", "name"])
def test_del_of_several_keys_ends_the_renewal_of_none_that_stays(start_hasp, plain, owner):
    hasp = start_hasp(rule(lease=f"{LEASE_MS}ms", owner=owner))
    with hasp.connect() as one, hasp.connect() as other:
        for n, connection in enumerate((one, other)):
            assert connection.call("CLIENT", "SETNAME", f"name{n}") == OK
            assert connection.call("SETNX", f"lock:{n}", f"v{n}") == ONE
        assert other.call("DEL", "lock:1", "lock:0") == ONE
        assert not plain.exists("lock:1")
        assert is_renewed(plain, "lock:0")


def test_key_that_del_names_twice_is_given_back_once(start_hasp, plain):
    hasp = start_hasp(rule(wait="5s"))
    with hasp.connect() as one, hasp.connect() as second, hasp.connect() as third:
        assert one.call("SETNX", LOCK, "v") == ONE
        stand(plain, second, "SETNX", LOCK, "w")
        stand(plain, third, "SETNX", LOCK, "x")
        assert one.call("DEL", LOCK, LOCK) == ONE
        assert second.read() == ONE
        assert plain.get(LOCK) == "w" and plain.zcard(queue_of(LOCK)) == 1


def test_late_del_of_who_lost_its_lock_leaves_the_next_holders(start_hasp, plain):
    """With owner = value: what this connection had stored is not there any more."""
    hasp = start_hasp(rule(lease=f"{LEASE_MS}ms", owner="value"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", LOCK, "mine") == one.call("SETNX", "lock:2", "mine") == ONE
        plain.delete(LOCK)
        assert other.call("SET", LOCK, "yours", "NX", "PX", 60000) == OK
        assert rises(plain, "lock:2", 3)  # hasp has tried to renew the other one, too
        assert one.call("DEL", LOCK) == ZERO
        assert plain.get(LOCK) == "yours"


def test_lock_taken_in_another_database_of_a_transaction_that_was_never_answered_is_undone(
        start_hasp, redis_server, plain):
    with Relay(redis_server.address) as relay, redis_server.client(db=1) as second:
        hasp = is_up(start_hasp(rule(wait="5s"), upstream=relay.address))
        with hasp.connect() as one:
            for command in (("MULTI",), ("SELECT", 1), ("SET", LOCK, "v", "NX", "PX", 60000), ("SELECT", 0)):
                assert one.call(*command) in (OK, b"+QUEUED\r\n")
            relay.swallows = True
            one.send(encode("EXEC"))
            until(lambda: second.exists(LOCK), "the lock to be taken")
            relay.cut()
            relay.mend()
            until(lambda: not second.exists(LOCK), "the lock to be undone", timeout=5)


def test_try_that_arrives_after_its_hasp_was_to_leave_is_undone(start_hasp, gates, plain):
    hasp = is_up(start_hasp(verbs(), upstream=gates.address, drain_timeout="50ms"))
    with hasp.connect() as one:
        assert one.call("PING") == b"+PONG\r\n"
        gates.shut(requests={"link"})
        one.send(encode("LOCK", KEY, "PX", 3600000))
        until(lambda: gates.waiting, "the try to be on its way")
        before = calls(plain, "evalsha")
        hasp.signal(signal.SIGTERM)
        assert one.at_end()
        until(lambda: calls(plain, "evalsha") > before, "it to be undone")
        before = calls(plain, "hincrby")
        gates.open()
        until(lambda: calls(plain, "hincrby") > before, "it to be carried out")
        until(lambda: not plain.exists(KEY), "it to be undone again", timeout=5)


def test_try_that_arrives_after_it_was_undone_is_undone_again(start_hasp, gates, plain):
    """It was on its way over a connection that is gone at hasp's end."""
    hasp = is_up(start_hasp(verbs(), upstream=gates.address))
    with hasp.connect() as one:
        assert one.call("PING") == b"+PONG\r\n"
        gates.shut(requests={"link"})
        one.send(encode("LOCK", KEY, "PX", 3600000))
        until(lambda: gates.waiting, "the try to be on its way")
        before = calls(plain, "evalsha")
        gates.cut_links()
        assert one.read().startswith(UNKNOWN)
        until(lambda: calls(plain, "evalsha") > before, "it to be undone")
        before = calls(plain, "hincrby")
        gates.open()
        until(lambda: calls(plain, "hincrby") > before, "it to be carried out")
        until(lambda: not plain.exists(KEY), "it to be undone again", timeout=5)


# --- what cannot be an owner, a lease or a queue ------------------------------------


@pytest.mark.parametrize("space", " \t\n\v\f\r")
def test_owner_with_a_space_of_any_kind_is_a_syntax_error(start_hasp, plain, space):
    """The queue and the record are words with spaces between them."""
    with start_hasp(verbs()).connect() as one:
        for command in (("LOCK", KEY), ("LOCK", KEY, "WAIT", 5000), ("UNLOCK", KEY),
                        ("LOCK.EXTEND", KEY, "PX", 1000)):
            assert one.call(*command, "AS", f"b{space}b") == b"-ERR syntax error\r\n"
        assert not plain.keys("*")


LONGEST_MS = 2**63 - 1 - 2**43
TOO_LONG = [2**63 - 1, LONGEST_MS + 1]


@pytest.mark.parametrize("ms", TOO_LONG)
@pytest.mark.parametrize("take", [("SET", LOCK, "v", "NX"), ("LOCK", KEY, "WAIT", 9000)], ids=["SET", "LOCK"])
def test_lease_that_redis_could_not_set_stands_in_no_line(start_hasp, redis_server, plain, take, ms):
    """Whom it lets in could not be given the lock, and would hold up those behind."""
    hasp = start_hasp(rule(wait="9s") + verbs())
    with hasp.connect() as one, hasp.connect() as other, redis_server.connect() as past:
        assert one.call("LOCK", KEY).startswith(b":") and one.call("SETNX", LOCK, "v") == ONE
        if take[0] == "SET":
            assert other.call(*take, "PX", ms) == past.call(*take, "PX", ms)
        else:
            assert other.call(*take, "PX", ms) == b"-ERR invalid expire time in 'lock' command\r\n"
        assert not plain.exists(queue_of(take[1]))


@pytest.mark.parametrize("take, give", [(("SET", LOCK, "v", "NX"), ("DEL", LOCK)),
                                        (("LOCK", KEY, "WAIT", 9000), ("UNLOCK", KEY))], ids=["SET", "LOCK"])
def test_longest_lease_is_waited_for_like_any_other(start_hasp, plain, take, give):
    hasp = start_hasp(rule(wait="9s") + verbs())
    with hasp.connect() as one, hasp.connect() as other, hasp.connect() as third:
        assert one.call(*take, "PX", LONGEST_MS) in (OK, ONE)
        stand(plain, other, *take, "PX", LONGEST_MS)
        stand(plain, third, *take)
        assert one.call(*give) == ONE
        assert other.read() in (OK, b":2\r\n")
        assert plain.pttl(take[1]) > LONGEST_MS - 10**6
        assert other.call(*give) == ONE
        assert third.read() in (OK, b":3\r\n")


@pytest.mark.parametrize("spoil", [lambda plain, key: plain.set(key, "x"), lambda plain, key: plain.rpush(key, "x")],
                         ids=["string", "list"])
def test_queue_of_another_type_harms_nobody_who_takes_or_gives_back(start_hasp, plain, spoil):
    hasp = is_up(start_hasp(rule(wait="1s", on_disconnect="release") + verbs(on_disconnect="release")))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", KEY) == one.call("SETNX", LOCK, "v") == ONE
        for key in (KEY, LOCK):
            spoil(plain, queue_of(key))
        assert one.call("UNLOCK", KEY) == one.call("DEL", LOCK) == ONE
        assert not plain.exists(KEY, LOCK)
        assert one.call("LOCK", KEY) == b":2\r\n" and one.call("SETNX", LOCK, "v") == ONE
        one.close()
        until(lambda: not plain.exists(KEY, LOCK), "what it had to be given back", timeout=5)
        assert other.call("LOCK", KEY, "WAIT", 1000) == b":3\r\n" and other.call("SETNX", LOCK, "v") == ONE


def test_who_listens_to_everything_does_not_stand_in_for_a_hasp_that_was_killed(start_hasp, redis_server, plain):
    hasp, dead = start_hasp(verbs()), start_hasp(verbs())
    with hasp.connect() as one, dead.connect() as gone, redis_server.connect() as monitor:
        assert monitor.call("PSUBSCRIBE", "*").startswith(b"*3\r\n")
        assert one.call("LOCK", KEY) == ONE
        stand(plain, gone, "LOCK", KEY, "WAIT", 60000, "PX", 600000, "AS", "gone")
        dead.expect_exit = -signal.SIGKILL
        dead.kill()
        until(lambda: all(c["sub"] == "0" for c in plain.client_list()), "Redis to notice")
        assert one.call("UNLOCK", KEY) == ONE
        assert not plain.exists(KEY)
        assert one.call("LOCK", KEY) == b":2\r\n"


# --- what comes late ----------------------------------------------------------------


def test_end_of_a_lease_is_noticed_for_the_second_though_the_first_had_its_grant_before_its_place(
        start_hasp, gates, plain):
    hasp = is_up(start_hasp(verbs(reentrant="no"), upstream=gates.address))
    away = start_hasp(verbs(reentrant="no"))
    with away.connect() as one, hasp.connect() as first, hasp.connect() as second:
        subscribe(hasp, gates, plain)
        before = gates.passed["link"].count(b"+QUEUED")
        assert one.call("LOCK", KEY, "PX", 60000) == b":2\r\n"
        gates.shut(replies={"link", "own"})
        stand(plain, first, "LOCK", KEY, "PX", 2000, "WAIT", 20000)
        until(lambda: gates.waiting, "its place to be on its way")
        assert one.call("UNLOCK", KEY) == ONE
        until(lambda: b" 3 " in gates.passed["listening"], "its grant")
        until(lambda: plain.pttl(KEY) < 1700, "so much of the lease to pass that hasp asks for it anew")
        hasp.take_turn()
        gates.shut(replies={"own"})
        until(lambda: plain.pttl(KEY) > 1700, "its lease to begin anew")
        stand(plain, second, "LOCK", KEY, "WAIT", 20000)
        until(lambda: gates.passed["link"].count(b"+QUEUED") == before + 2, "both to know their places")
        hasp.take_turn()
        gates.open()
        assert first.read() == b":3\r\n"
        assert second.read() == b":4\r\n"


def test_look_that_comes_late_is_not_followed_by_looks_at_everybody(start_hasp, gates, plain):
    """The one for whom hasp looked had got the lock meanwhile."""
    hasp = is_up(start_hasp(verbs(on_disconnect="release"), upstream=gates.address))
    away = start_hasp(verbs())
    number = 100
    with away.connect() as one:
        assert one.call("LOCK", KEY, "PX", 600000) == ONE
        crowd = [hasp.connect() for _ in range(number)]
        for n, other in enumerate(crowd):
            other.send(encode("LOCK", KEY, "WAIT", 60000, "AS", f"w{n}"))
        until(lambda: plain.zcard(queue_of(KEY)) == number, "all to stand in line")
        order = [int(entry.split(" ")[5][1:]) for entry in plain.zrange(queue_of(KEY), 0, -1)]
        first, second = crowd[order[0]], crowd[order[1]]
        gates.shut(requests={"own"})
        until(lambda: gates.waiting, "hasp to look")
        assert one.call("UNLOCK", KEY) == ONE
        assert first.read() == b":2\r\n"
        assert first.call("UNLOCK", KEY, "AS", f"w{order[0]}") == ONE
        assert second.read() == b":3\r\n"
        before = calls(plain, "evalsha"), len(gates.passed["own"])
        gates.open()
        until(lambda: len(gates.passed["own"]) > before[1], "the answer to it")
        hasp.take_turn()
        with hasp.connect() as last:
            assert last.call("LOCK", "last").startswith(b":")
        until(lambda: not plain.exists("last"), "all that hasp did before to be done")
        assert calls(plain, "evalsha") - before[0] < number / 2
        for other in crowd:
            other.close()


def test_who_hangs_up_before_it_knows_its_place_is_not_searched_for(start_hasp, gates, plain):
    hasp = is_up(start_hasp(verbs(), upstream=gates.address))
    with hasp.connect() as one, hasp.connect() as other:
        plain.hset(KEY, "somebody", 1)
        stand(plain, one, "LOCK", KEY, "WAIT", 60000)
        gates.shut(replies={"link"})
        stand(plain, other, "LOCK", KEY, "WAIT", 60000)
        other.close()
        hasp.take_turn()
        before = calls(plain, "zrange")
        gates.open()
        until(lambda: plain.zcard(queue_of(KEY)) <= 1, "it to leave the queue")
        assert plain.zcard(queue_of(KEY)) == 1
        assert calls(plain, "zrange") == before


def test_who_waited_in_vain_goes_on_though_it_cannot_leave_the_queue_yet(start_hasp, gates, plain):
    hasp = is_up(start_hasp(verbs(), upstream=gates.address))
    with hasp.connect() as one:
        subscribe(hasp, gates, plain)
        plain.hset(KEY, "somebody", 1)
        gates.shut(requests={"own"})
        one.send(encode("LOCK", KEY, "WAIT", 50) + encode("PING"))
        assert one.read() == NIL
        assert one.read() == b"+PONG\r\n"
        assert plain.zcard(queue_of(KEY)) == 1
        gates.open()
        until(lambda: not plain.exists(queue_of(KEY)), "it to leave the queue", timeout=5)


def test_lock_that_is_handed_to_one_who_waited_in_vain_goes_to_the_next(start_hasp, gates, plain):
    """Before its time was over, and hasp does not hear of it until then."""
    hasp = is_up(start_hasp(verbs(), upstream=gates.address))
    away = start_hasp(verbs())
    with away.connect() as one, hasp.connect() as gone, away.connect() as other:
        subscribe(hasp, gates, plain)
        assert one.call("LOCK", KEY) == b":2\r\n"
        gates.shut(requests={"own"}, replies={"listening"})
        stand(plain, gone, "LOCK", KEY, "WAIT", 1000, "AS", "gone")
        stand(plain, other, "LOCK", KEY, "WAIT", 9000)
        assert one.call("UNLOCK", KEY) == ONE
        assert plain.hgetall(KEY) == {"gone": "1"}
        assert gone.read() == NIL
        gates.open()
        assert other.read() == b":4\r\n"
        assert gone.call("PING") == b"+PONG\r\n"
