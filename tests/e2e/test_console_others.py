# SPDX-License-Identifier: BSD-3-Clause
"""SHOW LOCKS ALL tells also of the locks that other hasps have, as Redis knows them."""

import pytest
import redis as redis_py
from harness import until
from harness.line import stand
from harness.replies import NIL, OK
from harness.resp import pipeline
from harness.sections import VERBS, rule

RULES = rule(owner="name", wait="60s", renew="yes") + rule("values", pattern="value:*", owner="value") + VERBS


@pytest.fixture
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("c") / "admin.sock"


def show(path, what="LOCKS ALL"):
    with redis_py.Redis(unix_socket_path=str(path), decode_responses=True) as console:
        rows = console.execute_command("SHOW", *what.split())
    return [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]


def by_key(rows):
    assert all("key" in row for row in rows), rows
    assert len({row["key"] for row in rows}) == len(rows)
    return {row["key"]: row for row in rows}


@pytest.fixture
def hasps(start_hasp, path):
    """hasps(sections, ...) starts two in front of one Redis; the first has a console."""
    def start(sections=RULES, **options):
        return [start_hasp(sections + more, workers=2, **options).is_up(2)
                for more in (f"[admin]\nlisten = unix:{path}\n", "")]

    return start


def test_locks_of_rules_and_verbs_at_both_are_told_each_with_its_owner(hasps, path, plain):
    one, other = hasps()
    with one.connect() as a, other.connect() as b, other.connect() as waiter:
        assert a.call("CLIENT", "SETNAME", "shop") == OK and b.call("CLIENT", "SETNAME", "till") == OK
        for who, connection in ("a", a), ("b", b):
            assert connection.call("SET", f"lock:{who}", "v", "NX") == OK
            assert connection.call("SET", f"value:{who}", "secret", "NX", "PX", 60_000) == OK
        fences = {who: int(connection.call("LOCK", f"job {who}", "PX", 60_000)[1:])
                  for who, connection in (("a", a), ("b", b))}
        stand(plain, waiter, "SET", "lock:b", "w", "NX")
        locks = by_key(show(path))
        assert locks.keys() == {f"{kind}{who}" for kind in ("lock:", "value:", "job ") for who in "ab"}
        assert {row["hasp"] for key, row in locks.items() if key.endswith("a")} == {"this"}
        assert len({tuple(row) for row in locks.values()}) == 1  # the same columns
        lock, value, job = locks["lock:b"], locks["value:b"], locks["job b"]
        assert (lock["kind"], lock["rule"], lock["owner"], lock["waiters"]) == ("lock", "locks", "name:till", 1)
        assert (value["kind"], value["rule"], value["owner"]) == ("lock", "values", "")
        assert (job["kind"], job["rule"], job["fence"]) == ("verbs", "LOCK", fences["b"])
        # A connection's token names its address, and what makes it a secret is not told.
        assert job["owner"] == "%s:%d" % b.sock.getsockname()
        for row in lock, value, job:
            assert (row["hasp"], row["client"], row["client_id"], row["held_ms"], row["renewed"], row["db"]) == \
                ("other", None, 0, -1, None, 0)
            assert 0 < row["lease_ms"] <= 60_000
        assert by_key(show(path, "LOCKS")).keys() == {"lock:a", "value:a", "job a"}


def test_each_owner_of_a_semaphore_and_of_a_read_write_lock_is_told(hasps, path):
    one, other = hasps(VERBS)
    with one.connect() as a, other.connect() as b, other.connect() as c:
        fences = set()
        for connection in a, b, c:
            fences.add(int(connection.call("LOCK", "places", "LIMIT", 3, "PX", 60_000)[1:]))
            fences.add(int(connection.call("LOCK", "book", "SHARED", "PX", 60_000)[1:]))
        fences.add(int(b.call("LOCK", "log", "EXCLUSIVE", "PX", 60_000)[1:]))
        fences.add(int(b.call("LOCK", "log", "SHARED", "PX", 60_000)[1:]))
        assert min(fences) > 0 and len(fences) == 8
        rows = show(path)
        assert {row["fence"] for row in rows} == fences and len(rows) == len(fences)
        assert sorted((row["key"], row["hasp"]) for row in rows) == \
            [("book", "other"), ("book", "other"), ("book", "this"), ("log", "other"), ("log", "other"),
             ("places", "other"), ("places", "other"), ("places", "this")]
        assert all(0 < row["lease_ms"] <= 60_000 for row in rows)


def test_locks_in_all_databases_and_in_both_layouts_are_told(start_hasp, path):
    start_hasp(VERBS + f"[admin]\nlisten = unix:{path}\n").is_up()
    other = start_hasp("[verbs]\nreentrant = refresh\n").is_up()
    with other.connect() as b:
        for db in 0, 3, 15:
            assert b.call("SELECT", db) == OK
            b.call("LOCK", "k{", "PX", 60_000)
        assert sorted((row["key"], row["db"]) for row in show(path)) == [("k{", 0), ("k{", 3), ("k{", 15)]


def test_a_renewed_lock_that_nothing_but_its_value_tells_of_is_told(hasps, path, plain):
    _, other = hasps(rule("values", pattern="value:*", owner="value", renew="yes", lease="3s"))
    with other.connect() as b:
        assert b.call("SET", "value:1", "secret", "NX") == OK
        plain.set("value:app", "x")  # as a lock that was taken past hasp
        until(lambda: not plain.exists("hasp:fence:{value:1}"), "its record to end")
        locks = by_key(show(path))
        assert locks["value:1"]["hasp"] == "other" and "secret" not in str(locks)
        assert locks["value:app"]["lease_ms"] == -1


def test_what_is_released_or_no_lock_of_a_hasp_is_not_told(hasps, path, plain):
    _, other = hasps()
    with other.connect() as b:
        b.call("LOCK", "gone")
        b.call("UNLOCK", "gone")
        assert b.call("SET", "lock:gone", "v", "NX") == OK and b.call("DEL", "lock:gone") == b":1\r\n"
        plain.set("lock:past", "v")
        plain.hset("job", "3a1b:1", 1)  # as Redisson has it
        plain.set("hasp:fence:odd", "text")
        plain.lpush("hasp:owner:{list}", "x")
        plain.set("list", "v")
        assert show(path) == []


def test_many_locks_among_many_keys_are_told_each_once(hasps, path, plain):
    one, other = hasps(VERBS)
    number = 1500
    plain.mset({f"key:{i}": "v" for i in range(20_000)})
    with one.connect() as a, other.connect() as b:
        for connection, who in (a, "a"), (b, "b"):
            replies = pipeline(connection, *(("LOCK", f"{who}{i}", "PX", 600_000) for i in range(number)))
            assert NIL not in replies
        locks = by_key(show(path))
        assert {key: row["hasp"] for key, row in locks.items()} == \
            {f"{who}{i}": hasp for who, hasp in (("a", "this"), ("b", "other")) for i in range(number)}


def test_more_than_are_told_are_cut_and_that_is_said(hasps, path):
    _, other = hasps(VERBS)
    with other.connect() as b:
        pipeline(b, *(("LOCK", f"k{i}", "PX", 600_000) for i in range(10_050)))
        *locks, missing = show(path)
        assert len(by_key(locks)) <= 10_000
        # (On a machine that is busy enough.)
        reason = "there are more" if len(locks) == 10_000 else "it takes too long"
        assert missing["not_looked_at"].endswith(f"redis.sock: {reason}")


def test_what_redis_does_not_let_hasp_look_at_is_said(hasps, path, plain, redis_server):
    plain.acl_setuser("hasp", enabled=True, passwords=["+secret"], keys=["*"], channels=["*"],
                      commands=["+@all", "-scan"])
    one, other = hasps(VERBS, upstream=f"address = unix:{redis_server.unix}\nuser = hasp\npassword = secret")
    with one.connect() as a, other.connect() as b:
        a.call("LOCK", "mine")
        b.call("LOCK", "other's")
        mine, missing = show(path)
        assert (mine["key"], mine["hasp"]) == ("mine", "this")
        assert list(missing) == ["not_looked_at"]
        assert missing["not_looked_at"].startswith(f"unix:{redis_server.unix}: NOPERM ")


def test_all_primaries_of_a_cluster_are_looked_through(hasps, path, shared_cluster):
    one, other = hasps(VERBS, upstream=shared_cluster.upstream)
    with one.connect() as a, other.connect() as b:
        keys = [f"k{i}" for i in range(20)] + ["a}b", "{}a"]
        for key in keys:
            b.call("LOCK", key, "PX", 600_000)
            a.call("LOCK", f"own {key}", "PX", 600_000)
        locks = by_key(show(path))
        assert {key for key, row in locks.items() if row["hasp"] == "other"} == set(keys)
        assert {key for key, row in locks.items() if row["hasp"] == "this"} == {f"own {key}" for key in keys}
        assert len({shared_cluster.owner(key) for key in keys}) == len(shared_cluster.primaries())
