# SPDX-License-Identifier: BSD-3-Clause
"""`quorum = NAME` of a [lock] section: a majority of independent servers keeps the locks that
applications take by SETNX and similar commands."""

import contextlib

import pytest
from harness import Connection, encode, until
from harness.marks import covers
from harness.quorum import Quorum, connected
from harness.replies import NIL, OK, ONE, PONG, TAKEN, ZERO, bulk
from harness.sections import VERBS, rule

KEY = "lock:a"
UNREACHED = b"-NOQUORUM 2 of the 5 servers of 'locks' answer in time\r\n"
HELD = b'-LOCKED "lock:a" is held by another owner\r\n'
# {reason in hasp's error: commands that hasp refuses for it}.
REFUSED = {
    b"allows only SETNX, SET NX, DEL": [
        ("SET", KEY, "v"), ("SET", KEY, "v", "XX"), ("SET", KEY, "v", "NX", "GET"), ("SETEX", KEY, 9, "v"), ("GETSET", KEY, "v"),
        ("INCR", KEY), ("APPEND", KEY, "v"), ("TYPE", KEY), ("STRLEN", KEY), ("EXPIRE", KEY, 9, "NX"), ("GETDEL", KEY),
        ("EVAL", "return redis.call('DEL', KEYS[1])", 1, KEY), ("EVAL", f"return 1 --{'x' * 100000}", 1, KEY),
    ],
    b"may name no other key": [("DEL", "a", KEY), ("MGET", KEY, "a"), ("RENAME", "a", KEY), ("EXISTS", KEY, KEY),
                                ("MSET", "a", 1, KEY, 2), ("EVAL", "return 1", 2, "a", KEY)],
    b"cannot be used in MULTI, or after WATCH": [("WATCH", "a", KEY)],
    b"may have at most 65536 bytes": [("SETNX", KEY, "v" * 65537)],
}


@pytest.fixture
def quorum():
    with Quorum() as quorum:
        yield quorum


def rules(lease="20s", max_lease="20s", **options):
    return rule(quorum="locks", lease=lease, max_lease=max_lease, **options)


@pytest.fixture
def start(start_hasp, quorum):
    def start_with(workers=1, timeout="5s", on_lost="log", **terms):
        return connected(start_hasp(quorum.section(timeout=timeout, on_lost=on_lost) + rules(**terms), workers=workers).is_up(),
                         5 * workers)
    return start_with


@pytest.fixture
def two(start):
    """Yields a connection to each of two hasps."""
    with start().connect() as one, start().connect() as other:
        yield one, other


def pttls(quorum):
    return [server.client().pttl(KEY) for server in quorum.servers]


def test_majority_has_the_lock_and_redis_does_not(two, quorum, plain):
    one, other = two
    assert one.call("SETNX", KEY, "mine") == ONE and other.call("SETNX", KEY, "yours") == ZERO
    until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
    assert not plain.exists(KEY)
    for connection in two:
        assert connection.call("GET", KEY) == bulk("mine") and connection.call("EXISTS", KEY) == ONE
        assert 9000 < int(connection.call("PTTL", KEY)[1:]) <= 20000
        assert 9 <= int(connection.call("TTL", KEY)[1:]) <= 20
    assert other.call("DEL", KEY) == ZERO and other.call("UNLINK", KEY) == ZERO
    assert one.call("DEL", KEY) == ONE and one.call("DEL", KEY) == ZERO
    assert other.call("GET", KEY) == NIL and other.call("EXISTS", KEY) == ZERO
    assert other.call("TTL", KEY) == b":-2\r\n" and other.call("PTTL", KEY) == b":-2\r\n"
    assert other.call("SETNX", KEY, "") == ONE and one.call("GET", KEY) == bulk("")


@pytest.mark.parametrize("options, most", [
    (("EX", "9"), 9000), (("PX", "9000"), 9000), (("PX", "3600000"), 20000), (("EXAT", "9999999999"), 20000), ((), 20000)], ids=str)
def test_set_nx_takes_it_for_as_long_as_it_says(two, quorum, options, most):
    one, other = two
    assert one.call("SET", KEY, "mine", *options, "nx") == OK
    until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
    assert all(most - 5000 < ms <= most for ms in pttls(quorum))
    assert other.call("SET", KEY, "yours", "NX", *options) == NIL
    assert one.call("UNLINK", KEY) == ONE
    assert other.call("SET", KEY, "yours", "NX", *options) == OK and one.call("GET", KEY) == bulk("yours")


def test_values_are_any_bytes(two):
    value = bytes(range(256)) + b" a b\r\n" + b"x" * 65000
    assert two[0].call("SET", KEY, value, "NX") == OK
    assert two[1].call("GET", KEY) == b"$%d\r\n%s\r\n" % (len(value), value)


@pytest.mark.parametrize("command", [("SET", KEY, "v", "NX", "EX", 0), ("SET", KEY, "v", "NX", "PX", "x"), ("SET", KEY, "v", "NX", "XX"),
                                     ("SETNX", KEY), ("EXPIRE", KEY, "x"), ("GET", KEY, "b"), ("TTL",)], ids=str)
def test_wrong_arguments_are_refused_as_by_redis(two, redis_server, command):
    with redis_server.connect() as plain:
        assert two[0].call(*command) == plain.call(*command)
    assert two[0].call("GET", KEY) == NIL


def test_expire_is_for_the_owner_and_never_shortens(two, quorum):
    one, other = two
    assert one.call("EXPIRE", KEY, 9) == ZERO
    assert one.call("SET", KEY, "v", "NX", "PX", 10000) == OK
    until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
    assert other.call("EXPIRE", KEY, 15) == ZERO and all(ms <= 10000 for ms in pttls(quorum))
    assert one.call("PEXPIRE", KEY, 15000) == ONE
    until(lambda: all(ms > 10000 for ms in pttls(quorum)), "all servers to have the longer lease")
    assert one.call("EXPIRE", KEY, 1) == ONE and all(ms > 5000 for ms in pttls(quorum))
    assert one.call("PERSIST", KEY) == ZERO and all(ms > 0 for ms in pttls(quorum))
    assert other.call("EXPIRE", KEY, 0) == ZERO and one.call("EXPIRE", KEY, -1) == ONE
    until(lambda: quorum.is_free(KEY), "the lock to be free")


@pytest.mark.parametrize("renew, commands, renewed", [
    ("unleased", [("SETNX", KEY, "v")], True),
    ("unleased", [("SETNX", KEY, "v"), ("EXPIRE", KEY, 6)], False),
    ("no", [("SETNX", KEY, "v")], False),
    ("yes", [("SET", KEY, "v", "NX", "PX", 6000), ("EXPIRE", KEY, 6)], True)], ids=str)
def test_renewal(start, quorum, renew, commands, renewed):
    with start(lease="6s", max_lease="6s", timeout="2s", renew=renew).connect() as one, start().connect() as other:
        for command in commands:
            assert one.call(*command) in (OK, ONE)
        if renewed:
            until(lambda: all(0 < ms < 4500 for ms in pttls(quorum)), "a part of the lease to pass")
            until(lambda: all(ms > 4500 for ms in pttls(quorum)), "a renewal")
        else:
            until(lambda: other.call("SETNX", KEY, "v") == ONE, "the lease to end")
            assert one.call("DEL", KEY) == ZERO


def test_it_is_waited_for(start, pool):
    with start(wait="1h").connect() as one, start(wait="200ms").connect() as other, start(wait="1h").connect() as third:
        assert one.call("SETNX", KEY, "v") == ONE
        assert other.call("SET", KEY, "v", "NX") == NIL
        waits = pool.submit(third.call, "SETNX", KEY, "v")
        assert one.call("PING") == PONG and one.call("DEL", KEY) == ONE
        assert waits.result() == ONE


@pytest.mark.parametrize("command", [("SETNX", KEY, "v"), ("SET", KEY, "v", "NX"), ("DEL", KEY), ("EXPIRE", KEY, 9), ("PERSIST", KEY),
                                     ("GET", KEY), ("EXISTS", KEY), ("TTL", KEY), ("PTTL", KEY)], ids=str)
def test_without_a_majority_everybody_is_told_so(two, quorum, command):
    for server in quorum.servers[:3]:
        server.kill()
    until(lambda: two[0].call("SETNX", "lock:b", "v") == UNREACHED, "hasp to notice that three servers are down")
    assert two[0].call(*command) == UNREACHED
    until(lambda: quorum.is_free(KEY) and quorum.is_free("lock:b"), "the two other servers' locks to be undone")
    assert two[0].call("PING") == PONG


def test_pool_may_release_over_another_connection(start, quorum):
    hasp = start(owner="address", on_lost="close")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", KEY, "v") == ONE and other.call("SETNX", KEY, "v") == ZERO
        assert other.call("EXPIRE", KEY, 9) == ONE and other.call("DEL", KEY) == ONE
        until(lambda: quorum.is_free(KEY), "the lock to be free")
        assert other.call("SETNX", KEY, "v") == ONE and one.call("DEL", KEY) == ONE
        assert one.call("PING") == other.call("PING") == PONG
    assert "quorum_lost" not in hasp.log


def test_who_knows_the_value_is_the_owner(start):
    hasp = start(owner="value")
    with hasp.connect() as one, hasp.connect() as other:
        assert other.call("DEL", KEY) == ZERO
        assert one.call("SET", KEY, "mine", "NX") == OK
        assert other.call("DEL", KEY) == HELD and other.call("EXPIRE", KEY, 0) == HELD
        assert other.call("EXPIRE", KEY, 20) == ONE
        assert other.call("GET", KEY) == bulk("mine") and other.call("DEL", KEY) == ONE
        assert one.call("SET", KEY, "another", "NX") == OK
        assert other.call("DEL", KEY) == ZERO and one.call("DEL", KEY) == ONE
        assert one.call("SET", KEY, "", "NX") == OK and other.call("DEL", KEY) == ZERO


def test_lock_that_another_hasp_freed_is_taken_again(start):
    with start(owner="value").connect() as one, start(owner="value").connect() as other:
        assert one.call("SET", KEY, "first", "NX") == OK
        assert other.call("GET", KEY) == bulk("first") and other.call("DEL", KEY) == ONE
        assert one.call("SET", KEY, "second", "NX") == OK and one.call("DEL", KEY) == ONE
        assert other.call("SET", KEY, "third", "NX") == OK


def test_value_that_was_read_counts_more_than_a_lock_that_is_gone(start):
    with start(owner="value").connect() as one, start(owner="value").connect() as other:
        assert one.call("SET", KEY, "first", "NX") == OK
        assert other.call("GET", KEY) == bulk("first") and other.call("DEL", KEY) == ONE
        assert other.call("SET", KEY, "second", "NX") == OK
        assert one.call("GET", KEY) == bulk("second") and one.call("DEL", KEY) == ONE
        assert one.call("SET", KEY, "third", "NX") == OK and one.call("DEL", KEY) == ONE
        assert other.call("SET", KEY, "fourth", "NX") == OK


def test_release_of_a_lock_that_is_gone_is_about_the_owner_s_next_one(start):
    with start(owner="address").connect() as one, start(owner="address").connect() as other:
        assert one.call("SETNX", KEY, "v") == ONE and other.call("DEL", KEY) == ONE
        assert one.call("DEL", KEY) == ZERO
        assert one.call("SETNX", KEY, "v") == ONE and other.call("DEL", KEY) == ONE
        assert other.call("SETNX", KEY, "v") == ONE and one.call("DEL", KEY) == ONE
        assert one.call("SETNX", KEY, "v") == ONE


def test_anybody_may_delete_where_that_is_allowed(start):
    hasp = start(owner="value", foreign_del="allow")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", KEY, "mine", "NX") == OK and other.call("DEL", KEY) == ONE
        assert other.call("SET", KEY, "mine", "NX") == OK


@pytest.mark.parametrize("why, command", [(why, command) for why in REFUSED for command in REFUSED[why]],
                         ids=lambda x: x[0] if isinstance(x, tuple) else "")
def test_what_a_quorum_cannot_do_is_refused(two, quorum, plain, why, command):
    one, other = two
    assert other.call("SETNX", KEY, "v") == ONE
    reply = one.call(*command)
    assert reply.startswith(b"-ERR hasp: ") and why in reply
    assert other.call("GET", KEY) == bulk("v") and not plain.exists(KEY) and one.call("PING") == PONG


@pytest.mark.parametrize("command", [("SETNX", KEY, "v"), ("GET", KEY), ("DEL", KEY)], ids=str)
def test_not_inside_a_transaction(two, quorum, plain, command):
    one, _ = two
    one.call("MULTI")
    one.call(*command)
    assert b"cannot be used in MULTI" in one.call("EXEC")
    assert quorum.is_free(KEY) and not plain.exists(KEY)


def test_other_keys_are_not_concerned(two, plain):
    one, _ = two
    assert one.call("MSET", "a", 1, "b", 2) == OK and one.call("GET", "a") == bulk("1") and one.call("DEL", "a", "b") == b":2\r\n"
    assert one.call("SET", "c", "x" * 200000) == OK and plain.strlen("c") == 200000
    assert one.call("EVAL", "return redis.call('SET', KEYS[1], 1)", 1, "a") == OK and one.call("WATCH", "a") == OK


def test_commands_keep_their_order(two):
    one, other = two
    assert other.call("SETNX", KEY, "v") == ONE
    one.send(encode("SETNX", KEY, "w") + encode("PING") + encode("SET", "lock:b", "w", "NX") + encode("GET", "lock:b") + encode("GET", "a"))
    assert [one.read() for _ in range(5)] == [ZERO, PONG, OK, bulk("w"), NIL]


def test_split_and_slow_requests(two):
    one, other = two
    for byte in encode("SET", KEY, "v", "NX") + encode("GET", KEY):
        one.send(bytes([byte]))
    assert [one.read(), one.read()] == [OK, bulk("v")] and other.call("GET", KEY) == bulk("v")


@pytest.mark.parametrize("on_disconnect, freed", [("release", True), ("expire", False)])
def test_lock_of_a_client_that_goes(start, quorum, on_disconnect, freed):
    hasp = start(on_disconnect=on_disconnect)
    with hasp.connect() as one:
        assert one.call("SETNX", KEY, "v") == ONE
        until(lambda: quorum.is_everywhere(KEY), "all servers to have the lock")
    if freed:
        until(lambda: quorum.is_free(KEY), "the lock to be free")
    else:
        hasp.take_turn()
        assert quorum.is_everywhere(KEY)


@covers("on_lost", "quorum_lost")
def test_lost_majority_closes_the_connection(start, quorum):
    hasp = start(lease="6s", timeout="2s", on_lost="close")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", KEY, "v") == ONE
        for server in quorum.servers[:3]:
            server.kill()
        assert one.at_end()
        assert other.call("PING") == PONG
    assert "quorum_lost" in hasp.log


def test_several_workers_exclude_each_other(start):
    hasp = start(workers=3)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(9)]
        got = [client.call("SETNX", KEY, "v") for client in clients]
        assert got.count(ZERO) == 8 and got.count(ONE) == 1
        assert clients[got.index(ONE)].call("DEL", KEY) == ONE


@covers("quorum")
def test_rules_and_verbs_may_have_one_quorum(start_hasp, quorum):
    hasp = connected(start_hasp(quorum.sections() + rules(), workers=1).is_up())
    with hasp.connect() as one:
        assert one.call("SETNX", KEY, "v") == ONE and one.call("LOCK", "k")[:1] == b":"
        assert one.call("LOCK", KEY).startswith(b"-ERR the key has a [lock] rule")
        assert one.call("UNLOCK", "k") == ONE and one.call("DEL", KEY) == ONE


def test_info_tells_who_has_it(start_hasp, quorum):
    hasp = connected(start_hasp(quorum.section() + rules() + VERBS, workers=1).is_up())
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK.INFO", KEY) == NIL and one.call("SETNX", KEY, "v") == ONE
        info = other.call("LOCK.INFO", KEY)
        assert quorum.values(KEY)[0].split(" ")[0].encode() in info and b"ttl\r\n:" in info
        assert other.call("LOCK", "k")[:1] == b":"


@pytest.mark.parametrize("take, key", [("SETNX", KEY), ("LOCK", "k")])
def test_operator_frees_a_lock_whose_owner_will_not(start_hasp, quorum, tmp_path, take, key):
    console = tmp_path / "console"
    hasp = connected(start_hasp(f"{quorum.sections()}{rules()}[admin]\nlisten = unix:{console}\n", workers=1).is_up())
    with hasp.connect() as one, hasp.connect() as other, Connection(str(console)) as admin:
        assert admin.call("UNLOCK", key, "FORCE") == ZERO
        assert one.call(take, key, *["v"][:take == "SETNX"]) in TAKEN
        assert admin.call("UNLOCK", key, "FORCE") == ONE
        until(lambda: quorum.is_free(key), "the lock to be free")
        assert other.call(take, key, *["v"][:take == "SETNX"]) in TAKEN
        for server in quorum.servers[:3]:
            server.kill()
        until(lambda: b"-NOQUORUM 2 servers" in admin.call("UNLOCK", key, "FORCE"), "hasp to notice")


def test_reload_that_brings_a_quorum_wants_a_restart(start_hasp, quorum, plain):
    hasp = start_hasp(rule(pattern="other:*"), workers=1).is_up()
    with hasp.connect() as one:
        hasp.reload(rule(pattern="other:*"), quorum.section() + rules())
        assert one.call("SETNX", KEY, "v").startswith(b"-ERR hasp: a reload gave the key's rule a quorum")
        assert not plain.exists(KEY) and quorum.is_free(KEY)
    lines = [line for line in hasp.log.splitlines() if "restart_needed" in line]
    assert any("'servers' in [quorum NAME]: none -> " in line for line in lines)
    assert all("[quorum NAME]: none -> " in line for line in lines)


@covers("quorum")
def test_reload_that_takes_the_quorum_from_a_rule_is_refused_and_a_held_lock_stays(start, plain):
    hasp = start()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", KEY, "v") == ONE
        hasp.edit("quorum = locks\n", "")
        until(lambda: "reloaded" in hasp.log or "reload_failed" in hasp.log, "the reload")
        hasp.take_turn()
        assert "'quorum' of keys like lock:*: locks in [lock locks] -> none in [lock locks]; clients" in hasp.log
        assert other.call("SETNX", KEY, "w") == ZERO
        assert one.call("DEL", KEY) == ONE
    assert not plain.exists(KEY)


def test_rule_that_observes_leaves_the_locks_where_they_are(start_hasp, quorum, plain):
    hasp = start_hasp(quorum.section() + rules(mode="observe"), workers=1).is_up()
    with hasp.connect() as one:
        assert one.call("SETNX", KEY, "v") == ONE
    assert plain.get(KEY) == "v" and quorum.is_free(KEY)


def test_in_front_of_a_cluster(start_hasp, quorum, shared_cluster):
    hasp = connected(start_hasp(quorum.section() + rules(), upstream=shared_cluster.upstream, workers=1).is_up())
    with hasp.connect() as one, hasp.connect() as other:
        for i in range(20):
            key = f"lock:{i}"
            assert one.call("SETNX", key, "v") == ONE and other.call("SETNX", key, "w") == ZERO
            assert other.call("GET", key) == bulk("v") and other.call("DEL", key) == ZERO
            assert b"may name no other key" in other.call("DEL", key, "a", "b")
            assert b"may name no other key" in other.call("MGET", key, "a", "b")
            assert one.call("DEL", key) == ONE
