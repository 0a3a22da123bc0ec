# SPDX-License-Identifier: BSD-3-Clause
"""A partitioned sentinel names an old primary, which may still think that it is the primary."""

import contextlib
import socketserver
import threading

import pytest
from harness import RedisServer, encode, until
from harness.announcer import NAME, Announcer
from harness.marks import covers
from harness.replies import OK


@pytest.fixture(scope="module")
def servers():
    """Yields two independent servers, the old and the new primary."""
    with RedisServer() as old, RedisServer() as new:
        yield old, new


@pytest.fixture
def sentinels(servers):
    """Yields three sentinels, which all name the old primary."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(Announcer(servers[0])) for _ in range(3)]


def upstream(sentinels):
    return f"sentinels = {' '.join(s.address for s in sentinels)}\nmaster = {NAME}\nfailover_wait = 60s"


def learn(sentinels, server):
    """Makes the sentinels name another primary, with a higher epoch, without announcing it."""
    for sentinel in sentinels:
        sentinel.primary, sentinel.epoch = server, sentinel.epoch + 1


def named(hasp):
    """Returns the ports of the primaries that hasp found, in order."""
    return [line.rpartition(":")[2] for line in hasp.log.splitlines() if " primary master=" in line]


def until_asked(sentinels, times):
    before = [sentinel.asked for sentinel in sentinels]
    until(lambda: all(s.asked >= n + times for s, n in zip(sentinels, before, strict=True)), "hasp to ask all sentinels")


def until_writes_reach(server, hasp):
    """Waits until hasp has followed the sentinels to the server."""
    def written():
        # If hasp follows while a command is in flight, it closes that command's client.
        with contextlib.suppress(OSError, EOFError), hasp.connect() as c:
            return c.call("SET", "k", "written") == OK and server.client().get("k")
        return False

    until(written, "hasp to follow the two other sentinels")


@pytest.mark.parametrize("stale", range(3))
def test_hasp_that_starts_believes_the_one_that_knows_of_the_last_failover(start_hasp, servers, sentinels, stale):
    learn([s for n, s in enumerate(sentinels) if n != stale], servers[1])
    hasp = start_hasp(upstream=upstream(sentinels)).is_up()
    with hasp.connect() as c:
        assert c.call("SET", "k", stale) == OK
    assert servers[1].client().get("k") == str(stale) and servers[0].client().get("k") is None
    assert named(hasp) == [str(servers[1].port)]


def test_one_that_heard_of_nothing_does_not_keep_hasp_at_the_old_primary(start_hasp, servers, sentinels):
    """The outdated sentinel is the first in hasp's list."""
    hasp = start_hasp(upstream=upstream(sentinels)).is_up()
    until_asked(sentinels, 1)
    learn(sentinels[1:], servers[1])
    until_writes_reach(servers[1], hasp)
    with hasp.connect() as c:
        servers[0].client().flushall()
        until_asked(sentinels, 2)
        assert c.call("SET", "k", "w") == OK
    assert servers[1].client().get("k") == "w" and servers[0].client().get("k") is None
    assert named(hasp) == [str(server.port) for server in servers]


@covers("no_primary")
def test_newest_word_does_not_count_where_that_server_says_it_is_a_replica(start_hasp, servers, sentinels):
    hasp = start_hasp(upstream=upstream(sentinels)).is_up()
    with RedisServer("--replicaof", f"127.0.0.1 {servers[0].port}") as replica:
        learn(sentinels[1:], replica)
        until(lambda: "no_primary " in hasp.log, "hasp to log no_primary")
        with hasp.connect() as c:
            c.send(encode("SET", "k", "v"))
            asked = sum(sentinel.asked for sentinel in sentinels)
            until(lambda: sum(sentinel.asked for sentinel in sentinels) > asked + 2, "two more questions of hasp")
            assert named(hasp) == [str(servers[0].port)]
            replica.client().replicaof("NO", "ONE")
            assert c.read() == OK
        assert replica.client().get("k") == "v"


class Thief(socketserver.ThreadingTCPServer):
    """A server that claims to be a primary, and records the passwords that it gets."""

    daemon_threads = True

    def __init__(self):
        self.passwords = []
        thief = self

        class Connection(socketserver.StreamRequestHandler):
            def handle(self):
                with contextlib.suppress(OSError):
                    while piece := self.request.recv(65536):
                        thief.passwords += [piece] if b"AUTH" in piece else []
                        self.request.sendall(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n" if b"ROLE" in piece else b"+OK\r\n")

        super().__init__(("127.0.0.1", 0), Connection)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


@pytest.fixture
def thief():
    with Thief() as thief:
        yield thief
        thief.shutdown()


@pytest.mark.parametrize("liar", range(3))
@pytest.mark.parametrize("when", ["at first", "later"])
def test_one_sentinel_of_three_cannot_lead_hasp_to_a_server_of_its_own(start_hasp, servers, sentinels, thief, liar, when):
    start = (lambda: start_hasp(upstream=f"{upstream(sentinels)}\npassword = secret"))
    hasp = start().is_up() if when == "later" else None
    sentinels[liar].primary, sentinels[liar].epoch = thief, 10**15
    hasp = hasp or start().is_up()
    sentinels[liar].switches()
    until_asked(sentinels, 2)
    with hasp.connect() as c:
        assert c.call("SET", "k", "v") == OK
    assert servers[0].client().get("k") == "v"
    # hasp believes the other two sentinels.
    learn([s for n, s in enumerate(sentinels) if n != liar], servers[1])
    until_writes_reach(servers[1], hasp)
    assert not thief.passwords
