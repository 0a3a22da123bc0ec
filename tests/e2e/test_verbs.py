# SPDX-License-Identifier: BSD-3-Clause
"""LOCK, UNLOCK, LOCK.EXTEND and LOCK.INFO as two clients see them."""

import re

import pytest
from harness import encode, until
from harness.marks import covers
from harness.replies import FENCE, NIL, NOREPLICAS, OK, ONE, QUEUED, ZERO, bulk
from harness.resp import Connection, pipeline
from harness.sections import VERBS, rule, section, verbs


OTHERS_OWNER = b"-ERR AS names the owner of another client\r\n"


def fields(reply):
    """Returns the fields of LOCK.INFO's reply that are not nil, as a dict of bytes."""
    lines = re.sub(rb"\$\d+\r\n\w+\r\n\$-1\r\n", b"", reply).split(b"\r\n")[1:-1]
    words = [line[1:] if line[:1] == b":" else line for line in lines if line[:1] != b"$"]
    return dict(zip(words[::2], words[1::2]))


@covers("LOCK", "UNLOCK")
def test_lock_and_unlock(pair, plain):
    one, other = pair(VERBS)
    assert one.call("LOCK", "k", "PX", 60000) == FENCE
    assert other.call("LOCK", "k", "PX", 60000) == NIL
    assert 30000 < plain.pttl("k") <= 60000
    assert other.call("UNLOCK", "k") == ZERO
    assert one.call("UNLOCK", "k") == ONE
    assert one.call("UNLOCK", "k") == ZERO
    assert other.call("LOCK", "k", "EX", 60) == FENCE


def test_verbs_in_any_case(pair):
    one, _ = pair(VERBS)
    assert one.call("lock", "k", "px", 1000) == FENCE
    assert one.call("Lock.Extend", "k", "eX", 5) == ONE
    assert one.call("lock.info", "k").startswith(b"*20\r\n")
    assert one.call("unLOCK", "k") == ONE


def test_holds_are_counted(pair):
    one, other = pair(VERBS)
    assert one.call("LOCK", "k") == one.call("LOCK", "k") == FENCE  # the same lock
    assert fields(one.call("LOCK.INFO", "k"))[b"holds"] == b"2"
    assert one.call("UNLOCK", "k") == ONE
    assert other.call("LOCK", "k") == NIL
    assert one.call("UNLOCK", "k") == ONE
    assert other.call("LOCK", "k") == FENCE


@pytest.mark.parametrize("reentrant, second", [("refresh", FENCE), ("no", NIL)])
def test_locks_that_are_not_counted_are_strings(pair, plain, reentrant, second):
    one, other = pair(VERBS + f"reentrant = {reentrant}")
    assert one.call("LOCK", "k", "EX", 10) == FENCE
    assert one.call("LOCK", "k", "EX", 10) == second
    assert plain.type("k") == "string"
    assert other.call("UNLOCK", "k") == ZERO
    assert one.call("UNLOCK", "k") == ONE
    assert other.call("LOCK", "k", "EX", 10) == FENCE


@covers("LOCK.EXTEND")
def test_extend_is_the_owners(pair, plain):
    one, other = pair(VERBS)
    one.call("LOCK", "k", "PX", 5000)
    assert other.call("LOCK.EXTEND", "k", "PX", 90000) == ZERO
    assert plain.pttl("k") <= 5000
    assert one.call("LOCK.EXTEND", "k", "PX", 90000) == ONE
    assert plain.pttl("k") > 80000


@covers("LOCK.INFO")
def test_info_tells_the_holder(pair):
    one, other = pair(VERBS)
    fence = one.call("LOCK", "k", "PX", 60000, "AS", "worker-7")
    told = fields(other.call("LOCK.INFO", "k"))
    assert (told[b"owner"], told[b"holds"], told[b"fence"]) == (b"worker-7", b"1", fence[1:-2])
    assert 50000 < int(told[b"ttl"]) <= 60000
    assert other.call("LOCK.INFO", "free") == NIL


def test_owner_that_a_command_names_holds_across_connections(pair):
    one, other = pair(VERBS)
    assert one.call("LOCK", "k", "AS", "bob") == FENCE
    assert one.call("UNLOCK", "k") == ZERO
    assert other.call("LOCK", "k", "AS", "alice") == NIL
    assert other.call("UNLOCK", "k", "AS", "bob") == ONE


@pytest.mark.parametrize("verb", ["LOCK", "UNLOCK", "LOCK.EXTEND"])
@pytest.mark.parametrize("owner", ["user", "name", "address", "connection"])
def test_owner_that_hasp_made_for_another_client_cannot_be_named(share_hasp, plain, tmp_path, owner, verb):
    hasp = share_hasp(verbs(owner=owner), listen=f"127.0.0.1:0 unix:{tmp_path}/s")
    plain.execute_command("ACL", "SETUSER", "alice", "on", "nopass", "~*", "&*", "+@all")
    with hasp.connect() as alice, Connection(f"{tmp_path}/s") as bob:
        assert alice.call("AUTH", "alice", "any") == alice.call("CLIENT", "SETNAME", "alice") == OK
        assert alice.call("LOCK", "k", "PX", 60000) == FENCE
        name = fields(bob.call("LOCK.INFO", "k"))[b"owner"].decode()
        assert name.startswith(f"{owner}:")
        terms = () if verb == "UNLOCK" else ("PX", 90000)
        assert bob.call(verb, "k", *terms, "AS", name) == OTHERS_OWNER
        assert pipeline(bob, ("MULTI",), (verb, "k", *terms, "AS", name), ("EXEC",))[-1] == b"*1\r\n" + OTHERS_OWNER
        assert plain.pttl("k") <= 60000
        assert alice.call(verb, "k", *terms, "AS", name) == (FENCE if verb == "LOCK" else ONE)


@pytest.mark.parametrize("command", [
    ("LOCK", "lock:1"), ("UNLOCK", "lock:1"), ("UNLOCK", "lock:1", "AS", "v"), ("LOCK.EXTEND", "lock:1", "PX", 9000)])
@pytest.mark.parametrize("owner", ["connection", "value"])
@pytest.mark.parametrize("reentrant", ["count", "no"])
def test_rules_lock_is_not_the_verbs(pair, plain, reentrant, owner, command):
    one, _ = pair(verbs(reentrant=reentrant) + rule(owner=owner))
    assert one.call("SET", "lock:1", "v", "NX", "PX", 60000) == OK
    before = plain.pexpiretime("lock:1")
    assert one.call(*command) == (b"-ERR the key has a [lock] rule: SET takes its lock, DEL releases it, "
                                  b"EXPIRE extends it\r\n")
    assert plain.pexpiretime("lock:1") == before
    assert one.call("DEL", "lock:1") == ONE


@pytest.mark.parametrize("owner, name", [
    ("connection", b"connection:"), ("address", b"address:127.0.0.1"), ("name", b"name:one"),
    ("user", b"user:default"), ("value", b"v w")])
def test_info_tells_the_holder_of_a_rules_lock(pair, owner, name):
    one, other = pair(VERBS + rule(owner=owner, wait="50ms"))
    assert one.call("CLIENT", "SETNAME", "one") == OK
    assert one.call("SET", "lock:1", "v w", "NX", "PX", 60000) == OK
    told = fields(other.call("LOCK.INFO", "lock:1"))
    assert told[b"owner"].startswith(name)
    assert (told[b"holds"], told[b"waiters"]) == (b"1", b"0")
    assert b"fence" not in told and 0 < int(told[b"ttl"]) <= 60000
    assert other.call("LOCK.INFO", "lock:2") == NIL


def test_info_tells_no_owner_of_a_rules_lock_that_is_nobodys(pair, plain):
    one, _ = pair(VERBS + rule())
    assert one.call("HELLO", 3).startswith(b"%")
    plain.set("lock:1", "v", px=60000)
    assert b"$5\r\nowner\r\n_\r\n" in one.call("LOCK.INFO", "lock:1")


def test_info_tells_the_holder_of_a_guard(pair, plain):
    one, other = pair(VERBS + section("guard g", {"pattern": "g:*", "acquire_on": "GET"}))
    assert one.call("GET", "g:1") == NIL
    told = fields(other.call("LOCK.INFO", "g:1"))
    assert told[b"owner"] == plain.get("hasp:guard:{g:1}").encode()
    other.send(encode("GET", "g:1"))
    until(lambda: fields(one.call("LOCK.INFO", "g:1"))[b"waiters"] == b"1", "the second client to wait")
    assert one.call("SET", "g:1", "v") == OK
    assert other.read() == bulk("v")
    told = fields(one.call("LOCK.INFO", "g:1"))
    assert told[b"owner"] == plain.get("hasp:guard:{g:1}").encode()


def test_fencing_tokens_rise_over_all_keys_and_connections(pair):
    one, other = pair(VERBS)
    tokens = []
    for n in range(10):
        for connection in (one, other):
            tokens.append(int(connection.call("LOCK", f"k{n % 3}")[1:]))
            assert connection.call("UNLOCK", f"k{n % 3}") == ONE
    assert tokens == sorted(set(tokens))


def test_fencing_tokens_rise_though_redis_forgets_them(share_hasp, redis_server, plain):
    hasp, tokens = share_hasp(VERBS), []
    for forget in ([], [plain.flushall], [redis_server.kill, redis_server.start]):
        for step in forget:
            step()
        with hasp.connect() as one:
            assert plain.dbsize() == 0
            tokens.append(int(one.call("LOCK", "k")[1:]))
    assert tokens == sorted(set(tokens))


def test_lock_in_a_transaction_by_verb(pair, plain):
    one, other = pair(VERBS)
    assert pipeline(one, ("MULTI",), ("LOCK", "k"), ("SET", "data", 1), ("EXEC",)) == [
        OK, QUEUED, QUEUED, b"*2\r\n:%s\r\n+OK\r\n" % plain.get("hasp:fence").encode()]
    assert other.call("LOCK", "k") == NIL
    assert pipeline(one, ("MULTI",), ("UNLOCK", "k"), ("EXEC",))[-1] == b"*1\r\n:1\r\n"


@pytest.mark.parametrize("command, error", [
    (("LOCK",), b"-ERR wrong number of arguments for 'lock' command\r\n"),
    (("LOCK", "k", "PX"), b"-ERR syntax error\r\n"),
    (("LOCK", "k", "PX", "x"), b"-ERR value is not an integer or out of range\r\n"),
    (("LOCK", "k", "PX", "0"), b"-ERR invalid expire time in 'lock' command\r\n"),
    (("LOCK.EXTEND", "k"), b"-ERR wrong number of arguments for 'lock.extend' command\r\n"),
    (("UNLOCK", "k", "NOW", "1"), b"-ERR syntax error\r\n"),
    (("LOCK.INFO",), b"-ERR wrong number of arguments for 'lock.info' command\r\n"),
])
def test_verb_that_is_wrong_is_answered_in_redis_words(pair, command, error):
    one, _ = pair(VERBS)
    assert pipeline(one, ("ECHO", "a"), command, ("ECHO", "b")) == [bulk("a"), error, bulk("b")]


@covers("extend", "info", "lock", "unlock")
def test_verbs_have_the_names_that_the_file_gives(pair):
    one, _ = pair(VERBS + "lock = GRAB\nunlock = LET.GO\ninfo = WHO\nextend = MORE")
    assert one.call("GRAB", "k", "PX", 5000) == FENCE
    assert one.call("more", "k", "PX", 60000) == ONE
    assert one.call("WHO", "k").startswith(b"*20\r\n")
    assert one.call("let.go", "k") == ONE
    assert one.call("LOCK", "k").startswith(b"-ERR unknown command 'LOCK'")


def test_without_verbs_redis_answers(pair):
    one, _ = pair(rule())
    assert one.call("LOCK", "k").startswith(b"-ERR unknown command 'LOCK'")


@pytest.mark.parametrize("kind", [(), ("LIMIT", 2), ("SHARED",), ("EXCLUSIVE",)], ids=str)
def test_lease_that_no_script_can_count_is_refused_before_it_runs(pair, plain, kind):
    one, _ = pair(VERBS)
    most, more = 10 ** 15, 2 * 10 ** 17
    for time in (("PX", more), ("EX", more // 1000), ("PX", most + 1)):
        assert one.call("LOCK", "k", *kind, *time) == b"-ERR invalid expire time in 'lock' command\r\n"
        assert not plain.exists("k")
    assert one.call("MLOCK", 2, "a", "b", "PX", more) == b"-ERR invalid expire time in 'mlock' command\r\n"
    for _ in range(2):
        assert one.call("LOCK", "k", *kind, "PX", 20000) == FENCE
    assert one.call("LOCK.EXTEND", "k", "PX", more) == b"-ERR invalid expire time in 'lock.extend' command\r\n"
    assert 0 < plain.pttl("k") <= 20000
    assert one.call("LOCK.EXTEND", "k", "PX", most) == ONE
    assert plain.pttl("k") > most - 60000
    assert one.call("UNLOCK", "k") == ONE


@pytest.mark.parametrize("kind", [(), ("SHARED",), ("EXCLUSIVE",), ("LIMIT", 2)], ids=str)
def test_refusal_of_redis_does_not_name_hasps_script(pair, plain, kind):
    one, _ = pair(verbs(lease="600s"))
    for _ in range(2):
        assert one.call("LOCK", "k", *kind, "AS", "me") == FENCE
        plain.config_set("min-replicas-to-write", 1)
        for command in (("LOCK", "k", *kind), ("UNLOCK", "k"), ("MUNLOCK", 1, "k"), ("MUNLOCK", 2, "free", "k"),
                        ("LOCK.EXTEND", "k", "PX", 600000)):
            assert one.call(*command, "AS", "me") == NOREPLICAS, command
        plain.config_set("min-replicas-to-write", 0)


def test_lock_of_redisson_layout_is_respected(pair, plain):
    """The lock is stored as Redisson's RLock stores it."""
    one, _ = pair(VERBS)
    plain.hset("k", "285475da-9152-4c83-822a-67ee2f116a79:52", 1)
    plain.pexpire("k", 30000)
    assert one.call("LOCK", "k") == NIL
    assert fields(one.call("LOCK.INFO", "k"))[b"owner"].startswith(b"285475da")
    assert one.call("UNLOCK", "k") == ZERO


def test_unlock_tells_redissons_waiters(pair, plain):
    one, _ = pair(VERBS)
    with plain.pubsub() as waiter:
        waiter.subscribe("redisson_lock__channel:{k}")
        until(lambda: waiter.get_message(), "the subscription")
        one.call("LOCK", "k")
        one.call("UNLOCK", "k")
        message = until(lambda: waiter.get_message(), "the message")
    assert message["data"] == "0"
