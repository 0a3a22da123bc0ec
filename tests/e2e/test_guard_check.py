# SPDX-License-Identifier: BSD-3-Clause
"""[guard NAME] with strategy = check: reads take no guard, and hasp refuses the write of a value
that has changed since the read.
"""

import pytest
import redis
from harness import encode, until
from harness.enforced import name_of, told, totals
from harness.guards import KEY, guard, transact
from harness.marks import covers
from harness.observed import observed
from harness.relay import Relay
from harness.replicas import Replicas
from harness.replies import EXECABORT, NIL, NIL3, OK, ONE, WRONGTYPE, bulk
from harness.resp import pipeline
from harness.sections import section



SECOND = "stock:2"
LONGEST = 16 * 1024 * 1024  # bytes of the longest value that hasp compares


def check(**settings):
    return section("guard stock", {"pattern": "stock:*", "acquire_on": "GET, GETEX, MGET",
                                   "strategy": "check", **settings})


def has_changed(reply, key=KEY):
    return reply == (f"-LOCKLOST '{key}' has changed since it was read, or the read failed: "
                     "nothing was written\r\n").encode()


@pytest.fixture
def one(share_hasp):
    with share_hasp(check()).connect() as connection:
        yield connection


@covers("strategy")
def test_write_of_what_has_changed_is_refused(share_hasp, plain):
    hasp = share_hasp(check())
    plain.set(KEY, 5)
    with hasp.connect() as one, hasp.connect() as other:
        # Both clients read without a guard, so neither waits.
        assert one.call("GET", KEY) == other.call("GET", KEY) == bulk(5)
        assert plain.keys() == [KEY]
        assert one.call("SET", KEY, 6) == OK
        assert has_changed(other.call("SET", KEY, 7))
        assert plain.get(KEY) == "6"
        # hasp refuses only one write after the value has changed.
        assert other.call("SET", KEY, 7) == OK
        assert other.call("GET", KEY) == bulk(7)
        assert other.call("SET", KEY, 8) == OK


def test_write_ends_the_check(one, plain):
    for n in range(2):
        one.call("GET", KEY)
        plain.config_resetstat()
        assert one.call("SET", KEY, n) == OK
    assert {name: stats["calls"] for name, stats in plain.info("commandstats").items() if "eval" in name} == {
        "cmdstat_evalsha": 1}
    plain.set(KEY, "other")
    assert one.call("SET", KEY, 2) == OK


def test_write_without_a_read_runs_as_in_redis(one, plain):
    plain.set(KEY, "other")
    plain.config_resetstat()
    assert one.call("SET", KEY, 1) == OK
    assert plain.info("commandstats").keys() >= {"cmdstat_set"}
    assert "cmdstat_evalsha" not in plain.info("commandstats")


def test_value_that_came_back_is_the_value_that_was_read(one, plain):
    plain.set(KEY, "a")
    one.call("GET", KEY)
    plain.set(KEY, "b")
    plain.set(KEY, "a")
    assert one.call("SET", KEY, "c") == OK


def test_last_read_counts(one, plain):
    plain.set(KEY, "a")
    one.call("GET", KEY)
    plain.set(KEY, "b")
    assert one.call("GET", KEY) == bulk("b")
    assert one.call("SET", KEY, "c") == OK


def test_key_that_did_not_exist_must_not_exist(one, plain):
    assert one.call("GET", KEY) == NIL
    assert one.call("SET", KEY, 1) == OK
    plain.delete(KEY)
    assert one.call("GET", KEY) == NIL
    plain.set(KEY, "")
    assert has_changed(one.call("SET", KEY, 2))
    plain.delete(KEY)
    assert one.call("GET", KEY) == NIL
    plain.lpush(KEY, "other type")
    assert has_changed(one.call("SET", KEY, 2))


def test_key_that_expired_has_changed(one, plain):
    plain.set(KEY, "a")
    assert one.call("GET", KEY) == bulk("a")
    plain.pexpire(KEY, 1)
    until(lambda: not plain.exists(KEY), "the key to expire")
    assert has_changed(one.call("SET", KEY, "b"))


READS = pytest.mark.parametrize("read", [
    ("GET", KEY), ("get", KEY), ("GETEX", KEY), ("GETEX", KEY, "PX", 10**7),
    ("MGET", "other", KEY, SECOND), ("MGET", KEY), ("MGET", SECOND, "other", KEY, KEY)],
    ids=lambda read: " ".join(map(str, read)))
RESP = pytest.mark.parametrize("resp", [2, 3])


@RESP
@READS
def test_reads_are_kept(one, plain, read, resp):
    if resp == 3:
        one.call("HELLO", 3)
    plain.set("other", "something else")
    for value in "a", "", b"\x00\r\n$-1\r\n\xff", None:
        plain.delete(KEY)
        if value is not None:
            plain.set(KEY, value)
        reply = one.call(*read)
        assert (bulk(value) if value is not None else NIL if resp == 2 else NIL3) in reply
        assert one.call("SET", KEY, "own") == OK
        one.call(*read)
        plain.append(KEY, "+")
        assert has_changed(one.call("SET", KEY, "b"))
        assert plain.get(KEY) == "own+"


WRITES = pytest.mark.parametrize("write, reply", [
    (("SET", KEY, "7"), OK), (("SETEX", KEY, 100, "7"), OK), (("SET", KEY, "7", "GET"), bulk(5)),
    (("GETSET", KEY, "7"), bulk(5)), (("INCRBY", KEY, 2), b":7\r\n"), (("APPEND", KEY, "0"), b":2\r\n"),
    (("SETRANGE", KEY, 1, "x"), b":2\r\n"), (("DEL", KEY), ONE), (("GETDEL", KEY), bulk(5)),
    (("EXPIRE", KEY, 100), ONE), (("MSET", "free", 1, KEY, 7), OK), (("RENAME", KEY, "free"), OK),
    (("RENAME", "free", KEY), OK), (("BITOP", "NOT", KEY, KEY), ONE), (("EVAL", "return redis.call('DEL', KEYS[1])", 1, KEY), ONE)],
    ids=lambda w: w[0] if isinstance(w, tuple) else "")


@RESP
@WRITES
def test_writes_are_checked(one, plain, write, reply, resp):
    if resp == 3:
        one.call("HELLO", 3)
    plain.mset({KEY: 5, "free": 1})
    one.call("GET", KEY)
    assert one.call(*write) == reply
    plain.delete(KEY)
    plain.mset({KEY: 5, "free": 1})
    one.call("GET", KEY)
    plain.set(KEY, 6)
    assert has_changed(one.call(*write))
    assert plain.mget(KEY, "free") == ["6", "1"]


def test_write_of_several_keys_needs_all_of_them(one, plain):
    one.call("MGET", KEY, SECOND)
    plain.set(SECOND, "other")
    assert has_changed(one.call("MSET", KEY, 1, SECOND, 1), SECOND)
    assert plain.mget(KEY, SECOND) == [None, "other"]
    # MSET failed as a whole, so the other key is still checked.
    plain.set(KEY, "other")
    assert has_changed(one.call("SET", KEY, 1))


def test_write_that_redis_refuses_keeps_the_check(one, plain):
    plain.set(KEY, "text")
    one.call("GET", KEY)
    assert one.call("INCR", KEY).startswith(b"-ERR value is not an integer")
    plain.set(KEY, "other")
    assert has_changed(one.call("SET", KEY, 1))


def test_script_is_checked_and_keeps_the_check(one, plain):
    """hasp cannot know whether the script has written the key."""
    plain.set(KEY, "a")
    one.call("GET", KEY)
    assert one.call("EVAL", "return redis.call('GET', KEYS[1])", 1, KEY) == bulk("a")
    plain.set(KEY, "b")
    assert has_changed(one.call("EVAL", "return redis.call('SET', KEYS[1], 'c')", 1, KEY))
    assert plain.get(KEY) == "b"


def test_pipelined_write_waits_for_what_was_read(one, plain):
    """hasp holds the write back until the read has failed, and therefore refuses the write."""
    plain.execute_command("ACL", "SETUSER", "writer", "on", "nopass", "~*", "&*", "+@all", "-mget")
    assert one.call("AUTH", "writer", "any") == OK
    replies = pipeline(one, ("MGET", KEY), ("SET", KEY, 1), ("SET", KEY, 2))
    assert replies[0].startswith(b"-NOPERM ") and has_changed(replies[1]) and replies[2] == OK


def test_pipelined_write_is_checked_by_the_reply_that_was_on_its_way(start_hasp, gates, plain):
    hasp = start_hasp(check(), upstream=gates.address).is_up()
    plain.set(KEY, "a")
    with hasp.connect() as one:
        one.call("GET", "free")
        gates.shut(replies={"link"})
        one.send(encode("GET", KEY) + encode("SET", KEY, "b"))
        until(lambda: gates.waiting, "Redis to run the read")
        plain.set(KEY, "other")
        gates.open()
        assert one.read() == bulk("a")
        assert has_changed(one.read())


def test_pipelines_of_reads_and_writes_keep_their_order(one):
    commands, replies = [], []
    for n in range(50):
        commands += [("GET", KEY), ("MGET", KEY, SECOND), ("SET", KEY, n), ("GET", "free")]
        value = bulk(n - 1) if n else NIL
        replies += [value, b"*2\r\n" + value + NIL, OK, NIL]
    assert pipeline(one, *commands) == replies


@pytest.mark.parametrize("size", [LONGEST, LONGEST + 1])
def test_long_values_are_checked(one, plain, size):
    plain.set(KEY, b"v" * size)
    assert len(one.call("GET", KEY)) > size
    # hasp cannot compare a longer value, and refuses the write.
    assert (one.call("SET", KEY, 1) == OK) == (size == LONGEST)
    plain.set(KEY, b"v" * size)
    one.call("GET", KEY)
    plain.setrange(KEY, size - 1, "w")
    assert has_changed(one.call("SET", KEY, 1))


# --- reads that fail ---


def test_read_that_failed_leaves_a_mark(one, plain):
    plain.execute_command("ACL", "SETUSER", "default", "-get")
    try:
        assert one.call("GET", KEY).startswith(b"-NOPERM ")
    finally:
        plain.execute_command("ACL", "SETUSER", "default", "+get")
    assert has_changed(one.call("SET", KEY, 1))
    assert not plain.exists(KEY)
    assert one.call("SET", KEY, 1) == OK


def test_read_that_failed_does_not_end_an_earlier_one(one, plain):
    plain.set(KEY, "a")
    one.call("GET", KEY)
    plain.execute_command("ACL", "SETUSER", "default", "-mget")
    try:
        assert one.call("MGET", KEY).startswith(b"-NOPERM ")
    finally:
        plain.execute_command("ACL", "SETUSER", "default", "+mget")
    assert one.call("SET", KEY, "b") == OK


def test_wrong_type_leaves_no_mark(one, plain):
    """Redis has reported the type, so the client has seen the key."""
    plain.lpush(KEY, 1)
    assert one.call("GET", KEY) == WRONGTYPE
    assert one.call("SET", KEY, 1) == OK


def test_key_of_another_type_that_mget_has_read_is_written(one, plain):
    """MGET answers nil for such a key, as for a key that does not exist."""
    plain.lpush(KEY, 1)
    for write in ("LPUSH", KEY, 2), ("DEL", KEY), ("SET", KEY, 1):
        assert one.call("MGET", KEY, SECOND) == b"*2\r\n" + NIL + NIL
        assert not one.call(*write).startswith(b"-")
    plain.delete(KEY)
    for value in "", "v" * (LONGEST + 1):
        assert one.call("MGET", KEY) == b"*1\r\n" + NIL
        plain.set(KEY, value)
        assert has_changed(one.call("SET", KEY, 2))
        plain.delete(KEY)


def test_user_who_may_not_read_is_told_so(one, plain):
    plain.execute_command("ACL", "SETUSER", "writer", "on", "nopass", "~*", "&*", "+@all", "-get")
    assert one.call("AUTH", "writer", "any") == OK
    assert one.call("MGET", KEY) == b"*1\r\n" + NIL
    assert one.call("SET", KEY, 1).startswith(b"-NOPERM ")
    assert not plain.exists(KEY)


def test_reads_that_hasp_does_not_see_count_as_failed(one, plain):
    one.send(encode("CLIENT", "REPLY", "OFF") + encode("GET", KEY) + encode("SET", KEY, 1) +
             encode("SET", SECOND, 1) + encode("CLIENT", "REPLY", "ON"))
    assert one.read() == OK
    assert plain.mget(KEY, SECOND) == [None, "1"]
    # hasp refuses only one write after a failed read.
    assert one.call("SET", KEY, 1) == OK


def test_reads_beyond_the_most_count_as_failed(one, plain):
    """hasp remembers 1,024 reads. Beyond that, it refuses the first write of each unknown key."""
    pipeline(one, *[("GET", f"stock:{n}") for n in range(1, 1026)])
    assert has_changed(one.call("SET", KEY, 1))
    assert one.call("SET", KEY, 1) == OK
    assert one.call("SET", "stock:1025", 1) == OK
    assert plain.mget(KEY, "stock:1025") == ["1", "1"]


# --- transactions ---


@pytest.mark.parametrize("changed", [False, True])
def test_transaction_is_checked(one, plain, changed):
    one.call("GET", KEY)
    transact(one, ("SET", KEY, "a"))
    one.call("GET", KEY)
    if changed:
        plain.set(KEY, "b")
    plain.config_resetstat()
    reply = transact(one, ("SET", "free", 1), ("SET", KEY, "c"))[-1]
    assert has_changed(reply) if changed else reply == b"*2\r\n" + OK + OK
    assert plain.mget(KEY, "free") == (["b", None] if changed else ["c", "1"])
    # The check took no guard, so no script released one.
    assert "cmdstat_eval" not in plain.info("commandstats")
    # The write ended the check.
    plain.set(KEY, "d")
    assert one.call("SET", KEY, "e") == OK


@pytest.mark.parametrize("commands", [
    [("MULTI",), ("SET", KEY, "c"), ("EXEC",)], [("EVAL", "return redis.call('SET', KEYS[1], 'c')", 1, KEY)]])
def test_value_that_changes_behind_the_check_is_not_overwritten(start_hasp, gates, plain, commands):
    hasp = start_hasp(check(), upstream=gates.address).is_up()
    with hasp.connect() as one:
        # These calls load the script, and give the client its link.
        for command in ("GET", KEY), *commands:
            reply = one.call(*command)
        assert OK in reply
        plain.set(KEY, "a")
        for command in ("GET", KEY), *commands[:-1]:
            one.call(*command)
        gates.shut(replies={"link"})
        one.send(encode(*commands[-1]))
        until(lambda: b"GRANTED" in b"".join(gates.waiting), "the check")
        plain.set(KEY, "b")
        gates.open()
        assert has_changed(one.read())
    assert plain.get(KEY) == "b"


def test_transaction_without_a_read_before_runs_as_in_redis(one, plain):
    plain.set(KEY, "other")
    assert transact(one, ("GET", SECOND), ("SET", KEY, 1))[-1] == b"*2\r\n" + NIL + OK


def test_read_in_a_transaction_counts(one, plain):
    plain.set(KEY, "a")
    assert transact(one, ("SET", "free", 1), ("MGET", SECOND, KEY))[-1] == b"*2\r\n" + OK + b"*2\r\n" + NIL + bulk("a")
    plain.set(KEY, "b")
    assert has_changed(one.call("SET", KEY, "c"))
    transact(one, ("GET", KEY))
    assert one.call("SET", KEY, "c") == OK


def test_write_in_a_transaction_ends_its_reads(one, plain):
    assert transact(one, ("GET", KEY), ("SET", KEY, "a"))[-1] == b"*2\r\n" + NIL + OK
    assert one.call("SET", KEY, "b") == OK
    # A read after the write is checked again, and so is a write that failed.
    assert transact(one, ("SET", KEY, "c"), ("GET", KEY), ("INCR", KEY))[-1].startswith(b"*3\r\n" + OK + bulk("c") + b"-ERR")
    plain.set(KEY, "other")
    assert has_changed(one.call("SET", KEY, "d"))


def test_transaction_that_fails_leaves_a_mark_for_its_reads(one, plain):
    assert transact(one, ("GET", KEY), ("NOSUCH",))[-1] == EXECABORT
    assert has_changed(one.call("SET", KEY, 1))


def test_transaction_that_is_refused_leaves_a_mark_for_its_reads(one, plain):
    one.call("GET", KEY)
    plain.set(KEY, "other")
    assert has_changed(transact(one, ("GET", SECOND), ("SET", KEY, 1))[-1])
    assert has_changed(one.call("SET", SECOND, 1), SECOND)


@pytest.mark.parametrize("end", ["DISCARD", "RESET"])
@pytest.mark.parametrize("read_before", [True, False])
def test_read_in_a_transaction_that_is_given_up_does_not_count(one, plain, end, read_before):
    if read_before:
        one.call("GET", KEY)
    pipeline(one, ("MULTI",), ("GET", KEY), (end,))
    plain.set(KEY, 1)
    assert has_changed(one.call("SET", KEY, 2)) == read_before
    assert one.call("SET", KEY, 3) == OK


def test_transaction_that_watches_the_key_is_checked_by_redis(one, plain):
    plain.set(KEY, "a")
    for _ in range(2):
        assert [one.call("WATCH", KEY), one.call("GET", KEY)] == [OK, bulk("a")]
        assert transact(one, ("SET", KEY, "a"))[-1] == b"*1\r\n" + OK
    assert [one.call("WATCH", KEY), one.call("GET", KEY)] == [OK, bulk("a")]
    plain.set(KEY, "b")
    assert transact(one, ("SET", KEY, "c"))[-1] == b"*-1\r\n"
    # An application that ignores the failed EXEC must read again before it writes.
    assert has_changed(one.call("SET", KEY, "c"))


@pytest.mark.parametrize("commands", [
    [("GET", KEY), ("WATCH", KEY)], [("GET", KEY), ("WATCH", SECOND)], [("WATCH", SECOND), ("GET", KEY)]])
def test_transaction_that_does_not_watch_what_it_read_is_refused(one, plain, commands):
    pipeline(one, *commands)
    reply = transact(one, ("SET", KEY, 1))[-1]
    assert reply.startswith(b"-LOCKLOST the client did not WATCH a checked key"), reply
    assert not plain.exists(KEY)


def test_transaction_with_guards_of_both_strategies_is_refused(clients, plain):
    one, = clients(1, check() + guard().replace("guard stock", "guard lock").replace("stock:*", "lock:*"))
    one.call("GET", KEY)
    assert b"strategies" in one.call("MSET", KEY, 1, "lock:1", 1)
    assert b"different strategies" in transact(one, ("SET", KEY, 1), ("SET", "lock:1", 1))[-1]
    assert not plain.exists(KEY, "lock:1")
    assert one.call("SET", KEY, 1) == OK


# --- other states and topologies ---


@pytest.mark.parametrize("read", ["GET", "GETEX", "MGET"])
def test_readers_and_writers_share_links(start_hasp, plain, read):
    hasp = start_hasp(check()).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        one.call("GET", "free")
        links = len(plain.client_list())
        for client in one, other, one, other:
            client.call(read, KEY)
            assert client.call("SET", KEY, 1) == OK
        assert len(plain.client_list()) == links


def test_redis_py_retries_until_nothing_is_lost(share_hasp, plain):
    hasp = share_hasp(check())
    with hasp.client() as a, hasp.client() as b:
        for client, other in ((a, b), (b, a)) * 10:
            value = int(client.get(KEY) or 0)
            other.set(KEY, int(other.get(KEY) or 0) + 1)
            with pytest.raises(redis.ResponseError, match="^LOCKLOST "):
                client.set(KEY, value + 1)
            with client.pipeline() as pipe:
                pipe.set(KEY, int(client.get(KEY)) + 1)
                assert pipe.execute() == [True]
    assert plain.get(KEY) == "40"


@covers("update_refused")
def test_refused_update_is_counted_and_logged(start_hasp, plain):
    hasp = start_hasp(check())
    with hasp.connect() as one:
        for n in 1, 2:
            one.call("GET", KEY)
            one.call("GET", KEY)
            assert one.call("SET", KEY, n) == OK
        one.call("GET", KEY)
        plain.set(KEY, "other")
        assert has_changed(one.call("SET", KEY, 3))
        (event,) = told(hasp, "update_refused")
        assert (event["guard"], event["key"], event["by"]) == ("stock", KEY, name_of(one)) and "holder" not in event
        sums = totals(hasp, "guard=stock")
        assert [sums[name] for name in ("acquired", "released", "updates_refused", "waited")] == [3, 2, 1, 0]


def test_nothing_is_refused_where_it_is_only_observed(start_hasp):
    hasp = start_hasp(check(mode="observe"))
    with hasp.connect() as one, hasp.connect() as other:
        one.call("GET", KEY)
        other.call("GET", KEY)
        assert other.call("SET", KEY, "other") == OK
        assert one.call("SET", KEY, 1) == OK
        assert observed(hasp, "guard=stock")["lost_updates"] == 1


def test_reads_of_clients_that_are_excepted_are_not_kept(clients, plain):
    one, = clients(1, check(**{"except": "name:report-*"}))
    one.call("CLIENT", "SETNAME", "report-1")
    one.call("GET", KEY)
    plain.set(KEY, "other")
    assert one.call("SET", KEY, 1) == OK


@pytest.mark.parametrize("before, after", [("lock", "check"), ("check", "lock")])
def test_read_under_the_other_strategy_is_not_written_by(start_hasp, plain, before, after):
    hasp = start_hasp(section("guard stock", {"pattern": "stock:*", "acquire_on": "GET", "strategy": before}))
    with hasp.connect() as one:
        one.call("GET", KEY)
        hasp.reload(f"strategy = {before}", f"strategy = {after}")
        assert one.call("SET", KEY, 1).startswith(b"-LOCKLOST ")
        assert one.call("SET", KEY, 1) == OK
        one.call("GET", KEY)
        assert one.call("SET", KEY, 2) == OK


def test_value_is_compared_with_what_the_new_primary_has(start_hasp):
    with Replicas(1) as servers, Relay(servers.primary.address) as relay:
        hasp = start_hasp(check(), upstream=relay.address).is_up()
        new = servers.replicas[0].client()
        with hasp.connect() as one:
            one.call("MSET", KEY, "a", SECOND, "a")
            assert one.call("MGET", KEY, SECOND) == b"*2\r\n" + bulk("a") + bulk("a")
            until(lambda: new.get(SECOND) == "a", "the replica to have both values")
            new.replicaof("NO", "ONE")
            new.set(KEY, "b")
            relay.target = servers.replicas[0].address
            relay.cut()
            relay.mend()
            hasp.is_up(2)
            assert has_changed(one.call("SET", KEY, "c"))
            assert one.call("SET", SECOND, "c") == OK
            assert new.mget(KEY, SECOND) == ["b", "c"]


def test_values_are_checked_wherever_their_keys_are(shared_cluster, start_hasp):
    """A slot moves between the read and the write, and hasp learns of it by a redirection."""
    hasp = start_hasp(check(), upstream=shared_cluster.upstream)
    with hasp.connect() as one, hasp.connect() as other:
        keys = [f"stock:{n}" for n in range(12)]
        one.call("MGET", *keys)
        for key in keys[:6]:
            assert other.call("SET", key, "other") == OK
        for key in keys[0], keys[6]:
            shared_cluster.migrate(shared_cluster.slot(key), shared_cluster.other_than(key))
        for n, key in enumerate(keys):
            reply = one.call("SET", key, "own")
            assert has_changed(reply, key) if n < 6 else reply == OK
