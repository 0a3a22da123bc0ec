# SPDX-License-Identifier: BSD-3-Clause
"""With owner = value, clients take locks by scripts of their own: hasp renews, releases and shows
these locks. The client does not notice the reads that hasp adds.
"""

import contextlib

import pytest
from harness import encode, until
from harness.interop import GoZero, Redsync, contend
from harness.marks import covers
from harness.renewal import LEASE_MS, is_renewed, rises, rule, runs_out
from harness.replies import OK, ONE, PONG, QUEUED, ZERO, bulk
from harness.resp import pipeline
from harness.scrape import HTTP, of
from harness.sections import VERBS
from harness.told import rows
from lockers import Discourse, Nextcloud, Redlock
from redis.lock import Lock

KEY = "lock:1"
LONG_MS = 600000  # a lease whose end no test awaits, in ms
TAKE = "return redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2])"
TAKE_FOR_EVER = "return redis.call('setnx', KEYS[1], ARGV[1])"
REPLACE = "return redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3])"
EXTEND = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"
LOOK = "return redis.call('get', KEYS[1])"
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"
IDIOMS = [GoZero, Redsync, Redlock, Nextcloud, Discourse]
KEPT = [GoZero, Redsync, Redlock, Nextcloud]  # whose value does not say when the lock ends


def by_value(**settings):
    return rule(**{"owner": "value", "renew": "yes", "on_disconnect": "release", **settings}) + VERBS


def held(connection):
    """Returns {key: owner} as LOCK.LIST shows it."""
    return {row["key"]: row["owner"] for row in rows(connection.call("LOCK.LIST"))}


def is_released(hasp, key=KEY):
    """Returns true if hasp has released the lock because its connection ended."""
    return f'event=released_at_disconnect key="{key}"' in hasp.log


@pytest.fixture
def connect(start_hasp):
    """connect(hasp) returns a redis-py client with one connection to it; the fixture closes it."""
    with contextlib.ExitStack() as stack:
        def start(hasp):
            client = hasp.client(single_connection_client=True)
            stack.callback(client.connection_pool.disconnect)
            return client
        yield start


# --- applications' own locks ----------------------------------------------------------------


@covers("renew")
@pytest.mark.parametrize("kind", KEPT)
def test_work_beyond_the_expiry_is_not_overlapped(share_hasp, plain, connect, kind):
    hasp = share_hasp(by_value())
    mine, yours = (kind(connect(hasp), KEY, lease_ms=LEASE_MS) for _ in range(2))
    assert mine.lock(timeout=0)
    for _ in range(2):
        assert rises(plain, 1, KEY)
        assert not yours.lock(timeout=0)
    assert mine.unlock()
    assert yours.lock(timeout=0)
    assert yours.unlock()
    assert not plain.exists(KEY)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["gozero", "redsync", "redlock", "nextcloud"])
def test_applications_meet_no_more_when_their_work_outlives_the_lease(redis_server, start_hasp, pool, kind):
    settings = {"workers": 2, "times": 1, "lease_ms": LEASE_MS, "work_ms": LEASE_MS + 1500}
    assert contend(pool, (redis_server.address, kind), **settings)[1] > 0
    assert contend(pool, (start_hasp(by_value()).address, kind), **settings) == (0, 0)


@covers("on_disconnect")
@pytest.mark.parametrize("kind", IDIOMS)
def test_dead_owner_s_lock_is_free_at_once(share_hasp, plain, connect, kind):
    hasp = share_hasp(by_value())
    client = connect(hasp)
    assert kind(client, KEY, lease_ms=LONG_MS).lock(timeout=0)
    assert plain.pttl(KEY) > LONG_MS // 2
    client.connection_pool.disconnect()
    until(lambda: not plain.exists(KEY), "the release")
    assert kind(connect(hasp), KEY).lock(timeout=0)


@pytest.mark.parametrize("kind", [Redsync, Redlock])
def test_extension_by_a_library_counts(share_hasp, plain, connect, kind):
    hasp = share_hasp(by_value())
    lock = kind(connect(hasp), KEY, lease_ms=LEASE_MS)
    assert lock.lock(timeout=0)
    lock.lease_ms = 2 * LEASE_MS
    assert lock.extend() == 1
    for _ in range(2):
        until(lambda: plain.pttl(KEY) < 2 * LEASE_MS - 500, "part of the lease to pass")
        until(lambda: plain.pttl(KEY) > 2 * LEASE_MS - 500, "a renewal with the new lease")
    assert lock.unlock() == 1
    with hasp.connect() as one:
        assert held(one) == {}


def test_redis_py_s_lock_is_kept_until_its_script_releases_it(start_hasp, plain, connect):
    hasp = start_hasp(by_value())
    with hasp.connect() as one:
        lock = Lock(connect(hasp), KEY, timeout=LEASE_MS / 1000)
        assert lock.acquire()
        assert lock.reacquire()
        assert is_renewed(plain, KEY)
        assert held(one) == {KEY: lock.local.token.decode()}
        lock.release()
        assert held(one) == {}
    assert "lock_lost" not in hasp.log


def test_redsync_s_extend_takes_a_lock_that_is_gone(share_hasp, plain, connect):
    lock = Redsync(connect(share_hasp(by_value())), KEY, lease_ms=LEASE_MS)
    assert lock.lock(timeout=0)
    plain.delete(KEY)
    assert lock.extend() == 1
    assert is_renewed(plain, KEY)


# --- how hasp treats these locks --------------------------------------------------------------


def test_lock_of_a_script_is_shown_and_counted(start_hasp, plain):
    hasp = start_hasp(by_value() + HTTP)
    with hasp.connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        assert held(one) == {KEY: "mine"}
        assert of(hasp, "hasp_locks_held", "locks") == 1
        assert one.call("EVAL", RELEASE, 1, KEY, "mine") == ONE
        assert held(one) == {}
        assert of(hasp, "hasp_locks_held", "locks") == 0
        assert of(hasp, "hasp_lock_acquired_total", "locks") == 1
        assert of(hasp, "hasp_lock_released_total", "locks") == 1
    assert not plain.exists(KEY)


def test_hold_ends_when_another_connection_s_script_deletes_the_lock(start_hasp, plain):
    hasp = start_hasp(by_value(), workers=1)
    with hasp.connect() as one, hasp.connect() as other:
        for take in [("EVAL", TAKE, 1, KEY, "mine", LEASE_MS), ("SET", KEY, "mine", "NX", "PX", LEASE_MS)]:
            assert one.call(*take) == OK
            assert held(one) == {KEY: "mine"}
            assert other.call("EVAL", RELEASE, 1, KEY, "yours") == ZERO
            assert held(one) == {KEY: "mine"}
            assert other.call("EVAL", RELEASE, 1, KEY, "mine") == ONE
            assert held(one) == {}
        # hasp does not release a lock that the owner took directly from Redis.
        plain.set(KEY, "mine")
    with hasp.connect() as later:
        assert later.call("EVAL", TAKE, 1, "lock:2", "its", LONG_MS) == OK
    until(lambda: not plain.exists("lock:2"), "the release of lock:2, which hasp would send after one of KEY")
    assert plain.get(KEY) == "mine"


@pytest.mark.parametrize("past", [("DEL", KEY), ("SET", KEY, "yours")])
def test_lost_lock_of_a_script_is_logged(start_hasp, plain, past):
    hasp = start_hasp(by_value() + HTTP)
    with hasp.connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        plain.execute_command(*past)
        reason = "it is gone" if past[0] == "DEL" else "another owner has it"
        until(lambda: f'reason="{reason}"' in hasp.log, "the loss")
        assert f'key="{KEY}"' in next(line for line in hasp.log.splitlines() if "event=lock_lost" in line)
        assert of(hasp, "hasp_lock_lost_total", "locks") == 1


def test_on_lost_close_closes_a_script_s_owner(share_hasp, plain):
    with share_hasp(by_value(on_lost="close")).connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        plain.delete(KEY)
        assert one.at_end()


@pytest.mark.parametrize("renew", ["yes", "unleased"])
def test_lock_without_an_expiry_gets_the_rule_s_lease(start_hasp, plain, renew):
    hasp = start_hasp(by_value(renew=renew))
    with hasp.connect() as one:
        assert one.call("EVAL", TAKE_FOR_EVER, 1, KEY, "mine") == ONE
        until(lambda: 0 < plain.pttl(KEY) <= LEASE_MS, "an expiry")
        # A script that only reads the lock does not change its lease.
        assert one.call("EVAL", LOOK, 1, KEY, "mine") == bulk("mine")
        assert is_renewed(plain, KEY)
    until(lambda: is_released(hasp), "the release")


def test_renew_unleased_leaves_a_script_s_expiry_alone(share_hasp, plain):
    with share_hasp(by_value(renew="unleased")).connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        assert held(one) == {KEY: "mine"}
        assert runs_out(plain, KEY)


def test_script_may_extend_its_lock_and_is_renewed_with_the_new_lease(share_hasp, plain):
    with share_hasp(by_value()).connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        assert one.call("EVAL", EXTEND, 1, KEY, "mine", 2 * LEASE_MS) == ONE
        assert one.call("EVAL", LOOK, 1, KEY) == bulk("mine")
        until(lambda: plain.pttl(KEY) < 2 * LEASE_MS - LEASE_MS // 4, "a quarter of the lease to pass")
        until(lambda: plain.pttl(KEY) > 2 * LEASE_MS - LEASE_MS // 4, "a renewal")


def test_script_may_shorten_its_lock(share_hasp, plain):
    with share_hasp(by_value()).connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        # hasp renews the full lease a second before it ends, unless the script has shortened it.
        assert one.call("EVAL", EXTEND, 1, KEY, "mine", LEASE_MS - 1000) == ONE
        assert runs_out(plain, KEY)


def test_look_by_a_script_leaves_the_lease_alone(share_hasp, plain):
    with share_hasp(by_value()).connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        until(lambda: plain.pttl(KEY) < LEASE_MS - 200, "a part of the lease to pass")
        assert one.call("EVAL", LOOK, 1, KEY) == bulk("mine")
        assert is_renewed(plain, KEY)
        until(lambda: plain.pttl(KEY) > LEASE_MS - 200, "a renewal of the whole lease")


def test_script_replaces_its_value(start_hasp, plain):
    hasp = start_hasp(by_value())
    with hasp.connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "first", LEASE_MS) == OK
        assert one.call("EVAL", REPLACE, 1, KEY, "first", "second", LEASE_MS) == OK
        assert held(one) == {KEY: "second"}
        assert is_renewed(plain, KEY)
    until(lambda: is_released(hasp), "the release")
    until(lambda: not plain.exists(KEY), "the lock to be gone")
    assert "lock_lost" not in hasp.log


@pytest.mark.parametrize("script, args", [
    ("return redis.call('set', KEYS[1], 'a value of its own', 'px', ARGV[1])", [LEASE_MS]),
    ("return redis.call('set', KEYS[1], string.rep('x', 5000), 'px', ARGV[1])", [LEASE_MS]),
    (TAKE, ["x" * 5000, LEASE_MS]),
    ("redis.call('set', KEYS[1], 'x') return 'x'", []),
    ("redis.call('rpush', KEYS[1], ARGV[1])", ["mine"]),
    ("redis.call('set', 'elsewhere', ARGV[1])", ["mine"]),
])
def test_other_values_make_no_hold(share_hasp, plain, script, args):
    with share_hasp(by_value()).connect() as one:
        one.call("EVAL", script, 1, KEY, *args)
        assert held(one) == {}
    assert plain.dbsize() == 1


def test_hash_that_becomes_a_string_makes_no_hold(share_hasp, plain):
    plain.hset(KEY, "field", "value")
    with share_hasp(by_value()).connect() as one:
        assert one.call("EVAL", REPLACE, 1, KEY, "", "mine", LEASE_MS) == OK
        assert held(one) == {}


def test_script_on_a_free_key_that_stays_free_makes_no_hold(share_hasp):
    with share_hasp(by_value()).connect() as one:
        assert one.call("EVAL", RELEASE, 1, KEY, "mine") == ZERO
        assert held(one) == {}


@pytest.mark.parametrize("settings", [{"owner": "connection"}, {"mode": "observe"}])
def test_other_rules_scripts_are_not_followed(start_hasp, plain, settings):
    plain.config_resetstat()
    with start_hasp(by_value(**settings)).connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        assert held(one) == {}
    assert "cmdstat_pttl" not in plain.info("commandstats")


def test_script_of_several_locks_is_not_followed(start_hasp, plain):
    script = "redis.call('set', KEYS[1], ARGV[1]) return redis.call('set', KEYS[2], ARGV[1])"
    hasp = start_hasp(by_value())
    with hasp.connect() as one:
        assert one.call("EVAL", script, 2, KEY, "lock:2", "mine") == OK
        assert held(one) == {}
        assert one.call("EVAL", script, 2, "other", "lock:3", "mine") == OK
        assert held(one) == {"lock:3": "mine"}
    until(lambda: is_released(hasp, "lock:3"), "the release of lock:3")
    until(lambda: sorted(plain.keys()) == [KEY, "lock:2", "other"], "lock:3 to be gone")


def test_function_is_followed(share_hasp, plain):
    plain.function_load("#!lua name=locks\nredis.register_function('take', function(keys, args) "
                        "return redis.call('set', keys[1], args[1], 'nx', 'px', args[2]) end)", replace=True)
    with share_hasp(by_value()).connect() as one:
        assert one.call("FCALL", "take", 1, KEY, "mine", LEASE_MS) == OK
        assert held(one) == {KEY: "mine"}


def test_record_of_an_earlier_try_does_not_keep_a_script_s_lock(share_hasp, plain):
    """The first owner's script deleted its lock, but left hasp's record of it."""
    hasp = share_hasp(by_value())
    with hasp.connect() as one:
        assert one.call("SET", KEY, "first", "NX", "PX", LONG_MS) == OK
        assert one.call("EVAL", RELEASE, 1, KEY, "first") == ONE
        assert plain.exists(f"hasp:fence:{{{KEY}}}")
    with hasp.connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "second", LONG_MS) == OK
    until(lambda: not plain.exists(KEY), "the release")


def test_commands_behind_a_script_know_its_lock(share_hasp, plain):
    with share_hasp(by_value()).connect() as one:
        assert pipeline(one, ("EVAL", TAKE, 1, KEY, "mine", LEASE_MS), ("PEXPIRE", KEY, 2 * LEASE_MS), ("DEL", KEY),
                        ("EVAL", TAKE, 1, KEY, "again", LEASE_MS), ("EVAL", RELEASE, 1, KEY, "again"),
                        ("SETNX", KEY, "third")) == [OK, ONE, ONE, OK, ONE, ONE]
        assert held(one) == {KEY: "third"}


def test_waiter_gets_what_a_script_took_and_released(clients, plain, pool):
    one, other = clients(2, by_value(wait="20s"))
    assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
    waiting = pool.submit(other.call, "SETNX", KEY, "yours")
    until(lambda: plain.exists(f"hasp:queue:{{{KEY}}}"), "the waiter to enter the queue")
    assert rises(plain, 2, KEY)
    assert one.call("EVAL", RELEASE, 1, KEY, "mine") == ONE
    assert waiting.result() == ONE
    assert held(one) == {KEY: "yours"}


# --- replies that the client gets -----------------------------------------------------------

NESTED = "return {1, 'two', {3, {ok = 'four'}}, false, 'x'}"
TYPES = "redis.setresp(3) return {map = {a = {double = 1.5}}}"
CONVERSATION = [
    ("EVAL", TAKE, 1, KEY, "mine", LEASE_MS),
    ("EVALSHA", "0" * 40, 1, KEY, "mine"),
    ("EVAL", NESTED, 1, KEY, "mine"),
    ("EVAL", TYPES, 1, KEY, "mine"),
    ("EVAL", "return redis.error_reply('ODD one')", 1, KEY),
    ("EVAL", "return nonsense(", 1, KEY),
    ("EVAL", "return redis.call('incr', KEYS[1])", 1, KEY, "mine"),
    ("EVAL", "return redis.call('hget', KEYS[1], 'x')", 1, KEY),
    ("EVAL", "return string.rep('x', 100000)", 1, KEY),
    ("EVAL", "return {}", 1, KEY),
    ("EVAL", "return", 1, KEY),
    ("EVAL", "return true", 1, KEY),
    ("EVAL", LOOK, 1, KEY),
    ("EVAL", LOOK, "one", KEY),
    ("EVAL", LOOK, 3, KEY),
    ("EVAL", LOOK),
    ("PING",),
    ("EVAL", "redis.call('del', KEYS[1]) return redis.call('rpush', KEYS[1], 'a')", 1, KEY),
    ("EVAL", LOOK, 1, KEY),
    ("EVAL", RELEASE, 1, KEY, "mine"),
    ("DBSIZE",),
]


@pytest.mark.parametrize("proto", [2, 3])
@pytest.mark.parametrize("at_once", [False, True])
def test_replies_are_redis_own_byte_for_byte(redis_server, share_hasp, proto, at_once):
    hasp = share_hasp(by_value())

    def converse(server):
        with server.connect() as one:
            one.call("HELLO", proto)
            if at_once:
                return pipeline(one, *CONVERSATION)
            return [one.call(*command) for command in CONVERSATION]

    # hasp releases the lock when the client has gone, which would disturb the other conversation.
    expected = converse(redis_server)
    redis_server.client().flushall()
    assert converse(hasp) == expected


@pytest.fixture
def is_unread(plain):
    """is_unread() is true if Redis has carried out no GET and no PTTL in this test."""
    plain.config_resetstat()
    return lambda: not {"cmdstat_get", "cmdstat_pttl"} & plain.info("commandstats").keys()


def test_reads_of_hasp_are_seen_in_redis_statistics(share_hasp, is_unread):
    """Shows that is_unread() notices the reads of hasp, which the tests below exclude."""
    with share_hasp(by_value()).connect() as one:
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
        assert held(one) == {KEY: "mine"}
    assert not is_unread()


def test_scripts_in_multi_are_not_followed(share_hasp, is_unread):
    with share_hasp(by_value()).connect() as one:
        assert pipeline(one, ("MULTI",), ("EVAL", TAKE, 1, KEY, "mine", LEASE_MS), ("EXEC",)) \
            == [OK, QUEUED, b"*1\r\n" + OK]
        assert held(one) == {}
    assert is_unread()


@pytest.mark.parametrize("mode", ["OFF", "SKIP"])
def test_client_reply_is_not_disturbed(share_hasp, is_unread, mode):
    with share_hasp(by_value()).connect() as one:
        one.send(b"".join(encode(*command) for command in [
            ("CLIENT", "REPLY", mode), ("EVAL", TAKE, 1, KEY, "mine", LEASE_MS), ("CLIENT", "REPLY", "ON"),
            ("EVAL", TAKE, 1, "lock:2", "mine", LEASE_MS), ("PING",)]))
        assert [one.read() for _ in range(3)] == [OK, OK, PONG]
    assert is_unread()


@pytest.mark.parametrize("options", [[], ["OPTIN"], ["BCAST"]])
def test_client_tracking_reports_only_what_the_client_reads(share_hasp, plain, is_unread, options):
    with share_hasp(by_value()).connect() as one:
        one.call("HELLO", 3)
        assert one.call("CLIENT", "TRACKING", "ON", *options) == OK
        if options == ["OPTIN"]:
            assert one.call("CLIENT", "CACHING", "YES") == OK
        assert one.call("EVAL", "return redis.call('exists', KEYS[1])", 1, KEY) == ZERO
        assert is_unread()
        plain.set(KEY, "yours")
        assert one.read() == b">2\r\n" + bulk("invalidate") + b"*1\r\n" + bulk(KEY)
        assert one.call("EVAL", TAKE, 1, "other:1", "mine", LEASE_MS) == OK


def test_asking_is_for_the_client_s_own_command(share_hasp, is_unread):
    with share_hasp(by_value()).connect() as one:
        assert one.call("ASKING")[:1] == b"-"
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS) == OK
    assert is_unread()


def test_subscribed_client_s_scripts_are_not_followed(share_hasp, plain, is_unread):
    with share_hasp(by_value()).connect() as one:
        assert one.call("SUBSCRIBE", "news").startswith(b"*3\r\n")
        assert one.call("EVAL", TAKE, 1, KEY, "mine", LEASE_MS)[:1] == b"-"
        plain.publish("news", "x")
        assert one.read() == b"*3\r\n" + bulk("message") + bulk("news") + bulk("x")
    assert is_unread()


def test_script_right_behind_a_subscription_is_not_followed(share_hasp, is_unread):
    """hasp cannot read while a RESP2 client subscribes, and messages may come between replies."""
    with share_hasp(by_value()).connect() as one:
        subscribed, refused = pipeline(one, ("SUBSCRIBE", "news"), ("EVAL", TAKE, 1, KEY, "mine", LEASE_MS))
        assert subscribed.startswith(b"*3\r\n")
        assert refused[:1] == b"-"
    assert is_unread()


@pytest.mark.parametrize("behind", [
    [("CLIENT", "REPLY", "SKIP"), ("PING",)],
    [("CLIENT", "REPLY", "OFF"), ("PING",), ("CLIENT", "REPLY", "ON")],
    [("MULTI",), ("CLIENT", "REPLY", "SKIP"), ("EXEC",)],
    [("MULTI",), ("SUBSCRIBE", "news"), ("EXEC",)],
    [("REPLCONF", "ACK", 1)],
])
def test_commands_that_end_replies_come_behind_hasp_s_reads(redis_server, start_hasp, plain, behind):
    """hasp sends its reads before a command that ends or hides the replies after it."""
    def converse(server):
        with server.connect() as one:
            one.send(b"".join(encode(*command) for command in [
                ("EVAL", TAKE, 1, KEY, "mine", LONG_MS), ("EVAL", LOOK, 1, KEY), *behind, ("QUIT",)]))
            return one.file.read()

    hasp = start_hasp(by_value())
    through = converse(hasp)
    # hasp has recorded the lock, and releases it when the client quits.
    until(lambda: is_released(hasp), "the release")
    plain.delete(KEY)
    assert through == converse(redis_server)


def test_messages_come_between_the_replies_of_a_resp3_client(clients):
    one, other = clients(2, by_value())
    one.call("HELLO", 3)
    assert one.call("SUBSCRIBE", "news")[:1] == b">"
    publish = "redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[2]) return redis.call('publish', 'news', 'x')"
    one.send(encode("EVAL", publish, 1, KEY, "mine", LEASE_MS))
    assert sorted([one.read(), one.read()]) == sorted(
        [ONE, b">3\r\n" + bulk("message") + bulk("news") + bulk("x")])
    until(lambda: held(other) == {KEY: "mine"}, "LOCK.LIST to show the lock")


@pytest.mark.parametrize("may", ["+eval", "+eval +set +get", "+eval +set +pttl"])
def test_user_that_may_not_read_sees_no_more_than_redis_answers(redis_server, share_hasp, plain, may):
    plain.execute_command("ACL", "SETUSER", "eve", "on", ">pw", "resetkeys", "~lock:*", "-@all", "+auth", *may.split())
    try:
        with share_hasp(by_value()).connect() as one, redis_server.connect() as direct:
            for connection in (one, direct):
                assert connection.call("AUTH", "eve", "pw") == OK
            replies = [connection.call("EVAL", TAKE, 1, key, "mine", LEASE_MS)
                       for connection, key in ((one, "lock:1"), (direct, "lock:2"))]
            assert replies[0] == replies[1]
            assert (replies[0] == OK) == ("+set" in may)
    finally:
        plain.execute_command("ACL", "DELUSER", "eve")


# --- a cluster --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GoZero, Nextcloud])
def test_script_s_lock_in_a_cluster_is_renewed_and_released(shared_cluster, start_hasp, connect, kind):
    hasp = start_hasp(by_value(), upstream=shared_cluster.upstream)
    client = connect(hasp)
    locks = [kind(client, f"lock:{n}", lease_ms=LEASE_MS) for n in range(4)]
    assert all(lock.lock(timeout=0) for lock in locks)
    with hasp.connect() as one:
        assert locks[0].unlock()
        assert is_renewed(client, "lock:1", "lock:2", "lock:3")
        client.connection_pool.disconnect()
        until(lambda: all(is_released(hasp, f"lock:{n}") for n in (1, 2, 3)), "the release")
        until(lambda: [one.call("EXISTS", f"lock:{n}") for n in range(4)] == [ZERO] * 4, "the locks to be gone")
