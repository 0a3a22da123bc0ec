# SPDX-License-Identifier: BSD-3-Clause
"""If a renewal finds its lock gone or with another owner, hasp logs and counts that, unless the
owner has released the lock."""

import contextlib

import pytest
from harness import until
from harness.renewal import LEASE_MS, rises, rule, verbs
from harness.replies import FENCE, OK, ONE, PONG, QUEUED
from harness.scrape import HTTP, of
from harness.sections import section

KEY = "lock:1"
TAKES = {
    "SETNX": lambda key="lock:1": ("SETNX", key, "v"),
    "SET": lambda key="lock:1": ("SET", key, "v", "NX", "PX", LEASE_MS),
    "LOCK": lambda key="k": ("LOCK", key),
    "EXCLUSIVE": lambda key: ("LOCK", key, "EXCLUSIVE"),
    "SHARED": lambda key: ("LOCK", key, "SHARED"),
    "LIMIT": lambda key: ("LOCK", key, "LIMIT", 2),
}
RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0"


def sections(owner="connection", **settings):
    return rule(owner=owner, renew="yes", **settings) + verbs(**settings)


def lost(hasp, key, reason):
    """Returns the lines of the log that report the lost lock with this reason."""
    return [line for line in hasp.log.splitlines() if "event=lock_lost" in line and f'key="{key}"' in line and f'reason="{reason}"' in line]


def outlive(plain, connection, seconds_of="lock:later"):
    """Renews another lock twice, so that the renewal of the first lock was due, too."""
    assert connection.call("SETNX", seconds_of, "v") == ONE
    assert rises(plain, 3, seconds_of)


@pytest.mark.parametrize("past", ["FLUSHALL", "DEL"])
def test_lock_that_is_gone_is_lost(start_hasp, plain, past):
    hasp = start_hasp(sections() + HTTP)
    keys = {take: ("lock:" if take.startswith("SET") else "") + take for take in TAKES}
    with hasp.connect() as one:
        for take, key in keys.items():
            assert one.call(*TAKES[take](key)) in (OK, ONE, FENCE), take
            assert plain.exists(key)
        plain.flushall() if past == "FLUSHALL" else plain.delete(*keys.values())
        for take, key in keys.items():
            until(lambda: lost(hasp, key, "it is gone"), f"hasp to log the lost lock of {take}")
        assert of(hasp, "hasp_lock_lost_total", "locks", "lock") == 2
        assert of(hasp, "hasp_lock_lost_total", "LOCK", "verbs") == 4
        outlive(plain, one)
        assert [take for take, key in keys.items() if len(lost(hasp, key, "it is gone")) != 1] == []
        assert one.call("PING") == PONG


def test_lock_that_was_retaken_past_hasp_with_its_value_is_lost(start_hasp, plain):
    hasp = start_hasp(sections(on_disconnect="release"))
    with hasp.connect() as one:
        assert one.call("SETNX", "lock:2", "v") == ONE
        assert one.call("SETNX", KEY, "v") == ONE
        plain.set(KEY, "v")
        until(lambda: lost(hasp, KEY, "another owner has it"), "hasp to log the lost lock")
    until(lambda: not plain.exists("lock:2"), "the connection's other lock to be released")
    assert (plain.get(KEY), plain.pttl(KEY)) == ("v", -1)


@pytest.mark.parametrize("owner", ["connection", "value"])
def test_lock_that_another_client_took_after_a_flushall_is_lost(start_hasp, plain, owner):
    """hasp reports a lock as lost even if the client that took it has released it."""
    hasp = start_hasp(sections(owner), workers=1)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", KEY, "a", "NX", "PX", LEASE_MS) == OK
        assert one.call("SET", "lock:2", "a", "NX", "PX", LEASE_MS) == OK
        assert one.call("LOCK", "k") == FENCE
        plain.flushall()
        for key in (KEY, "lock:2"):
            assert other.call("SET", key, "b", "NX", "PX", 60000) == OK
        assert other.call("LOCK", "k") == FENCE
        assert other.call("DEL", "lock:2") == ONE
        for key in (KEY, "k"):
            until(lambda: "lock_lost" in hasp.log and f'key="{key}"' in hasp.log, "hasp to log the lost locks")
        until(lambda: 'event=lock_lost' in hasp.log and 'key="lock:2"' in hasp.log, "hasp to log lock:2 as lost")
        assert plain.get(KEY) == "b"


def by_del(one, other, key):
    assert one.call("DEL", key) == ONE


def by_script(one, other, key):
    assert one.call("EVAL", RELEASE, 1, key, "a") == ONE


def by_script_of_another_connection(one, other, key):
    assert other.call("EVAL", RELEASE, 1, key, "a") == ONE


def by_value_that_another_connection_read(one, other, key):
    other.call("GET", key)
    assert other.call("DEL", key) == ONE


def by_watch(one, other, key):
    assert one.call("WATCH", key) == OK
    assert one.call("MULTI") == OK
    assert one.call("DEL", key) == QUEUED
    assert one.call("EXEC") == b"*1\r\n:1\r\n"


def unheard(one, other, key):
    one.send(b"CLIENT REPLY OFF\r\nDEL " + key.encode() + b"\r\nCLIENT REPLY ON\r\n")
    assert one.read() == OK


def by_another_value(one, other, key):
    assert one.call("SET", key, "b", "XX") == OK


@pytest.mark.parametrize("workers", [1, 4])
def test_lock_that_its_owner_released_is_not_lost(start_hasp, plain, workers):
    hasp = start_hasp(sections("value"), workers=workers)
    with contextlib.ExitStack() as stack:
        for release in (by_del, by_script, by_script_of_another_connection, by_value_that_another_connection_read,
                        by_watch, unheard, by_another_value):
            one, other, key = stack.enter_context(hasp.connect()), stack.enter_context(hasp.connect()), release.__name__
            assert one.call("SET", f"lock:{key}", "a", "NX", "PX", LEASE_MS) == OK
            release(one, other, f"lock:{key}")
        outlive(plain, other)
        assert "lock_lost" not in hasp.log


@pytest.mark.parametrize("workers", [1, 4])
def test_lock_that_another_connection_of_its_owner_released_is_not_lost(start_hasp, plain, workers):
    hasp = start_hasp(sections("address"), workers=workers)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", KEY, "v") == ONE
        assert one.call("LOCK", "k", "AS", "job") == FENCE
        assert other.call("DEL", KEY) == ONE
        assert other.call("UNLOCK", "k", "AS", "job") == ONE
        outlive(plain, other)
        assert "lock_lost" not in hasp.log


def test_lock_that_its_owner_released_after_a_reload_removed_the_rule_is_not_lost(start_hasp, plain):
    kept = verbs() + section("lock kept", {"pattern": "kept:*", "renew": "yes", "lease": f"{LEASE_MS}ms"})
    hasp = start_hasp(rule(renew="yes", on_lost="close") + kept, workers=1)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", KEY, "v") == ONE
        assert one.call("SETNX", "kept:1", "v") == ONE
        assert one.call("LOCK", "k") == FENCE
        hasp.reload("pattern = lock:*", "pattern = unused:*")
        assert one.call("DEL", KEY) == ONE
        outlive(plain, other, "kept:later")
        assert "lock_lost" not in hasp.log
        plain.delete("kept:1", "k")
        for key in ("kept:1", "k"):
            until(lambda: lost(hasp, key, "it is gone"), "hasp to log the lost locks")
        assert one.call("PING") == PONG


@pytest.mark.parametrize("take", ["SETNX", "LOCK"])
def test_on_lost_close_closes_the_connection_of_the_owner(start_hasp, plain, take):
    hasp = start_hasp(sections(on_lost="close"))
    with hasp.connect() as one, hasp.connect() as other:
        assert other.call("SETNX", "lock:2", "v") == ONE
        assert one.call(*TAKES[take]()) in (ONE, FENCE)
        plain.delete(TAKES[take]()[1])
        assert one.at_end()
        assert lost(hasp, TAKES[take]()[1], "it is gone")
        assert other.call("PING") == PONG
        assert rises(plain, 1, "lock:2")
