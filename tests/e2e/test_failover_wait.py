# SPDX-License-Identifier: BSD-3-Clause
"""failover_wait with one address: clients wait while Redis restarts. Other tests are about a Redis
that is a replica, and about an address that leads to another server."""

import contextlib

import pytest
from harness import RedisServer, encode, until
from harness.info import calls
from harness.marks import covers
from harness.relay import Relay
from harness.replies import OK, PONG


def upstream(redis_server, wait):
    return f"address = unix:{redis_server.unix}\nfailover_wait = {wait}"


@covers("failover_wait")
def test_clients_wait_for_a_redis_that_restarts(start_hasp, redis_server):
    hasp = start_hasp(upstream=upstream(redis_server, "60s")).is_up()
    with hasp.connect() as idle, hasp.connect() as own, hasp.connect() as waiting:
        assert idle.call("PING") == PONG and own.call("SELECT", "2") == OK
        redis_server.kill()
        waiting.send(encode("INCR", "n"))
        hasp.take_turn()
        redis_server.start()
        assert waiting.read() == b":1\r\n"
        assert idle.call("INCR", "n") == b":2\r\n"
        assert own.call("INCR", "n") == b":1\r\n"
        assert redis_server.client(db=2).get("n") == "1"


def test_clients_that_wait_in_vain_are_told_why(start_hasp, redis_server):
    hasp = start_hasp(upstream=upstream(redis_server, "100ms")).is_up()
    redis_server.kill()
    with hasp.connect() as c:
        assert c.call("PING").startswith(b"-ERR hasp: upstream unix:")
        assert c.at_end()


def test_client_in_a_transaction_does_not_go_on(start_hasp, redis_server):
    hasp = start_hasp(upstream=upstream(redis_server, "60s")).is_up()
    with hasp.connect() as c:
        assert c.call("MULTI") == OK
        redis_server.kill()
        assert c.at_end()


BAD = {  # Redis answers the beginning of such a request with an error, and closes
    "a_long_request": b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870913\r\n" + b"x" * 2**16,
    "what_is_no_request": b"*x\r\n",
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_client_whose_request_redis_does_not_take_is_closed(start_hasp, redis_server, bad):
    hasp = start_hasp(upstream=upstream(redis_server, "60s")).is_up()
    with hasp.connect() as c:
        assert c.call("PING") == PONG
        c.send(bad)
        assert c.read().startswith(b"-ERR Protocol error: invalid ")
        # Redis may have closed the connection before these bytes.
        with contextlib.suppress(ConnectionError):
            c.send(b"x" * 2**16)
        assert c.at_end()
    with hasp.connect() as c:
        assert c.call("PING") == PONG


def test_login_is_replayed_where_redis_restarts(start_hasp, redis_server):
    """A client whose login is no longer accepted gets Redis' error."""
    hasp = start_hasp(upstream=upstream(redis_server, "60s")).is_up()
    options = redis_server.options
    with hasp.connect() as c, hasp.connect() as other:
        for one in (c, other):
            redis_server.client().acl_setuser("app", enabled=True, passwords=["+secret"], keys=["*"], commands=["+@all"])
            assert one.call("AUTH", "app", "secret") == OK and one.call("SELECT", "1") == OK
        redis_server.kill()
        redis_server.options = (*options, "--user", "app", "on", ">secret", "~*", "+@all")
        redis_server.start()
        assert c.call("ACL", "WHOAMI") == b"$3\r\napp\r\n"
        redis_server.kill()
        redis_server.options = options
        redis_server.start()
        assert other.call("PING").startswith(b"-WRONGPASS ")


@pytest.fixture
def replica(redis_server):
    with RedisServer("--replicaof", f"127.0.0.1 {redis_server.port}") as server:
        until(lambda: server.client().info("replication")["master_link_status"] == "up", "the replica")
        yield server


def test_replica_is_served_as_it_is(start_hasp, replica):
    """hasp passes a replica's READONLY errors on, and does not close its clients."""
    hasp = start_hasp(upstream=f"unix:{replica.unix}").is_up()
    with hasp.connect() as c, hasp.connect() as watching:
        assert watching.call("MULTI") == OK
        for _ in range(3):
            assert c.call("SET", "k", "v").startswith(b"-READONLY ")
        hasp.take_turn()
        assert c.call("GET", "k") == b"$-1\r\n"
        assert watching.call("EXEC") == b"*0\r\n"
    assert hasp.log.count("upstream_up") == 1


def test_script_that_only_says_readonly_moves_nobody(start_hasp, plain):
    hasp = start_hasp().is_up()
    with hasp.connect() as c, hasp.connect() as subscriber:
        subscriber.call("SUBSCRIBE", "news")
        asked = calls(plain, "role")
        for _ in range(3):
            assert c.call("EVAL", "return redis.error_reply('READONLY so I say')", "0").startswith(b"-READONLY so")
        until(lambda: calls(plain, "role") > asked, "hasp to ask Redis for its role")
        hasp.take_turn()
        assert c.call("PUBLISH", "news", "x") == b":1\r\n" and b"message" in subscriber.read()
    assert hasp.log.count("upstream_up") == 1


def test_address_that_leads_to_another_server_is_noticed_at_the_first_refusal(start_hasp, redis_server, replica):
    """The old primary is alive as a replica; the address now leads to the new primary."""
    with Relay(("127.0.0.1", redis_server.port)) as relay:
        hasp = start_hasp(upstream=f"address = {relay.address}\nserver_check_delay = 0").is_up()
        with hasp.connect() as shared, hasp.connect() as own:
            assert shared.call("PING") == PONG and own.call("SELECT", "1") == OK
            replica.client().replicaof("NO", "ONE")
            redis_server.client().replicaof("127.0.0.1", replica.port)
            relay.target = ("127.0.0.1", replica.port)
            answers = set()
            for c in (shared, own):
                until(lambda: answers.add(c.call("SET", "k", "v")) or OK in answers, "a write to succeed")
                assert all(a == OK or a.startswith(b"-READONLY ") for a in answers)
                answers.clear()
            assert replica.client().get("k") == replica.client(db=1).get("k") == "v"
