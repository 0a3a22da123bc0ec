# SPDX-License-Identifier: BSD-3-Clause
"""LOCK.LIST lists the locks of clients with the same Redis user."""

import contextlib

import pytest
from harness import encode
from harness.guards import guard
from harness.marks import covers
from harness.replies import NIL, OK, ONE, QUEUED, bulk
from harness.resp import pipeline
from harness.sections import VERBS, rule
from harness.told import rows


def keys(connection, *pattern):
    return sorted(row["key"] for row in rows(connection.call("LOCK.LIST", *pattern)))


def address_of(connection):
    return "%s:%d" % connection.sock.getsockname()


def test_locks_of_all_clients_are_listed_wherever_they_are_served(start_hasp):
    hasp = start_hasp(VERBS + rule(), workers=3)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(15)]
        assert clients[0].call("LOCK.LIST") == b"*0\r\n"
        for n, c in enumerate(clients):
            c.call("LOCK", f"k{n}", "PX", 60000)
            assert c.call("SET", f"lock:{n}", "v", "NX", "PX", 60000) == OK
        listed = {row["key"]: row for row in rows(clients[0].call("LOCK.LIST"))}
        assert len(listed) == 30
        for n, c in enumerate(clients):
            assert listed[f"k{n}"]["address"] == listed[f"lock:{n}"]["address"] == address_of(c)


def test_row_tells_what_is_known_of_the_lock(pair):
    one, other = pair(VERBS)
    assert one.call("CLIENT", "SETNAME", "shop") == OK
    fence = int(one.call("LOCK", "k", "PX", 60000, "AS", "bob")[1:])
    (row,) = rows(other.call("LOCK.LIST"))
    assert list(row) == ["key", "owner", "ttl", "fence", "address", "name", "since", "lease", "renewed"]
    assert 0 < row.pop("ttl") <= 60000 and row.pop("since") > 0
    assert row == {"key": "k", "owner": "bob", "fence": fence, "address": address_of(one), "name": "shop",
                   "lease": 60000, "renewed": 0}


def test_released_locks_and_those_of_other_databases_are_not_listed(pair):
    one, other = pair(VERBS + rule() + guard())
    one.call("LOCK", "a")
    one.call("LOCK", "b")
    assert one.call("UNLOCK", "a") == ONE
    assert one.call("GET", "stock:1") == NIL
    assert keys(other) == ["b"]
    assert other.call("SELECT", 1) == OK
    assert keys(other) == []


def test_pattern_chooses_as_that_of_keys_does(pair):
    one, _ = pair(VERBS)
    for key in "job:1", "job:2", "task:1":
        one.call("LOCK", key)
    assert keys(one, "job:*") == ["job:1", "job:2"]
    assert keys(one, "*:1") == ["job:1", "task:1"]
    assert keys(one, "[") == []


def test_pattern_is_not_matched_with_long_keys(pair):
    one, _ = pair(VERBS)
    pattern = "a" * 1023 + "*"
    long = [letter * 1025 for letter in "abc"]
    short = ["a" * n for n in (1022, 1023, 1024)]
    for key in long + short:
        one.call("LOCK", key)
    assert keys(one) == sorted(long + short)
    assert keys(one, pattern) == short[1:]
    assert keys(one, "a*") == sorted(long[:1] + short)


def test_pattern_finds_all_keys_though_each_takes_long_to_match(pair):
    one, _ = pair(VERBS)
    locked = [f"{n:03}" + "a" * 1000 for n in range(100)]
    pipeline(one, *(("LOCK", key) for key in locked))
    assert keys(one, "*" + "a" * 1000) == locked


def test_locks_of_other_users_are_not_seen(share_hasp, plain):
    hasp = share_hasp(VERBS)
    for user in "alice", "bob":
        plain.execute_command("ACL", "SETUSER", user, "on", "nopass", "~*", "&*", "+@all")
    with hasp.connect() as alice, hasp.connect() as bob, hasp.connect() as default:
        for user, connection in ("alice", alice), ("bob", bob):
            assert connection.call("AUTH", user, "any") == OK
            connection.call("LOCK", f"k:{user}")
        default.call("LOCK", "k:default")
        assert (keys(alice), keys(bob), keys(default)) == (["k:alice"], ["k:bob"], ["k:default"])


def test_client_that_has_yet_to_log_in_is_told_nothing(start_hasp, plain, redis_server):
    plain.config_set("requirepass", "secret")
    hasp = start_hasp(VERBS, upstream=f"address = unix:{redis_server.unix}\npassword = secret").is_up()
    with hasp.connect() as one, hasp.connect() as stranger:
        assert one.call("AUTH", "secret") == OK
        one.call("LOCK", "k")
        assert stranger.call("LOCK.LIST").startswith(b"-NOAUTH ")
        assert keys(one) == ["k"]


def test_resp3_gets_maps(pair):
    one, other = pair(VERBS)
    assert other.call("HELLO", 3).startswith(b"%")
    one.call("LOCK", "k")
    assert other.call("LOCK.LIST").startswith(b"*1\r\n%9\r\n" + bulk("key") + bulk("k"))


def test_list_is_bounded_and_keeps_its_place_among_the_answers(pair):
    one, other = pair(VERBS)
    one.send(b"".join(encode("LOCK", n) for n in range(1100)))
    for _ in range(1100):
        one.read()
    echo, listed, last = pipeline(other, ("ECHO", "a"), ("LOCK.LIST",), ("ECHO", "b"))
    assert (echo, last) == (bulk("a"), bulk("b"))
    assert len(rows(listed)) == 1000


@pytest.mark.parametrize("command, error", [
    (("LOCK.LIST", "a", "b"), b"-ERR wrong number of arguments for 'lock.list' command\r\n"),
    (("LOCK.LIST", "a" * 1025), b"-ERR the pattern is too long\r\n")])
def test_wrong_arguments_are_answered_in_redis_words(pair, command, error):
    one, _ = pair(VERBS)
    assert pipeline(one, ("ECHO", "a"), command, ("ECHO", "b")) == [bulk("a"), error, bulk("b")]


REFUSED = b"-ERR locks cannot be listed inside MULTI, or after CLIENT REPLY or MONITOR\r\n"


def test_in_a_transaction_it_is_refused(pair):
    one, _ = pair(VERBS)
    replies = pipeline(one, ("MULTI",), ("LOCK.LIST",), ("EXEC",))
    assert replies == [OK, QUEUED, b"*1\r\n" + REFUSED]


def test_after_client_reply_it_is_refused(pair):
    one, _ = pair(VERBS)
    one.send(encode("CLIENT", "REPLY", "OFF") + encode("CLIENT", "REPLY", "ON"))
    assert one.read() == OK
    assert one.call("LOCK.LIST") == REFUSED


@covers("LOCK.LIST", "list")
def test_it_has_the_name_that_the_file_gives(pair):
    one, _ = pair(VERBS + "list = LOCKS")
    assert one.call("locks") == b"*0\r\n"
    assert one.call("LOCK.LIST").startswith(b"-ERR unknown command 'LOCK.LIST'")


def test_client_that_hangs_up_meanwhile_harms_nobody(start_hasp):
    hasp = start_hasp(VERBS, workers=3)
    with hasp.connect() as one:
        one.call("LOCK", "k")
        for _ in range(30):
            with hasp.connect() as other:
                other.send(encode("LOCK.LIST") * 20)
        assert keys(one) == ["k"]
