# SPDX-License-Identifier: BSD-3-Clause
"""Locks survive crashes of Redis, hasp and clients: a short run of tests/fuzz/chaos.

The campaign also finds each planted defect.
"""

import sys

import pytest
from harness import TOP, RedisServer, until
from harness.campaigns import TESTER, UNTIL_FOUND, campaign, until_found

sys.path.insert(0, str(TOP / "tests" / "fuzz"))

from watcher import Watcher  # noqa: E402


@pytest.mark.parametrize("pooling", ["shared", pytest.param("session", marks=pytest.mark.nightly)])
def test_locks_survive_chaos(pooling):
    status, output = campaign("chaos", "--seconds", 8, "--clients", 8, "--pooling", pooling)
    assert status == 0, output[-4000:]


@UNTIL_FOUND
@pytest.mark.parametrize("fault, finding", [
    ("none", "lock without an expiry"),
    ("leak", "descriptors not given back"),
    ("hang", "hung: no reply"),
])
def test_tester_finds_a_proxy_with(fault, finding):
    until_found(finding, "chaos", "--seconds", 3, "--clients", 6, "--proxy", fault)


@TESTER
@pytest.mark.parametrize("command, finding", [
    (("SET", "lock:a", 1), "lock without an expiry: lock:a"),
    (("HSET", "verb:a", "token", 1), "verb lock without an expiry: verb:a"),
    (("SET", "hasp:owner:{lock:a}", "token"), "sidecar without an expiry: hasp:owner:{lock:a}"),
    (("SET", "hasp:owner:{lock:a}", "token", "EX", 9), "sidecar outlives its lock: hasp:owner:{lock:a}"),
])
def test_watcher_finds(command, finding):
    with RedisServer() as redis:
        watcher = Watcher(redis, lease=0.2, slack=0.1).start()
        redis.client().execute_command(*command)
        try:
            until(lambda: finding in watcher.faults, finding)
        finally:
            watcher.stop()


@TESTER
def test_watcher_is_content_with_locks_that_are_right():
    with RedisServer() as redis:
        with redis.client() as client:
            client.set("lock:a", 1, ex=9)
            client.set("hasp:owner:{lock:a}", "token 1", ex=9)
            client.hset("lock:not-a-string", "f", "v")
            client.zadd("hasp:owner:{verb:a}", {"1 ticket": 1})
            client.expire("hasp:owner:{verb:a}", 60)
        watcher = Watcher(redis, lease=0.01, slack=0.01).start()
        until(lambda: watcher.looks > 20, "the watcher to look")
        assert watcher.stop() == set()
