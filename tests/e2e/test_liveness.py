# SPDX-License-Identifier: BSD-3-Clause
"""Dead links that no error reports: the network drops packets, or Redis hangs."""

import contextlib
import re

import pytest
from harness import RedisServer, encode, until
from harness.info import calls, clients
from harness.marks import BOTH, covers
from harness.network import fill_backlog
from harness.relay import Relay
from harness.replies import NIL, OK, PONG
from harness.resp import pipeline
from harness.sections import verbs

# Time-outs shorter than those of Redis and the kernel, and long enough for a busy machine.
LIMITS = "\nserver_timeout = 2s\nserver_check_delay = 200ms\nconnect_timeout = 1s\ntcp_user_timeout = "
GET = encode("GET", "k")
BUSY = "local t = redis.call('TIME')[1] while redis.call('TIME')[1] - t < 5 do end return 'done'"


@pytest.fixture
def far():
    """A Redis that cut_off() can make unreachable: frozen, it neither answers nor accepts."""
    with RedisServer("--tcp-backlog", 1) as server:
        yield server


@pytest.fixture
def start_far(start_hasp, far):
    """start_far(rules) starts a hasp in front of `far`. `tcp`: tcp_user_timeout; `address`: a
    relay's."""
    def start(rules="", tcp="0", address=None, **options):
        return start_hasp(rules, upstream=(address or "%s:%d" % far.address) + LIMITS + tcp, **options).is_up()

    return start


@contextlib.contextmanager
def cut_off(server):
    """Makes the server unreachable within the block, as if the network dropped all packets."""
    with server.frozen():
        waiting = fill_backlog(server.address)
        yield
        for s in waiting:
            s.close()


def ends(hasp):
    """Returns the reasons in the log for which links ended."""
    return re.findall(r"link_ended .*reason=\"([^\"]+)\"", hasp.log)


def port_of(client):
    """Returns the port of a client in CLIENT LIST."""
    return int(client["addr"].rsplit(":", 1)[1])


def is_over(connection):
    """Waits until hasp closes the connection. Returns whether it sent nothing but an error."""
    answer = connection.file.read()
    return answer == b"" or answer.startswith(b"-ERR hasp: upstream ")


def pass_time(plain):
    """Waits for twenty checks, which take longer than server_timeout."""
    before = calls(plain, "ping")
    until(lambda: calls(plain, "ping") > before + 20, "twenty checks")


# --- the network drops packets ---------------------------------------------------------------


@BOTH
def test_clients_on_a_link_that_is_cut_without_a_word_are_told(start_far, far, pooling):
    hasp = start_far(pooling=pooling)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "k", 1) == OK and other.call("GET", "k") == b"$1\r\n1\r\n"
        with cut_off(far):
            one.send(GET)
            assert is_over(one)
            other.send(GET)
            assert is_over(other)
            assert ends(hasp)
            with hasp.connect() as new:
                assert new.call("GET", "k").startswith(b"-ERR hasp: upstream ")
    until(lambda: hasp.log.count("upstream_up") >= 2, "hasp's own connection")
    with hasp.connect() as new:
        assert new.call("GET", "k") == b"$1\r\n1\r\n"


WAITING = [("BLPOP", "list", 0), ("XREAD", "BLOCK", 0, "STREAMS", "s", "$"), ("WAIT", 1, 0),
           ("SUBSCRIBE", "channel"), ("MONITOR",)]


@BOTH
def test_clients_that_wait_on_a_link_that_is_cut_are_closed(start_far, far, pooling):
    hasp = start_far(pooling=pooling)
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(hasp.connect()) for _ in WAITING]
        for one, command in zip(waiting, WAITING):
            one.send(encode(*command))
            if command[0] in ("SUBSCRIBE", "MONITOR"):
                one.read()
            else:
                until(lambda: clients(far.client(), cmd=command[0].lower()), "Redis to have the command")
        with cut_off(far):
            for one in waiting:
                one.file.read()  # until hasp closes it; MONITOR shows hasp's checks
            until(lambda: len(ends(hasp)) >= len(WAITING), "the end of each link")
            assert all(re.match("the server answered neither|no reply came", reason) for reason in ends(hasp))


@covers("tcp_user_timeout")
def test_kernel_gives_up_what_the_server_does_not_take(start_far, far, pool):
    """tcp_user_timeout also ends a link if the server's kernel has no room for more bytes.
    server_timeout is an hour."""
    hasp = start_far(tcp="1s", workers=1)
    hasp.reload("server_timeout = 2s", "server_timeout = 1h")
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        with cut_off(far):
            pool.submit(one.send, encode("SET", "k", b"v" * 64_000_000))
            until(lambda: "Connection timed out" in ends(hasp), "the kernel to end the link")
            assert is_over(one)


def test_lock_whose_answer_does_not_come_is_of_unknown_outcome(start_far, far):
    hasp = start_far(verbs())
    with hasp.connect() as one:
        assert one.call("LOCK", "a").startswith(b":")
        with cut_off(far):
            answer = one.call("LOCK", "b")
        assert answer.startswith(b"-ERR hasp: upstream 127.0.0.1:")
        assert answer.endswith(b" for 2 s; whether the command was carried out is not known\r\n")


@covers("link_ended")
def test_link_that_is_cut_alone_ends_alone(start_far, far):
    with Relay(far.address) as relay:
        hasp = start_far(address=relay.address)
        with hasp.connect() as one, hasp.connect() as other:
            assert one.call("WATCH", "k") == OK and other.call("GET", "k") == NIL
            link, = clients(far.client(), cmd="watch")
            relay.lost.add(port_of(link))
            one.send(GET)
            assert is_over(one)
            assert other.call("GET", "k") == NIL
        assert ends(hasp) == ["no reply came for 2 s"]
        assert "upstream_down" not in hasp.log


@BOTH
def test_client_waits_while_redis_pauses_writes_for_longer_than_server_timeout(start_far, far, pooling):
    hasp, plain = start_far(pooling=pooling), far.client()
    with hasp.connect() as one, hasp.connect() as publisher, hasp.connect() as other:
        assert one.call("PING") == publisher.call("PING") == other.call("PING") == PONG
        plain.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        one.send(encode("SET", "k", 1))
        publisher.send(encode("PUBLISH", "c", "m"))
        # Waits for server_timeout twice: hasp asks Redis each time whether clients are paused.
        for _ in range(2):
            pass_time(plain)
        plain.execute_command("CLIENT", "UNPAUSE")
        assert one.read() == OK and publisher.read() == b":0\r\n" and other.call("PING") == PONG
        assert not ends(hasp)


def test_subscriber_that_is_cut_alone_is_connected_anew(start_far, far):
    with Relay(far.address) as relay:
        hasp = start_far(verbs(), address=relay.address)
        with hasp.connect() as one, hasp.connect() as other, far.client() as plain:
            assert one.call("LOCK", "a").startswith(b":") and other.call("LOCK", "a", "WAIT", 10) == NIL
            before = until(lambda: clients(plain, name="hasp-0-subscriber"), "hasp's subscription")
            pass_time(plain)
            assert clients(plain, name="hasp-0-subscriber")[0]["id"] == before[0]["id"]
            relay.lost.add(port_of(before[0]))
            until(lambda: hasp.log.count("subscriber_up") >= 2, "hasp's new subscription")
        assert 'reason="PING was not answered for 2 s"' in hasp.log
        assert "upstream_down" not in hasp.log


# --- Redis hangs ------------------------------------------------------------------------------


def limited(redis_server):
    return f"unix:{redis_server.unix}" + LIMITS + "0"


@covers("server_timeout")
@BOTH
def test_clients_of_a_redis_that_hangs_are_told_and_later_served(start_hasp, redis_server, pooling):
    hasp = start_hasp(upstream=limited(redis_server), pooling=pooling).is_up()
    with hasp.connect() as one, hasp.connect() as blocked:
        assert one.call("PING") == PONG
        blocked.send(encode("BLPOP", "list", 0))
        with redis_server.frozen():
            one.send(GET)
            assert is_over(one)
            assert blocked.at_end()
    with hasp.connect() as one:
        assert one.call("GET", "k") == NIL


@BOTH
def test_commands_that_wait_are_waited_for(start_hasp, redis_server, plain, pooling):
    hasp = start_hasp(upstream=limited(redis_server), pooling=pooling).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        one.send(encode("BLPOP", "list", 0))
        other.send(GET + encode("WAIT", 1, 0))
        assert other.read() == NIL
        pass_time(plain)
        plain.rpush("list", "v")
        assert one.read() == b"*2\r\n$4\r\nlist\r\n$1\r\nv\r\n"
        other.send(GET)
    assert not ends(hasp)


@BOTH
@pytest.mark.parametrize("commands, answer", [
    ([("PING",), ("EVAL", BUSY, 0)], PONG + b"$4\r\ndone\r\n"),
    ([("MULTI",), ("EVAL", BUSY, 0), ("EXEC",)], OK + b"+QUEUED\r\n*1\r\n$4\r\ndone\r\n")])
def test_scripts_are_waited_for(start_hasp, redis_server, pooling, commands, answer):
    """The scripts run for longer than server_timeout, while Redis answers other clients -BUSY."""
    redis_server.client().config_set("busy-reply-threshold", 100)
    hasp = start_hasp(upstream=limited(redis_server), pooling=pooling).is_up()
    with hasp.connect() as one:
        assert b"".join(pipeline(one, *commands)) == answer
    assert not ends(hasp)


def test_request_that_is_not_whole_is_waited_for(start_hasp, redis_server, plain):
    hasp = start_hasp(upstream=limited(redis_server)).is_up()
    request = encode("SET", "k", b"v" * 200_000)
    with hasp.connect() as slow:
        slow.send(request[:150_000])
        pass_time(plain)
        slow.send(request[150_000:])
        assert slow.read() == OK
    assert not ends(hasp)
