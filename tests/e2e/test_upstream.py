# SPDX-License-Identifier: BSD-3-Clause
"""A Redis that is down, restarts, hangs, or is another kind of server."""

import contextlib
import queue
import signal
import socket
import threading
import time

import pytest

from harness import RedisServer, encode, until
from harness.marks import covers
from harness.network import fill_backlog
from harness.nodes import private_address
from harness.poolings import pooling  # noqa: F401
from harness.wait import PATIENCE

OK, PONG = b"+OK\r\n", b"+PONG\r\n"
LOCKS = "[lock locks]\npattern = lock:*\n[verbs]\n"


class FakeRedis:
    """A listener that hands the connections of hasp's clients to the test. It leaves hasp's own
    connections, which begin with PING or REPLCONF, without an answer."""

    def __init__(self, backlog=16):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=backlog)
        self.clients = queue.Queue()
        self.own = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return "%s:%d" % self.listener.getsockname()

    def client(self):
        """Returns (connection, its first bytes) of the next client."""
        return self.clients.get(timeout=PATIENCE)

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.settimeout(PATIENCE)
            first = connection.recv(65536)
            if first.startswith((encode("PING"), encode("REPLCONF"))):
                self.own.append(connection)
            else:
                self.clients.put((connection, first))

    def close(self):
        self.listener.close()
        for connection in self.own:
            connection.close()


@pytest.fixture
def fake():
    fake = FakeRedis()
    yield fake
    fake.close()


# FakeRedis does not answer COMMAND, so hasp cannot let clients share its links.
private = pytest.mark.parametrize("pooling", ["session"])


def all_bytes(connection):
    """Returns all bytes up to the end of the connection."""
    return connection.file.read()


# --- Redis is down ---------------------------------------------------------------


@pytest.mark.parametrize("kind, reason", [("tcp", "Connection refused"), ("unix", "No such file or directory")])
def test_redis_down_is_told_to_the_client_and_again_served_when_it_is_back(
        start_hasp, redis_server, kind, reason):
    address = f"unix:{redis_server.unix}" if kind == "unix" else "%s:%d" % redis_server.address
    redis_server.stop()
    redis_server.unix.unlink()
    hasp = start_hasp(LOCKS, upstream=address)
    error = f"-ERR hasp: upstream {address}: {reason}\r\n".encode()
    with hasp.connect() as one:
        assert one.call("PING") == error
        assert one.at_end()
    with hasp.connect() as one:
        one.send(encode("MULTI") + encode("SETNX", "lock:1", 1) + encode("EXEC"))
        assert all_bytes(one) == error  # all requests fail for the same reason, so hasp answers once
    redis_server.start()
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        assert one.call("SETNX", "lock:1", 1) == b":1\r\n"


def test_client_that_sends_nothing_does_not_notice_that_redis_is_down(share_hasp, redis_server):
    redis_server.stop()
    hasp = share_hasp()
    with hasp.connect() as one:
        redis_server.start()
        assert one.call("PING") == PONG


@covers("upstream_down", "upstream_up")
def test_own_connection_comes_back_and_the_log_tells_once(start_hasp, redis_server):
    hasp = start_hasp(LOCKS)
    until(lambda: hasp.log.count("upstream_up") >= 1, "hasp's own connection to be up")
    redis_server.stop()
    until(lambda: "upstream_down" in hasp.log, "hasp's own connection to be down")
    for _ in range(3):
        with hasp.connect() as one:
            assert one.call("PING").startswith(b"-ERR hasp: upstream")
    redis_server.start()
    until(lambda: hasp.log.count("upstream_up") >= 2, "hasp's own connection to be up again")
    assert hasp.log.count("upstream_down") == 1


def test_name_that_does_not_resolve_is_told(start_hasp):
    address = "no-such-host.invalid:6379"
    hasp = start_hasp(upstream=address + "\nconnect_timeout = 2s")
    with hasp.connect() as one:
        assert one.call("PING").startswith(f"-ERR hasp: upstream {address}: ".encode())
        assert one.at_end()


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_hosts_are_found_by_name_and_by_number(start_hasp, host):
    with RedisServer("--bind", "127.0.0.1", "-::1") as redis:
        hasp = start_hasp(upstream=f"{host}:{redis.port}")
        with hasp.connect() as one:
            assert one.call("PING") == PONG


def test_every_address_of_a_name_is_tried(start_hasp):
    """`localhost` may resolve to ::1 first, where this Redis does not listen."""
    with RedisServer() as redis:
        hasp = start_hasp(upstream=f"localhost:{redis.port}")
        with hasp.connect() as one:
            assert one.call("PING") == PONG


@covers("connect_timeout")
def test_address_that_does_not_answer_leaves_time_for_the_next(start_hasp, hosts, redis_server):
    port = redis_server.port
    with socket.create_server((private_address(), port), backlog=0) as listener:
        waiting = fill_backlog(listener.getsockname())
        hosts.move(listener.getsockname()[0], redis_server.host)
        hasp = start_hasp(upstream=f"{hosts.name}:{port}\nconnect_timeout = 1s", within=hosts.within)
        with hasp.connect() as one:
            assert one.call("PING") == PONG
        for s in waiting:
            s.close()


@covers("connect_timeout")
def test_connect_timeout_ends_the_wait_for_a_full_backlog(start_hasp):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = fill_backlog(listener.getsockname())
        address = "%s:%d" % listener.getsockname()
        hasp = start_hasp(upstream=address + "\nconnect_timeout = 300ms")
        with hasp.connect() as one:
            began = time.monotonic()
            assert one.call("PING") == f"-ERR hasp: upstream {address}: Connection timed out\r\n".encode()
            assert time.monotonic() - began > 0.25
            assert one.at_end()
        for s in waiting:
            s.close()


def listen_unix(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(0)
    return listener


def test_full_backlog_of_a_unix_socket_is_waited_for(start_hasp, tmp_path):
    """The kernel refuses a connection to a unix socket at once if the backlog is full."""
    with listen_unix(tmp_path / "s") as listener:
        waiting = fill_backlog(listener.getsockname(), socket.AF_UNIX)
        hasp = start_hasp(upstream=f"unix:{tmp_path}/s\nconnect_timeout = 300ms")
        with hasp.connect() as one:
            began = time.monotonic()
            assert one.call("ECHO", 1).startswith(b"-ERR hasp: upstream unix:")
            assert time.monotonic() - began > 0.25
        for s in waiting:
            s.close()


@private
def test_full_backlog_of_a_unix_socket_is_got_through(start_hasp, tmp_path):
    with listen_unix(tmp_path / "s") as listener:
        waiting = fill_backlog(listener.getsockname(), socket.AF_UNIX)
        hasp = start_hasp(upstream=f"unix:{tmp_path}/s")
        with hasp.connect() as one:
            one.send(encode("ECHO", 1))
            accepted = []
            listener.settimeout(PATIENCE)
            while True:
                connection, _ = listener.accept()
                connection.settimeout(PATIENCE)
                accepted.append(connection)
                waiting and waiting.pop(0).close()
                if connection.recv(65536) == encode("ECHO", 1):
                    break
            connection.sendall(b"$1\r\n1\r\n")
            assert one.read() == b"$1\r\n1\r\n"
        for connection in waiting + accepted:
            connection.close()


@private
def test_requests_sent_while_connecting_wait_for_it(start_hasp):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        waiting = fill_backlog(listener.getsockname())
        hasp = start_hasp(upstream="%s:%d" % listener.getsockname())
        requests = b"".join(encode("ECHO", n) for n in range(1000))
        with hasp.connect() as one:
            one.send(requests)
            for s in waiting:
                s.close()
            listener.settimeout(PATIENCE)
            first, got = b"", b""
            while not first.startswith(encode("ECHO", 0)):
                connection, _ = listener.accept()
                connection.settimeout(5)
                try:
                    first = connection.recv(65536)
                except (TimeoutError, ConnectionError):
                    continue
            got = first
            while len(got) < len(requests):
                got += connection.recv(65536)
            assert got == requests
            connection.close()


# --- Redis dies ------------------------------------------------------------------


@private
@pytest.mark.parametrize("partial", [b"", b"$100\r\n", b"$100\r\nabc", b"*2\r\n:1\r\n", b"+O"])
def test_redis_dying_in_a_reply_closes_the_client_and_nothing_is_made_up(start_hasp, fake, partial):
    hasp = start_hasp(LOCKS, upstream=fake.address)
    with hasp.connect() as one:
        one.send(encode("GET", "a") + encode("GET", "b"))
        upstream, _ = fake.client()
        upstream.sendall(b"$1\r\nx\r\n" + partial)
        upstream.close()
        assert all_bytes(one) == b"$1\r\nx\r\n" + partial


def is_unknown(answer):
    return (answer.startswith(b"-ERR hasp: upstream ") and answer.count(b"\r\n") == 1
            and answer.endswith(b"whether the command was carried out is not known\r\n"))


@pytest.mark.parametrize("command", [
    ("GET", "stock:1"), ("SET", "stock:1", 1), ("INCR", "stock:1"),
    ("SETNX", "lock:1", 1), ("SET", "lock:1", 1, "NX"), ("LOCK", "k"), ("UNLOCK", "k"), ("DEL", "lock:1")])
def test_lock_of_unknown_outcome_is_an_error(start_hasp, redis_server, command):
    hasp = start_hasp(LOCKS + "[guard stock]\npattern = stock:*\nacquire_on = GET\nwait = 0\n")
    until(lambda: "upstream_up" in hasp.log, "hasp to know which commands can share a link")
    with hasp.connect() as one:
        assert one.call("PING") == PONG
        redis_server.signal(signal.SIGSTOP)
        one.send(encode(*command) + encode("PING"))
        hasp.take_turn()
        redis_server.kill()
        assert is_unknown(all_bytes(one))


@private
@pytest.mark.parametrize("partial", [b":", b"+O", b"-NOSCR", b"-NOSCRIPT No matching script."])
def test_lock_whose_reply_is_cut_is_not_taken(start_hasp, fake, partial):
    hasp = start_hasp(LOCKS, upstream=fake.address)
    with hasp.connect() as one:
        one.send(encode("SETNX", "lock:1", "v"))
        upstream, request = fake.client()
        assert b"EVALSHA" in request
        upstream.sendall(partial)
        upstream.close()
        # hasp sends a lock's result only when it has all of it.
        assert is_unknown(all_bytes(one))


@private
def test_redis_restarted_between_commands_closes_clients_with_a_link(share_hasp, redis_server):
    hasp = share_hasp(LOCKS)
    with hasp.connect() as one, hasp.connect() as idle:
        assert one.call("SETNX", "lock:1", "v") == b":1\r\n"
        redis_server.kill()
        assert one.at_end()
        redis_server.start()
        assert idle.call("SETNX", "lock:1", "v") == b":1\r\n"  # the restarted Redis has lost hasp's scripts


@pytest.mark.parametrize("pooling", ["shared"])
def test_redis_restarted_between_commands_is_not_noticed_on_a_shared_link(start_hasp, redis_server):
    hasp = start_hasp(LOCKS)
    until(lambda: "upstream_up" in hasp.log, "hasp to know which commands can share a link")
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SETNX", "lock:1", "v") == b":1\r\n"
        assert other.call("DEL", "lock:1") == b":0\r\n"
        redis_server.kill()
        redis_server.start()
        assert one.call("SETNX", "lock:1", "v") == b":1\r\n"
        assert other.call("DEL", "lock:1") == b":0\r\n"


class Relay:
    """A relay between hasp and Redis that loses Redis' bytes from any position on."""

    def __init__(self, redis):
        self.redis = redis
        self.left = None  # number of bytes that new connections may still receive in total; None: no limit
        self.lock = threading.Lock()
        self.connections = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self):
        return "%s:%d" % self.listener.getsockname()

    def limit(self, left):
        with self.lock:
            self.left = left

    def drop(self):
        """Closes all connections but the first, which is hasp's own."""
        while len(self.connections) > 1:
            shut(self.connections.pop())

    def _accept(self):
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            there.connect(str(self.redis.unix))
            self.connections.append(here)
            threading.Thread(target=self._pump, args=(here, there, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(there, here, self.left is not None),
                             daemon=True).start()

    def _pump(self, source, sink, limited):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                part = self._take(data) if limited else data
                sink.sendall(part)
                if len(part) < len(data):
                    break
        shut(source)
        shut(sink)

    def _take(self, data):
        """Returns the part of `data` that `left` allows; nothing if limit(None) has been called.
        (hasp may have two connections: a worker asks Redis about logins over the other.)"""
        with self.lock:
            if self.left is None:
                return b""
            part = data[:self.left]
            self.left -= len(part)
            return part


def shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def test_replies_lost_from_any_byte_on_are_not_made_up(start_hasp, redis_server):
    """The client gets the bytes that arrived, then an error in place of a lock's unknown result, or
    the end of the connection. After that, hasp continues to serve."""
    relay = Relay(redis_server)
    hasp = start_hasp(LOCKS, upstream=relay.address)
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    plain = redis_server.client()
    requests = b"".join(encode(*command) for command in [
        ("RPUSH", "list", "a", "bb"), ("SETNX", "lock:1", "v"), ("LRANGE", "list", 0, -1), ("UNLOCK", "k"),
        ("NO-SUCH",), ("SET", "lock:1", "w", "NX"), ("ECHO", "done")])
    expected = (b":2\r\n:1\r\n*2\r\n$1\r\na\r\n$2\r\nbb\r\n:0\r\n"
                b"-ERR unknown command 'NO-SUCH', with args beginning with: \r\n$-1\r\n$4\r\ndone\r\n")
    for left in [*range(0, 40, 3), *range(40, len(expected), 10), len(expected) - 1]:
        plain.flushdb()
        relay.drop()
        relay.limit(left)
        with hasp.connect() as one:
            one.send(requests)
            got = all_bytes(one)
        came, _, unknown = got.partition(b"-ERR hasp: ")
        assert expected.startswith(came) and came != expected
        assert not unknown or (expected[len(came):len(came) + 1] in b":$"
                               and is_unknown(b"-ERR hasp: " + unknown))
        relay.limit(None)
        until(lambda: answers(hasp), "hasp to serve new clients")


def answers(hasp):
    """Checks that a new client is served over a shared link, and over one of its own (MULTI)."""
    with hasp.connect() as one:
        one.send(encode("ECHO", 1) + encode("MULTI"))
        return one.file.readline() == b"$1\r\n" and one.file.readline() and one.file.readline() == OK


@private
def test_last_words_of_redis_are_heard_although_writing_fails(start_hasp, fake):
    """hasp notices the broken connection when it writes, before it has read Redis' last bytes."""
    hasp = start_hasp(upstream=fake.address)
    with hasp.connect() as one:
        one.send(encode("ECHO", 1))
        upstream, _ = fake.client()
        upstream.sendall(b"$1\r\n1\r\n")
        assert one.read() == b"$1\r\n1\r\n"
        hasp.signal(signal.SIGSTOP)
        one.send(encode("ECHO", 2) * 1000)
        upstream.sendall(b"-ERR last words\r\n")
        upstream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        upstream.close()
        hasp.signal(signal.SIGCONT)
        assert all_bytes(one) == b"-ERR last words\r\n"


def test_redis_that_takes_no_more_clients_says_so_itself(start_hasp, redis_server):
    hasp = start_hasp()
    until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
    with redis_server.client() as plain:
        plain.config_set("maxclients", len(plain.client_list()))
        with hasp.connect() as one:
            assert one.call("ECHO", 1) == b"-ERR max number of clients reached\r\n"


# --- the server is no Redis, or a broken one ---------------------------------------


@private
@pytest.mark.parametrize("garbage", [
    b"HTTP/1.1 400 Bad Request\r\n", b"\0" * 100, b"$-5\r\n", b"$x\r\n", b"*-2\r\n", b"$1\r\nxyz\r\n",
    b":\r\n"])
def test_what_is_no_reply_closes_the_client(start_hasp, fake, garbage):
    hasp = start_hasp(LOCKS, upstream=fake.address)
    with hasp.connect() as one:
        one.send(encode("GET", "a") + encode("GET", "b"))
        upstream, _ = fake.client()
        upstream.sendall(b"$1\r\nx\r\n" + garbage)
        assert all_bytes(one).startswith(b"$1\r\nx\r\n")


@private
@pytest.mark.parametrize("error", [
    b"-LOADING Redis is loading the dataset in memory\r\n",
    b"-READONLY You can't write against a read only replica.\r\n",
    b"-OOM command not allowed when used memory > 'maxmemory'.\r\n",
    b"-BUSY Redis is busy running a script.\r\n"])
def test_errors_are_told_verbatim(start_hasp, fake, error):
    hasp = start_hasp(LOCKS, upstream=fake.address)
    with hasp.connect() as one:
        one.send(encode("SETNX", "lock:1", "v") + encode("GET", "a"))
        upstream, _ = fake.client()
        upstream.sendall(error)
        assert one.read() == error
        assert upstream.recv(65536) == encode("GET", "a")
        upstream.sendall(error)
        assert one.read() == error


@private
@pytest.mark.parametrize("command", [("SETNX", "lock:1", "v"), ("DEL", "lock:1"), ("LOCK", "l"), ("UNLOCK", "l")])
def test_noscript_for_the_second_time_is_told(start_hasp, fake, command):
    """hasp must not repeat the call for ever if a server answers EVAL with NOSCRIPT."""
    hasp = start_hasp(LOCKS, upstream=fake.address)
    with hasp.connect() as one:
        one.send(encode(*command))
        upstream, request = fake.client()
        assert b"EVALSHA" in request
        upstream.sendall(b"-NOSCRIPT No matching script.\r\n")
        assert upstream.recv(65536).split(b"\r\n")[2] == b"EVAL"
        upstream.sendall(b"-NOSCRIPT No matching script.\r\n")
        assert one.read() == b"-NOSCRIPT No matching script.\r\n"


@private
def test_own_connection_survives_a_redis_that_is_none(start_hasp, redis_server):
    """The server answers COMMAND with nonsense: hasp logs that, and clients continue."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        hasp = start_hasp(LOCKS, upstream="%s:%d" % listener.getsockname())
        own, _ = listener.accept()
        assert b"PING" in own.recv(65536)
        own.sendall(b"+PONG\r\n-ERR unknown command\r\n+OK\r\n*1\r\n$6\r\nmaster\r\n$0\r\n\r\n"
                    b"*2\r\n*1\r\n:1\r\n$3\r\nfoo\r\n")
        until(lambda: "upstream_up" in hasp.log or "upstream_refused" in hasp.log, "hasp to accept or refuse the server")
        with hasp.connect() as one:
            one.send(encode("SETNX", "lock:1", "v"))
            listener.settimeout(PATIENCE)
            upstream, _ = listener.accept()
            assert b"EVALSHA" in upstream.recv(65536)  # hasp uses its built-in table of commands
            upstream.sendall(b":1\r\n")
            assert one.read() == b":1\r\n"
            upstream.close()
        own.close()
