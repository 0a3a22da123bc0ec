# SPDX-License-Identifier: BSD-3-Clause
"""Clients that share links to Redis do not notice one another.

The first test runs many random clients (tests/fuzz/pooling). Then come tests for each kind of bad
neighbour, and for each kind of state that a client may have.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import signal
import socket
import struct
import termios

import pytest
from harness import RedisServer, encode, until
from harness.campaigns import UNTIL_FOUND, campaign, until_found
from harness.load import clients_that_fit
from harness.marks import covers
from harness.replies import NIL, OK, QUEUED, bulk
from harness.sanitizers import sanitized
from harness.scrape import HTTP, value

pytestmark = pytest.mark.parametrize("pooling", ["shared"])

MB = 1 << 20


def links(plain, of=None):
    """Returns the rows of CLIENT LIST but for `plain` itself: hasp's links and own connections."""
    mine = str(plain.client_id())
    return [c for c in plain.client_list() if c["id"] != mine and of in (None, c["user"])]


def ids(plain):
    return {c["id"] for c in links(plain)}


def ids_at_rest(plain, count=2):
    """Returns the links' ids after hasp has closed the link over which it asks about logins."""
    until(lambda: len(links(plain)) == count, "the link that asks about logins to go")
    return ids(plain)


def unsent(plain):
    """Returns the ids of links in whose output buffers Redis keeps more than a megabyte."""
    return [c["id"] for c in links(plain) if int(c["omem"]) > MB]


def reset(conn):
    conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    conn.file.close()
    conn.sock.close()


def knows_redis(hasp):
    """Returns true if every worker has read Redis' table of commands."""
    log = hasp.log
    started = re.search(r"started .*workers=(\d+)", log)
    return started and log.count("upstream_up") >= int(started[1])


def served(hasp, **options):
    """Returns a client that uses a shared link."""
    until(lambda: knows_redis(hasp), "hasp to know Redis")
    conn = hasp.connect(**options)
    assert conn.call("PING") == b"+PONG\r\n"
    return conn


def unread(conn):
    """Returns how many bytes hasp has not read from a unix socket. For TCP, the kernel counts only
    bytes that have not reached hasp's kernel."""
    left = fcntl.ioctl(conn.sock, termios.TIOCOUTQ, b"\0" * 4)
    return struct.unpack("i", left)[0]


def descriptors(hasp):
    return len(os.listdir(f"/proc/{hasp.pid}/fd"))


class Stopped:
    """Stops Redis within the block."""

    def __init__(self, redis):
        self.redis = redis

    def __enter__(self):
        self.redis.freeze()

    def __exit__(self, *_):
        self.redis.signal(signal.SIGCONT)


# --- many clients at the same time -----------------------------------------------


@pytest.mark.parametrize("workers, shared_links", [(1, 1), (2, 3)])
def test_no_reply_reaches_another_client(pooling, workers, shared_links):
    status, output = campaign("pooling", "--seconds", 3, "--clients", 60, "--workers", workers,
                              "--links", shared_links)
    assert status == 0, output[-4000:]


@UNTIL_FOUND
@pytest.mark.parametrize("fault", ["cross", "swallow", "extra"])
def test_tester_finds_a_proxy_that_gets_replies_wrong(pooling, fault):
    until_found("FAULT", "pooling", "--seconds", 1, "--clients", 10, "--hang", 1, "--proxy", fault)


# --- bad neighbours ----------------------------------------------------------------


@covers("client_output_limit")
def test_slow_reader_is_closed_at_its_limit_and_nobody_else(start_hasp, plain):
    hasp = start_hasp(client_output_limit="4mb", memory_limit="64mb")
    plain.set("big", "x" * MB)
    plain.set("k", "v")
    with served(hasp) as other, served(hasp, receive_buffer=64 * 1024) as slow:
        slow.send(encode("GET", "big") * 40)
        for _ in range(200):
            assert other.call("GET", "k") == b"$1\r\nv\r\n"
        with pytest.raises((EOFError, ConnectionResetError)):
            for _ in range(40):
                assert len(slow.read()) > MB
        assert other.call("GET", "k") == b"$1\r\nv\r\n"


@covers("memory_limit")
def test_slow_readers_together_are_closed_at_memory_limit(start_hasp, plain):
    hasp = start_hasp(client_output_limit="64mb", memory_limit="16mb")
    plain.set("big", "x" * MB)
    plain.set("k", "v")
    with served(hasp) as other:
        slow = [served(hasp, receive_buffer=64 * 1024) for _ in range(6)]
        for conn in slow:
            conn.send(encode("GET", "big") * 8)
        for _ in range(100):
            assert other.call("GET", "k") == b"$1\r\nv\r\n"
        lost = 0
        for conn in slow:
            try:
                for _ in range(8):
                    assert len(conn.read()) > MB
            except (EOFError, ConnectionResetError):
                lost += 1
        assert 0 < lost
        assert other.call("GET", "k") == b"$1\r\nv\r\n"


def test_reader_that_fell_behind_gets_its_own_link_and_is_waited_for(start_hasp, plain):
    hasp = start_hasp(client_output_limit="64mb")
    plain.set("big", "x" * (16 * MB))
    with served(hasp) as other, served(hasp, receive_buffer=64 * 1024) as slow:
        slow.send(encode("GET", "big"))
        hasp.take_turn()
        # Its reply follows the long one on the shared link, so hasp has read the long one.
        assert other.call("PING") == b"+PONG\r\n"
        assert len(slow.read()) > 16 * MB
        slow.send(encode("GET", "big") * 6)  # replies to 96 MB, more than client_output_limit
        own = until(lambda: unsent(plain), "Redis to keep replies for the slow client")
        # On a common link, hasp would have to read the slow client's replies first.
        assert other.call("PING") == b"+PONG\r\n"
        assert unsent(plain) == own
        for _ in range(6):
            assert len(slow.read()) > 16 * MB


@covers("client_output_limit")
def test_one_reply_above_the_limit_waits_in_redis_for_a_reader_that_pauses(start_hasp, plain):
    hasp = start_hasp(HTTP, client_output_limit="4mb")
    plain.set("big", "x" * (16 * MB))
    with served(hasp) as other, served(hasp, receive_buffer=64 * 1024) as slow:
        ids_at_rest(plain)
        slow.send(encode("GET", "big"))
        until(lambda: value(hasp, "hasp_memory_bytes", what="clients") > MB, "hasp to buffer part of the long reply")
        # The other client moves to another shared link.
        for n in range(20):
            assert other.call("ECHO", n) == bulk(str(n))
        assert len(links(plain)) == 3
        assert len(slow.read()) == 16 * MB + len(b"$16777216\r\n\r\n")
        assert slow.call("ECHO", "on") == bulk("on")
        assert other.call("ECHO", "fine") == bulk("fine")


@pytest.mark.parametrize("part", [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$9\r\nhal", b"*2\r\n$3\r\nGE", b"SET k", b"*",
                                  b"*3\r\n$5\r\nSETNX\r\n$6\r\nlock:a\r\n$5\r\nval"])
def test_half_a_request_delays_nobody(start_hasp, part):
    hasp = start_hasp("[lock l]\npattern = lock:*")
    with served(hasp) as other, served(hasp) as stalls:
        stalls.send(encode("ECHO", "mine") + part)
        assert stalls.read() == bulk("mine")
        for n in range(50):
            assert other.call("ECHO", n) == bulk(str(n))
        stalls.sock.shutdown(socket.SHUT_WR)
        assert stalls.at_end()


def test_replies_to_a_client_that_left_reach_nobody(start_hasp, redis_server):
    hasp = start_hasp()
    with served(hasp) as other:
        leavers = [served(hasp) for _ in range(10)]
        with Stopped(redis_server):
            for n, conn in enumerate(leavers):
                conn.send(encode("ECHO", f"leaver {n}") * 3)
                other.send(encode("ECHO", f"other {n}"))
            hasp.take_turn()  # hasp has sent the leavers' requests to Redis
            for conn in leavers:
                reset(conn)
        for n in range(10):
            assert other.read() == bulk(f"other {n}")
        assert other.call("ECHO", "last") == bulk("last")


def test_lock_in_flight_of_a_client_that_left_is_released(start_hasp, redis_server, plain):
    hasp = start_hasp("[lock l]\npattern = lock:*\non_disconnect = release")
    with served(hasp) as other, served(hasp) as leaver:
        with Stopped(redis_server):
            leaver.send(encode("SETNX", "lock:a", 1))
            other.send(encode("SETNX", "lock:b", 1))
            hasp.take_turn()
            reset(leaver)
        assert other.read() == b":1\r\n"
        until(lambda: not plain.exists("lock:a"), "the lock to be free")
        assert plain.exists("lock:b")


def fill(hasp, conn, data):
    """Sends `data` over a unix socket repeatedly, until hasp reads no more. `data` must be short,
    because the kernel counts bytes as read only when the peer has read the whole send."""
    conn.sock.setblocking(False)
    left = -1
    while left != unread(conn):
        with contextlib.suppress(BlockingIOError):
            while True:
                conn.sock.send(data)
        left = unread(conn)
        hasp.take_turn()
    conn.sock.settimeout(5)


def test_client_that_waits_for_a_full_link_goes_on_when_it_broke(start_hasp, redis_server, tmp_path):
    hasp = start_hasp(listen=f"unix:{tmp_path}/s")
    with served(hasp) as fills, served(hasp) as helps, served(hasp) as waits:
        redis_server.freeze()
        # Redis' socket may accept a little more after the first client has stopped; that client
        # continues only when the link is empty. After the second client, the socket accepts nothing
        # more.
        for conn in fills, helps:
            fill(hasp, conn, encode("SET", "k", "v" * 500))
        waits.send(encode("ECHO", "on"))
        hasp.take_turn()
        # hasp has not read the request, so the request is not in flight when the link breaks.
        assert unread(waits)
        redis_server.unix.unlink()
        redis_server.kill()
        assert fills.at_end()
        # hasp sends the request at once, and finds no Redis.
        assert waits.read() == (b"-ERR hasp: upstream unix:%s: No such file or directory\r\n"
                                % bytes(redis_server.unix))
        assert waits.at_end()
        redis_server.start()
        with served(hasp) as other:
            assert other.call("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("end, endless, call", [
    ("SCRIPT", ("EVAL", "while true do end", 0), None),
    ("FUNCTION", ("FCALL", "endless", 0),
     "#!lua name=l\nredis.register_function('endless', function() while true do end end)"),
])
def test_script_without_an_end_can_be_killed(start_hasp, redis_server, plain, end, endless, call):
    hasp = start_hasp()
    plain.config_set("busy-reply-threshold", 50)
    if call:
        plain.execute_command("FUNCTION", "LOAD", call)
    with served(hasp) as busy, served(hasp) as kills:
        busy.send(encode(*endless))
        with redis_server.connect() as direct:
            until(lambda: direct.call("PING").startswith(b"-BUSY"), "the script to run")
        assert kills.call(end, "KILL") == OK
        assert busy.read().startswith(b"-ERR")
        assert busy.call("PING") == b"+PONG\r\n"


# --- logins ------------------------------------------------------------------------


def test_clients_of_one_login_share_and_others_do_not(start_hasp, plain):
    hasp = start_hasp()
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">wonder", "~*", "+@all")
    conns = [served(hasp) for _ in range(8)]
    for conn in conns[:4]:
        assert conn.call("AUTH", "alice", "wonder") == OK
    for conn in conns[::2]:
        assert conn.call("SELECT", 1) == OK
    for n, conn in enumerate(conns):
        assert conn.call("ACL", "WHOAMI") == bulk("alice" if n < 4 else "default")
        assert conn.call("SET", "k", n) == OK
    until(lambda: len(links(plain, of="alice")) == 2, "alice's links")
    # hasp's own connection, and a shared link for each database
    until(lambda: len(links(plain, of="default")) == 3, "the default user's links")
    for conn in conns:
        conn.close()


def test_user_without_a_password_stays_the_user_it_is(start_hasp, plain):
    hasp = start_hasp()
    plain.execute_command("ACL", "SETUSER", "guest", "on", "nopass", "~guest:*", "+@all")
    with served(hasp) as conn:
        assert conn.call("AUTH", "guest", "") == OK
        assert conn.call("ACL", "WHOAMI") == bulk("guest")
        assert conn.call("SET", "k", 1).startswith(b"-NOPERM")


@pytest.mark.parametrize("proto", [2, 3])
def test_client_whose_login_redis_no_longer_takes_is_closed_with_its_link(start_hasp, plain, proto):
    hasp = start_hasp()
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">wonder", "~*", "+@all")
    with served(hasp) as conn, served(hasp) as other:
        assert conn.call("HELLO", proto, "AUTH", "alice", "wonder")[:1] in b"*%"
        until(lambda: conn.call("PING") and len(links(plain, of="alice")) == 1, "alice's shared link")
        plain.execute_command("ACL", "SETUSER", "alice", "resetpass", ">other")
        plain.execute_command("CLIENT", "KILL", "USER", "alice")
        assert conn.at_end()
        assert other.call("PING") == b"+PONG\r\n"


def test_name_is_replayed_although_client_is_forbidden(start_hasp, plain):
    hasp = start_hasp()
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">wonder", "~*", "+@all", "-client")
    with served(hasp) as conn:
        assert conn.call("HELLO", 3, "AUTH", "alice", "wonder", "SETNAME", "app")[:1] == b"%"
        assert conn.call("SET", "k", 1) == OK
        assert conn.call("MULTI") == OK
        assert {c["name"] for c in links(plain, of="alice")} == {"app"}


def test_client_that_has_not_logged_in_shares_with_nobody(start_hasp, redis_server, plain):
    plain.config_set("requirepass", "secret")
    hasp = start_hasp()
    hasp.config_file.write_text(hasp.config_file.read_text().replace(
        "[upstream]", "[upstream]\npassword = secret"))
    hasp.signal(signal.SIGHUP)
    until(lambda: "upstream_up" in hasp.log, "hasp to log in")
    with redis_server.client(password="secret") as admin:
        before = len(links(admin))
        strangers = [hasp.connect() for _ in range(5)]
        for conn in strangers:
            assert conn.call("GET", "k") == b"-NOAUTH Authentication required.\r\n"
        until(lambda: len(links(admin)) == before + 5, "each client that is not logged in to have a link of its own")
        # Redis closes the link of the client that sent garbage, and no other.
        strangers[0].send(encode("MSET", *range(20)))
        assert strangers[0].read() == b"-ERR Protocol error: unauthenticated multibulk length\r\n"
        assert strangers[0].at_end()
        for conn in strangers[1:]:
            assert conn.call("GET", "k") == b"-NOAUTH Authentication required.\r\n"
            assert conn.call("AUTH", "secret") == OK
            assert conn.call("GET", "k") == b"$-1\r\n"
        until(lambda: all(conn.call("GET", "k") for conn in strangers[1:])
              and len(links(admin)) == before + 1, "the clients to share a link")
        for conn in strangers:
            conn.close()


# --- state that belongs to one client ---------------------------------------------------


def test_each_client_has_its_own_name(start_hasp):
    hasp = start_hasp()
    conns = [served(hasp) for _ in range(6)]
    for n, conn in enumerate(conns[1:]):
        assert conn.call("CLIENT", "SETNAME", f"name{n}") == OK
        assert conn.call("SET", "k", n) == OK
    for n, conn in enumerate(conns[1:]):
        assert conn.call("CLIENT", "GETNAME") == bulk(f"name{n}")
        assert conn.call("GET", "k") == bulk("4")
    assert conns[0].call("CLIENT", "GETNAME") == b"$-1\r\n"
    for conn in conns:
        conn.close()


@pytest.mark.parametrize("alone", [False, True])
def test_client_setinfo_is_repeated_on_links_of_its_own(start_hasp, plain, alone):
    """A client that is alone on a shared link takes the link over."""
    is_known = "setinfo" in str(plain.execute_command("CLIENT", "HELP")).lower()
    hasp = start_hasp()
    with served(hasp) as conn, contextlib.ExitStack() as stack:
        if not alone:
            stack.enter_context(served(hasp))
        if not is_known:  # Redis 7.0 has no CLIENT SETINFO
            assert conn.call("CLIENT", "SETINFO", "LIB-NAME", "app").startswith(b"-ERR ")
            assert conn.call("CLIENT", "INFO").startswith(b"$")
            return
        assert conn.call("CLIENT", "SETINFO", "LIB-NAME", "app") == OK
        assert conn.call("CLIENT", "SETINFO", "lib-ver", "1.2") == OK
        until(lambda: conn.call("GET", "k") and not any(c["lib-name"] == "app" for c in links(plain)),
              "the client to move to a shared link")
        assert b" lib-name=app lib-ver=1.2" in conn.call("CLIENT", "INFO")


def test_each_client_is_in_its_own_database(start_hasp):
    hasp = start_hasp()
    conns = [served(hasp) for _ in range(8)]
    for n, conn in enumerate(conns):
        conn.send(encode("SELECT", n % 4) + encode("SET", f"k{n}", n))
    for n, conn in enumerate(conns):
        assert conn.read() + conn.read() == OK + OK
        assert conn.call("SET", f"later{n}", n) == OK
    for n, conn in enumerate(conns):
        assert conn.call("DBSIZE") == b":4\r\n"
        assert conn.call("GET", f"later{n}") == bulk(str(n))
        conn.close()


@pytest.mark.parametrize("command, reply", [
    (("SUBSCRIBE", "c"), b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"), (("MONITOR",), OK),
    (("WAIT", 0, 0), b":0\r\n"), (("NOSUCH",), b"-ERR unknown"),
    (("CLIENT", "NO-EVICT", "on"), OK), (("XADD", "s" * 70000), b"-ERR wrong number"),
    (("NOSUCH", "v" * 70000), b"-ERR unknown"),
])
def test_link_of_its_own_for_good(start_hasp, plain, command, reply):
    hasp = start_hasp()
    with served(hasp) as other, served(hasp) as conn:
        before = len(ids_at_rest(plain))
        assert conn.call(*command).startswith(reply)
        assert len(links(plain)) == before + 1
        assert other.call("ECHO", "fine") == bulk("fine")
        conn.send(encode("PING"))
        assert other.call("PING") == b"+PONG\r\n"
        assert len(links(plain)) == before + 1
        conn.close()
        until(lambda: len(links(plain)) == before, "the client's own link to close")


@pytest.mark.parametrize("commands", [
    [("SELECT", 1)], [("CLIENT", "SETNAME", "n")], [("CLIENT", "GETNAME")], [("HELLO", 3)],
    [("CLIENT", "KILL", "ID", 0)], [("CLIENT", "UNBLOCK", 0)], [("CLIENT", "PAUSE", 0)], [("CLIENT", "UNPAUSE")],
    [("RESET",)], [("AUTH", "default", "x")], [("AUTH", "nobody", "x")], [("SELECT", 1), ("SELECT", 2), ("CLIENT", "SETNAME", "n")],
])
def test_link_of_its_own_for_a_while(start_hasp, plain, commands):
    hasp = start_hasp()
    with served(hasp) as conn:
        for command in commands:
            conn.call(*command)
        # The client keeps its own link until a shared one is ready. Then there are hasp's own
        # connection, the other clients' shared link, and perhaps one for the new login.
        until(lambda: conn.call("GET", "k") and len(links(plain)) <= 3, "the client's own link to close")


@pytest.mark.parametrize("command, reply", [
    (("BLPOP", "none", "0.01"), b"*-1\r\n"), (("XREAD", "STREAMS", "s", "0"), b"*-1\r\n"),
    (("SET", "k", "v" * 70000), OK)])
def test_link_of_its_own_for_some_seconds(start_hasp, plain, command, reply):
    """The client keeps its link for the next command of this kind, and then puts the link back."""
    hasp = start_hasp()
    with served(hasp) as other, served(hasp) as conn:
        shared = ids_at_rest(plain)
        assert conn.call(*command) == reply
        own, = ids(plain) - shared
        assert conn.call(*command) == reply
        assert ids(plain) == shared | {own}

        def is_left():
            command = "ttl" if last_command(plain, own) != "ttl" else "strlen"
            assert conn.call(command, "other").startswith(b":")
            return last_command(plain, own) != command

        until(is_left, "the client to leave its link")
        assert other.call(*command) == reply
        assert ids(plain) == shared | {own}


def last_command(plain, link):
    return next(c["cmd"] for c in plain.client_list() if c["id"] == link)


@pytest.mark.parametrize("commands", [
    [("CLIENT", "ID")], [("SUBSCRIBE", "c")], [("MULTI",)], [("WATCH", "k")], [("CLIENT", "NO-EVICT", "on")],
    [("SELECT", 3), ("BLPOP", "none", "0.01")], [("NOSUCH",)]])
def test_reset_ends_the_need_of_a_link(start_hasp, plain, commands):
    hasp = start_hasp()
    with served(hasp), served(hasp) as conn:
        shared = ids_at_rest(plain)
        for command in commands:
            conn.call(*command)
        assert len(links(plain)) == 3
        assert conn.call("RESET") == b"+RESET\r\n"
        until(lambda: conn.call("GET", "k") and ids(plain) == shared, "the client's own link to close")


def test_what_follows_reset_keeps_its_link(start_hasp, plain):
    hasp = start_hasp()
    with served(hasp), served(hasp) as conn:
        conn.send(encode("RESET") + encode("CLIENT", "ID"))
        assert conn.read() == b"+RESET\r\n"
        mine = conn.read()
        for _ in range(3):
            assert conn.call("GET", "k") == NIL
            assert conn.call("CLIENT", "ID") == mine


def test_two_hundred_clients_put_back_the_link_of_their_transaction(start_hasp, plain):
    hasp = start_hasp()
    conns = [served(hasp) for _ in range(200)]
    before = len(links(plain))
    for n, conn in enumerate(conns):
        conn.send(encode("MULTI") + encode("INCR", "n") + encode("EXEC"))
        assert [conn.read() for _ in range(3)] == [OK, QUEUED, b"*1\r\n:%d\r\n" % (n + 1)]
    # One link serves all of these clients in turn.
    assert len(links(plain)) <= before + 1
    for conn in conns:
        assert conn.call("ECHO", "on") == bulk("on")
    assert len(links(plain)) <= before + 1
    for conn in conns:
        conn.close()


def test_clients_that_begin_with_a_transaction_put_it_back_too(start_hasp, plain):
    hasp = start_hasp()
    with served(hasp):
        conns = [hasp.connect() for _ in range(20)]
        for conn in conns:
            assert conn.call("MULTI") == OK
            assert conn.call("EXEC") == b"*0\r\n"
        # hasp's own connection, the shared link, the one that asks about logins, a spare link, and
        # a second one if the first was not put back yet.
        assert len(links(plain)) <= 5
        for conn in conns:
            conn.close()


@pytest.mark.parametrize("commands, reply", [
    ([("MULTI",), ("SET", "k", 1), ("EXEC",)], b"*1\r\n+OK\r\n"), ([("MULTI",), ("EXEC",)], b"*0\r\n"),
    ([("MULTI",), ("SETNX", "lock:a", 1), ("EXEC",)], b"*1\r\n:1\r\n"),
    ([("MULTI",), ("SET", "k", 1), ("DISCARD",)], OK), ([("WATCH", "k"), ("UNWATCH",)], OK),
    ([("WATCH", "k"), ("MULTI",), ("DISCARD",)], OK), ([("MULTI",), ("SELECT", 2), ("EXEC",)], b"*1\r\n+OK\r\n"),
    ([("MULTI",), ("GET",), ("EXEC",)], b"-EXECABORT"), ([("MULTI",), ("EXEC", "x")], b"-EXECABORT"),
    ([("MULTI",), ("SELECT", 2), ("GET",), ("EXEC",)], b"-EXECABORT"),
    ([("WATCH", "w"), ("SET", "w", 1), ("MULTI",), ("SET", "k", 1), ("EXEC",)], b"*-1\r\n"),
    ([("WATCH", "k"), ("EXEC",), ("MULTI",), ("DISCARD",)], OK),
])
def test_link_of_its_own_for_a_transaction(start_hasp, plain, commands, reply):
    hasp = start_hasp("[lock l]\npattern = lock:*")
    with served(hasp) as other, served(hasp) as begins, served(hasp) as conn:
        shared = ids_at_rest(plain)
        for command in commands[:-1]:
            conn.call(*command)
        own, = ids(plain) - shared
        assert conn.call(*commands[-1]).startswith(reply)
        if ("SELECT", 2) in commands:
            # A link with another database selected is not put back for other clients.
            until(lambda: conn.call("GET", "k") and own not in ids(plain), "the link to close")
        else:
            assert begins.call("MULTI") == OK
            assert begins.call("GET", "k") == QUEUED
            assert ids(plain) == shared | {own}
            assert conn.call("ECHO", "mine") == bulk("mine")
            assert begins.call("DISCARD") == OK
        assert other.call("ECHO", "fine") == bulk("fine")


@pytest.mark.parametrize("commands, reply", [
    ([("MULTI",)], OK), ([("WATCH", "k")], OK), ([("WATCH", "k"), ("EXEC",)], b"-ERR EXEC without MULTI"),
    ([("WATCH", "k"), ("DISCARD",)], b"-ERR DISCARD without"),
    ([("MULTI",), ("UNWATCH",)], QUEUED), ([("MULTI",), ("EXEC",), ("WATCH", "k")], OK),
    ([("MULTI",), ("NOSUCH",), ("EXEC",)], b"-EXECABORT"),
    ([("MULTI",), ("CLIENT", "NO-EVICT", "on"), ("EXEC",)], b"*1\r\n+OK\r\n"),
    ([("MULTI",), ("CLIENT", "ID"), ("EXEC",)], b"*1\r\n:"),
    ([("HELLO", 3), ("CLIENT", "TRACKING", "on"), ("MULTI",), ("EXEC",)], b"*0\r\n"),
    ([("SUBSCRIBE", "c"), ("UNSUBSCRIBE", "c"), ("MULTI",), ("EXEC",)], b"*0\r\n"),
    ([("CLIENT", "REPLY", "ON"), ("MULTI",), ("EXEC",)], b"*0\r\n"),
])
def test_link_with_something_left_is_not_put_back(start_hasp, plain, commands, reply):
    hasp = start_hasp()
    with served(hasp) as other, served(hasp) as conn:
        for command in commands[:-1]:
            conn.call(*command)
        assert conn.call(*commands[-1]).startswith(reply)
        own = ids(plain)
        for _ in range(3):
            conn.call("GET", "k")
            with served(hasp) as another:
                assert another.call("MULTI") == OK
                assert another.call("ECHO", "mine") == QUEUED
                assert another.call("EXEC") == b"*1\r\n" + bulk("mine")
        assert own <= ids(plain)
        assert len(links(plain)) > len(own)  # the other clients got a new link, as conn keeps its own
        assert other.call("ECHO", "fine") == bulk("fine")


def test_watch_lasts_until_the_transaction(start_hasp, plain):
    hasp = start_hasp()
    with served(hasp) as conn, served(hasp) as other:
        for changed in False, True:
            assert conn.call("WATCH", "k") == OK
            assert conn.call("GET", "k")[:1] == b"$"
            if changed:
                assert other.call("SET", "k", 1) == OK
            assert conn.call("MULTI") == OK
            assert conn.call("SET", "k", 2) == QUEUED
            assert conn.call("EXEC") == (b"*-1\r\n" if changed else b"*1\r\n+OK\r\n")
            assert conn.call("ECHO", "on") == bulk("on")


def test_transaction_that_follows_at_once_keeps_the_link(start_hasp):
    with served(start_hasp()) as conn:
        conn.send(encode("MULTI") + encode("EXEC") + encode("MULTI"))
        assert [conn.read() for _ in range(3)] == [OK, b"*0\r\n", OK]
        assert conn.call("ECHO", "mine") == QUEUED
        assert conn.call("EXEC") == b"*1\r\n" + bulk("mine")
        assert conn.call("ECHO", "on") == bulk("on")


def test_transaction_of_a_client_that_died_is_nobodys(start_hasp, plain):
    hasp = start_hasp()
    with served(hasp) as conn, served(hasp) as dies:
        assert conn.call("MULTI") == conn.call("DISCARD") == OK
        # hasp's own connection, the shared link, and a spare link, which `dies` takes.
        before = ids_at_rest(plain, 3)
        assert dies.call("MULTI") == OK
        assert ids(plain) == before
        assert dies.call("SET", "k", "its") == QUEUED
        reset(dies)
        until(lambda: len(links(plain)) == 2, "the dead client's link to close")
        assert conn.call("EXEC") == b"-ERR EXEC without MULTI\r\n"
        assert not plain.exists("k")


def test_client_that_half_closes_leaves_no_spare_link(start_hasp, plain):
    hasp = start_hasp()
    with served(hasp) as conn, served(hasp) as other:
        conn.send(encode("MULTI") + encode("EXEC"))
        conn.sock.shutdown(socket.SHUT_WR)
        assert conn.read() + conn.read() == OK + b"*0\r\n"
        assert conn.at_end()
        assert other.call("MULTI") == OK
        assert other.call("EXEC") == b"*0\r\n"


def test_spare_link_that_redis_closed_is_not_taken(start_hasp, plain):
    hasp = start_hasp()
    with served(hasp) as conn:
        others = ids_at_rest(plain)
        for _ in range(3):
            assert conn.call("MULTI") == conn.call("DISCARD") == OK
            # hasp reads this request after it has put the link back.
            assert conn.call("ECHO", "back") == bulk("back")
            spare, = ids(plain) - others
            plain.execute_command("CLIENT", "KILL", "ID", spare)
            # Redis' close arrives at hasp before this request, so hasp does not use the dead link.
            assert conn.call("ECHO", "on") == bulk("on")


def test_wait_speaks_of_what_was_written_over_a_shared_link(start_hasp, redis_server, plain):
    plain.config_set("repl-diskless-sync-delay", 0)
    with RedisServer("--replicaof", redis_server.host, redis_server.port) as replica:
        until(lambda: replica.client().info("replication")["master_link_status"] == "up", "the replica to be connected")
        hasp = start_hasp()
        with served(hasp) as conn:
            replica.freeze()
            assert conn.call("SET", "k", "v") == OK
            assert conn.call("WAIT", 1, 100) == b":0\r\n"
            replica.signal(signal.SIGCONT)
            assert conn.call("WAIT", 1, 5000) == b":1\r\n"


def test_what_hasp_sends_before_wait_is_not_answered_to_the_client(start_hasp):
    """Before Redis 7.2, hasp sends a PING ahead of WAIT, and drops its reply."""
    hasp = start_hasp()
    with served(hasp) as conn, served(hasp):
        assert conn.call("SET", "k", "v") == OK
        conn.send(b"".join(encode(*command) for command in [
            ("CLIENT", "NO-EVICT", "OFF"), ("GET", "k"), ("WAIT", 0, 1), ("CLIENT", "REPLY", "SKIP"), ("PING",),
            ("ECHO", "end")]))
        assert [conn.read() for _ in range(4)] == [OK, bulk("v"), b":0\r\n", bulk("end")]


# --- broken links ------------------------------------------------------------------


def test_only_clients_that_wait_for_a_reply_are_closed_with_the_link(start_hasp, redis_server):
    hasp = start_hasp("[lock l]\npattern = lock:*")
    with served(hasp) as rests, served(hasp) as asks, \
            served(hasp) as locks:
        with Stopped(redis_server):
            asks.send(encode("INCR", "n"))
            locks.send(encode("SETNX", "lock:a", 1))
            hasp.take_turn()
            redis_server.kill()
        assert asks.at_end()
        assert locks.read().startswith(b"-ERR hasp: upstream ") and locks.at_end()
        redis_server.start()
        assert rests.call("ECHO", "on") == bulk("on")


def test_login_database_and_protocol_survive_the_link(start_hasp, plain):
    hasp = start_hasp()
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">wonder", "~*", "+@all")
    with served(hasp) as conn:
        assert conn.call("HELLO", 3, "AUTH", "alice", "wonder", "SETNAME", "app")[:1] == b"%"
        assert conn.call("SELECT", 5) == OK
        assert conn.call("SET", "k", "five") == OK
        until(lambda: conn.call("EXISTS", "k") and len(links(plain, of="alice")) == 1, "alice's shared link")
        before = links(plain, of="alice")[0]["id"]
        assert plain.execute_command("CLIENT", "KILL", "USER", "alice") == 1
        until(lambda: [c["id"] for c in links(plain, of="alice")] not in ([], [before]), "another link of alice")
        assert conn.call("GET", "k") == bulk("five")
        assert conn.call("GET", "none") == b"_\r\n"
        assert conn.call("ACL", "WHOAMI") == bulk("alice")
        assert conn.call("CLIENT", "GETNAME") == bulk("app")


# --- what pooling saves ----------------------------------------------------------------


def own_memory(pid):
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1]) * 1024
    raise ValueError(pid)


def test_two_thousand_idle_clients_are_few_links_and_little_memory(start_hasp, plain):
    n = clients_that_fit(8500) * 4 // 17
    hasp = start_hasp(workers=2)
    # These clients use up the memory that hasp allocated and freed when it started.
    conns = [served(hasp) for _ in range(n * 5 // 4)]

    def grows():
        """Returns how many bytes each of n more clients takes, including hasp's other
        allocations."""
        before = own_memory(hasp.pid)
        for _ in range(n):
            conns.append(hasp.connect())
            assert conns[-1].call("GET", "k") == b"$-1\r\n"
        # A worker closes the link over which it asks about logins when no client asks.
        until(lambda: len(links(plain)) == 4, "each worker to have its own link, and a shared one")
        return (own_memory(hasp.pid) - before) / n

    try:
        growth = [grows()]
        while not sanitized() and growth[-1] >= 850:
            assert len(growth) < 3, growth
            growth.append(grows())
    finally:
        for conn in conns:
            conn.close()
