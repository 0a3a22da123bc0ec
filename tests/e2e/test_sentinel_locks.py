# SPDX-License-Identifier: BSD-3-Clause
"""Locks over a failover, and reloads that change where Redis is."""

import pytest
from harness import RedisServer, encode, until
from harness.failover import leave, until_followed
from harness.marks import covers
from harness.renewal import rises
from harness.replies import OK
from harness.sections import rule
from harness.sentinel import NAME

WAITS = rule(pattern="job:*", wait="60s", lease="60s", renew="yes")


def replicate(sentinels):
    """Waits until the replicas have all writes. Writes a key first, because WAIT covers only its
    own connection."""
    with sentinels.primary().client() as client:
        client.set("replicated", 1)
        assert client.wait(2, 0) == 2


@pytest.mark.parametrize("how", ["failover", "kill"])
def test_those_who_wait_for_a_lock_stand_in_line_at_the_new_primary(start_hasp, sentinels, how):
    """Waiters keep their order at the new primary."""
    hasp = start_hasp(WAITS, upstream=sentinels.upstream + "\nfailover_wait = 60s").is_up()
    holder = hasp.connect()
    assert holder.call("SET", "job:1", "h", "NX") == OK
    replicate(sentinels)
    waiting = []
    for n in range(3):
        c = hasp.connect()
        c.send(encode("SET", "job:1", n, "NX"))
        until(lambda: sentinels.primary().client().zcard("hasp:queue:{job:1}") == n + 1, "the waiter to enter the queue")
        waiting.append(c)
    old, new = leave(sentinels, how)
    until_followed(hasp, new)
    until(lambda: new.client().zcard("hasp:queue:{job:1}") == 3, "the waiters to enter the queue of the new primary")
    for n, c in enumerate(waiting):
        assert holder.call("DEL", "job:1") == b":1\r\n"
        holder.close()
        assert c.read() == OK
        assert new.client().get("job:1") == str(n)
        holder = c
    holder.close()


def test_locks_are_renewed_at_the_new_primary(start_hasp, sentinels):
    hasp = start_hasp(rule(pattern="job:*", lease="20s", renew="yes"), upstream=sentinels.upstream).is_up()
    with hasp.connect() as c:
        assert c.call("SET", "job:1", "h", "NX") == OK
        replicate(sentinels)
        _, new = leave(sentinels, "failover")
        with new.client() as client:
            assert rises(client, 1, "job:1")
        assert c.call("DEL", "job:1") == b":1\r\n"


# --- reloads -------------------------------------------------------------------------------


@covers("address")
def test_reload_goes_from_an_address_to_sentinels_and_back(start_hasp, redis_server, sentinels):
    where = f"address = unix:{redis_server.unix}"
    hasp = start_hasp(upstream=where).is_up()
    with hasp.connect() as plain, hasp.connect() as own:
        assert own.call("SELECT", "1") == OK
        for old, new, server in ((where, sentinels.upstream, sentinels.primary()),
                                 (sentinels.upstream, where, redis_server)):
            ups = hasp.log.count("upstream_up")
            hasp.reload(old, new)
            until(lambda: hasp.log.count("upstream_up") > ups, "hasp's own connection")
            for db, c in enumerate((plain, own)):
                c.call("DEL", "k")
                assert c.call("INCR", "k") == b":1\r\n"
                assert server.client(db=db).get("k") == "1"


@covers("master")
def test_reload_changes_the_master(start_hasp, redis_server, sentinels):
    """The same sentinels also watch a second master."""
    with RedisServer(host=sentinels.host) as other:
        for sentinel in sentinels.sentinels:
            sentinel.ask("SENTINEL", "MONITOR", "other", other.host, other.port, 2)
        hasp = start_hasp(upstream=sentinels.upstream).is_up()
        with hasp.connect() as c:
            assert c.call("SET", "who", "first") == OK
            ups = hasp.log.count("upstream_up")
            hasp.reload(f"master = {NAME}", "master = other")
            until(lambda: hasp.log.count("upstream_up") > ups, "hasp's own connection to the second master")
            assert c.call("SET", "who", "other") == OK
            assert other.client().get("who") == "other"
