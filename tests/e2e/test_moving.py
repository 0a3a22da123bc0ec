# SPDX-License-Identifier: BSD-3-Clause
"""The host name of Redis moves to another address, while the old server lives."""

import signal

import pytest
from harness import RedisServer, encode, until
from harness.info import clients
from harness.marks import BOTH, covers
from harness.nodes import private_address
from harness.replies import NIL, OK
from harness.sections import rule

FIRST, SECOND = b"$5\r\nfirst\r\n", b"$6\r\nsecond\r\n"


@pytest.fixture
def servers():
    """Two servers with the same port at two addresses; the key `who` tells them apart."""
    with RedisServer(host=private_address()) as first:
        with RedisServer(host=private_address(), port=first.port) as second:
            first.client().set("who", "first")
            second.client().set("who", "second")
            yield first, second


@pytest.fixture
def start_named(start_hasp, servers, hosts):
    """start(every) starts a hasp for a host name that leads to the first server, and is resolved at
    that interval."""
    def start(every="200ms", rules="", **options):
        hosts.move(servers[0].host)
        upstream = f"{hosts.name}:{servers[0].port}\ndns_max_ttl = {every}"
        return start_hasp(rules, upstream=upstream, within=hosts.within, **options).is_up()

    return start


def has_moved(hasp):
    until(lambda: "upstream_moved" in hasp.log, "hasp to log the new address")
    until(lambda: hasp.log.count("upstream_up") >= 2, "hasp's own connection to the new address")


@covers("dns_max_ttl")
@BOTH
def test_clients_at_rest_go_to_the_new_address_and_do_not_notice(start_named, servers, hosts, pooling):
    hasp = start_named(pooling=pooling)
    with hasp.connect() as one, hasp.connect() as selected:
        assert one.call("GET", "who") == FIRST
        assert selected.call("SELECT", 3) == OK and selected.call("GET", "who") == NIL
        servers[1].client(db=3).set("who", "second")
        hosts.move(servers[1].host)
        has_moved(hasp)
        assert one.call("GET", "who") == SECOND
        assert selected.call("GET", "who") == SECOND
        with hasp.connect() as new:
            assert new.call("GET", "who") == SECOND
    assert not [c for c in clients(servers[0].client()) if c["name"].startswith("hasp")]


@BOTH
def test_no_write_goes_to_the_old_server_once_hasp_knows(start_named, servers, hosts, pooling):
    hasp = start_named(pooling=pooling)
    with hasp.connect() as one:
        hosts.move(servers[1].host)
        written = 0
        while "upstream_moved" not in hasp.log or written < 100:
            assert one.call("INCR", "n").startswith(b":")
            written += 1
        at_old = int(servers[0].client().get("n") or 0)
        for _ in range(100):
            assert one.call("INCR", "n").startswith(b":")
        assert int(servers[0].client().get("n") or 0) == at_old
        assert at_old + int(servers[1].client().get("n")) == written + 100


@pytest.mark.parametrize("commands", [
    [("SUBSCRIBE", "c")], [("BLPOP", "list", 0)], [("MONITOR",)],
    [("CLIENT", "TRACKING", "ON"), ("BLPOP", "list", 0)]])
def test_clients_that_listen_or_block_at_the_old_address_are_closed(start_named, servers, hosts, commands):
    hasp = start_named()
    with hasp.connect() as one:
        one.send(b"".join(encode(*command) for command in commands))
        until(lambda: clients(servers[0].client(), cmd=commands[-1][0].lower()), "Redis to have the command")
        hosts.move(servers[1].host)
        has_moved(hasp)
        one.file.read()  # until hasp closes the client


def test_client_that_cannot_move_takes_no_lock_at_the_old_address(start_named, servers, hosts):
    """hasp closes the client as soon as Redis owes it no reply."""
    hasp = start_named(rules=rule())
    with hasp.connect() as one:
        assert one.call("CLIENT", "TRACKING", "ON") == OK
        with servers[0].frozen():
            one.send(encode("GET", "who"))
            hosts.move(servers[1].host)
            has_moved(hasp)
            one.send(encode("SET", "lock:a", "v", "NX"))
            hasp.take_turn()
        assert one.read() == FIRST
        assert one.at_end()
    assert not servers[0].client().exists("lock:a")


@pytest.mark.parametrize("begin", [("WATCH", "k"), ("MULTI",)])
def test_client_that_cannot_move_is_closed_after_its_transaction(start_named, servers, hosts, begin):
    hasp = start_named(rules=rule())
    with hasp.connect() as one:
        assert one.call("CLIENT", "TRACKING", "ON") == OK
        assert one.call(*begin) == OK
        hosts.move(servers[1].host)
        has_moved(hasp)
        if begin == ("WATCH", "k"):
            assert one.call("GET", "who") == FIRST
            assert one.call("MULTI") == OK
        assert one.call("SET", "lock:a", "v", "NX") == b"+QUEUED\r\n"
        assert one.call("EXEC") == b"*1\r\n+OK\r\n"
        assert one.at_end()


@covers("upstream_moved")
def test_sighup_with_the_same_file_resolves_the_name_again(start_named, servers, hosts):
    hasp = start_named(every="1h")
    with hasp.connect() as one:
        assert one.call("GET", "who") == FIRST
        hosts.move(servers[1].host)
        hasp.signal(signal.SIGHUP)
        has_moved(hasp)
        assert one.call("GET", "who") == SECOND


def resolve_again(hasp, hosts, *addresses):
    """Removes the name until hasp has logged that, and then gives it these addresses."""
    hosts.move()
    until(lambda: "upstream_name_failed " in hasp.log, "hasp to log that the name is not found")
    hosts.move(*addresses)
    until(lambda: "upstream_name_recovered" in hasp.log, "hasp to log that the name is found again")


@covers("upstream_name_failed", "upstream_name_recovered")
def test_name_that_is_gone_leaves_hasp_where_it_is(start_named, servers, hosts):
    hasp = start_named()
    with hasp.connect() as one:
        assert one.call("GET", "who") == FIRST
        resolve_again(hasp, hosts, servers[0].host)
        assert one.call("GET", "who") == FIRST
    assert "upstream_moved" not in hasp.log and hasp.log.count("upstream_up") == 1


def test_further_addresses_of_the_name_change_nothing(start_named, servers, hosts):
    hasp = start_named()
    with hasp.connect() as one:
        assert one.call("GET", "who") == FIRST
        resolve_again(hasp, hosts, servers[1].host, servers[0].host)
        assert one.call("GET", "who") == FIRST
    assert "upstream_moved" not in hasp.log
