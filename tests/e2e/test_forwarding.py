# SPDX-License-Identifier: BSD-3-Clause
"""Commands that no rule concerns pass as if hasp were not there.

The tests run with a rule, so that hasp has to look at each command. These are chosen cases;
test_differential.py sends random commands, and test_memory.py measures the memory of values.
"""

import os
import signal
import socket

import pytest

from harness import RedisServer, encode, until
from harness.poolings import pooling  # noqa: F401
from harness.relay import Relay
from harness.replies import FENCE, bulk

OK, PONG, QUEUED, NIL = b"+OK\r\n", b"+PONG\r\n", b"+QUEUED\r\n", b"$-1\r\n"
RULES = "[lock locks]\npattern = lock:*\n[verbs]\n"


@pytest.fixture
def hasp(share_hasp):
    return share_hasp(RULES)


@pytest.fixture
def one(hasp):
    with hasp.connect() as connection:
        yield connection


def rest(connection):
    """Returns all bytes up to the end of the connection."""
    return connection.file.read()


def half_close(connection):
    connection.sock.shutdown(socket.SHUT_WR)


# --- ends of connections ---------------------------------------------------------


@pytest.mark.parametrize("lock", [False, True])
def test_half_close_behind_a_pipeline_gets_every_reply(one, lock):
    commands, expected = [], []
    for n in range(1000):
        commands.append(encode("SETNX", f"lock:{n}", n) if lock and n % 10 == 0 else encode("ECHO", n))
        expected.append(b":1\r\n" if lock and n % 10 == 0 else bulk(n))
    one.send(b"".join(commands))
    half_close(one)
    assert rest(one) == b"".join(expected)


def test_half_close_in_a_blocking_command_ends_it(one, plain):
    one.send(encode("BLPOP", "list", 0))
    until(lambda: plain.info("clients")["blocked_clients"] == 1, "BLPOP to block")
    half_close(one)
    assert rest(one) == b""
    plain.rpush("list", "x")
    assert plain.llen("list") == 1  # no client took the element


def test_half_close_in_a_transaction_discards_it(one, plain):
    one.send(encode("MULTI") + encode("SET", "a", 1))
    half_close(one)
    assert rest(one) == OK + QUEUED
    assert not plain.exists("a")


def test_half_close_in_a_command_drops_what_there_is_of_it(one, plain):
    one.send(encode("SET", "a", 1) + encode("SET", "b", 1)[:-3])
    half_close(one)
    assert rest(one) == OK
    assert plain.keys() == ["a"]


def test_quit_is_answered_and_ends(one):
    one.send(encode("ECHO", 1) + encode("QUIT") + encode("ECHO", 2))
    assert rest(one) == bulk(1) + OK


def test_replies_still_to_be_fetched_survive_the_end_of_both_sides(hasp, plain):
    """Redis has answered and closed, the client half-closes, and reads the replies only then."""
    expected = bulk(b"x" * 400_000) + OK
    plain.set("big", b"x" * 400_000)
    with slow(hasp) as one:
        one.send(encode("CLIENT", "SETNAME", "quits") + encode("GET", "big") + encode("QUIT"))
        until(lambda: one.sock.recv(6, socket.MSG_PEEK) == OK + b"$", "the first bytes of the reply to GET")
        until(lambda: "quits" not in {client["name"] for client in plain.client_list()}, "Redis to close the connection")
        half_close(one)
        assert rest(one) == OK + expected


def test_reset_starts_over(one):
    assert one.call("HELLO", 3).startswith(b"%")
    assert one.call("SELECT", 5) == OK
    assert one.call("SET", "a", 1) == OK
    assert one.call("MULTI") == OK
    assert one.call("RESET") == b"+RESET\r\n"
    assert one.call("GET", "a") == NIL  # in database 0, in RESP2, outside of MULTI


@pytest.mark.parametrize("junk", [
    b"*x\r\n", b"*1\r\n:1\r\n", b"*1\r\n$x\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$600000000\r\n", b"*4294967296\r\n",
    b"set a \"b\r\n", b"x" * 70000])
def test_protocol_errors_are_redis_own(one, redis_server, junk):
    with redis_server.connect() as direct:
        for key, connection in (("lock:1", one), ("lock:2", direct)):
            connection.send(encode("ECHO", 1) + encode("SETNX", key, 1) + encode("DEL", key) + junk)
        answer = rest(direct)
        assert answer.count(b"-ERR Protocol error: ") == 1
        assert rest(one) == answer


class Listening(Relay):
    """A relay that records the bytes that it carries to Redis."""

    carried = b""

    def _pass_on(self, data, source, sink, replies):
        if not replies:
            self.carried += data
        super()._pass_on(data, source, sink, replies)


def test_a_line_that_servers_read_in_different_ways_is_not_sent(redis_server, start_hasp):
    """Valkey 9.1 reads 'b'c as one argument, so hasp would miss the key. hasp answers like a Redis
    that finds an unclosed quote."""
    with Listening(redis_server.address) as relay:
        hasp = start_hasp(RULES, upstream=f"address = {relay.address}")
        with hasp.connect() as one, redis_server.connect() as direct:
            one.send(b"ping\r\nset lock:1 'b'c\r\nping\r\n")
            direct.send(b"ping\r\nset lock:1 'b\r\nping\r\n")
            assert rest(one) == rest(direct)
        assert b"lock:1" not in relay.carried and b"ping" in relay.carried


# --- sizes -----------------------------------------------------------------------


def slow(hasp):
    """Returns a connection with a small receive buffer, which few unread replies fill."""
    return hasp.connect(timeout=20, receive_buffer=8192)


def test_long_value_comes_back_as_it_was_sent(one):
    value = os.urandom(1 << 20) * 20
    one.sock.settimeout(20)
    one.send(encode("SET", "big", value))
    assert one.read() == OK
    assert one.call("GET", "big") == bulk(value)


def test_long_value_for_a_lock(one, plain):
    value = os.urandom(1 << 20)
    assert one.call("SET", "lock:1", value, "NX") == OK
    assert one.call("GET", "lock:1") == bulk(value)
    assert plain.ttl("lock:1") > 0


def test_value_is_streamed_before_it_is_whole(one, redis_server):
    """Redis already has the beginning of a value that the client has not finished."""
    value = b"x" * 5_000_000
    request = encode("SET", "big", value)
    one.send(request[:-100])

    def arrived():
        with redis_server.client() as plain:
            return any(int(client["qbuf"]) > 4_000_000 for client in plain.client_list())
    until(arrived, "the value to arrive")
    one.send(request[-100:])
    assert one.read() == OK


def test_others_are_served_while_a_value_is_half_sent(hasp):
    request = encode("SET", "big", b"x" * 200_000)
    with hasp.connect() as sender, hasp.connect() as other:
        assert sender.call("PING") == PONG
        sender.send(request[:100_000])
        for n in range(10):
            assert other.call("ECHO", n) == bulk(n)
        sender.send(request[100_000:])
        assert sender.read() == OK


def test_others_are_served_while_a_client_does_not_read(hasp, plain):
    plain.set("big", b"x" * 1_000_000)
    with slow(hasp) as reader, hasp.connect() as other:
        reader.send(encode("GET", "big") * 20)
        until(lambda: reader.sock.recv(1, socket.MSG_PEEK), "the beginning")
        for n in range(10):
            assert other.call("ECHO", n) == bulk(n)
        for _ in range(20):
            assert len(reader.read()) == len(bulk(b"x" * 1_000_000))


def test_pipeline_written_whole_before_anything_is_read(hasp, plain):
    """The client sends 100,000 commands in one write, and only then reads the replies."""
    plain.set("a", "x" * 100)
    with hasp.connect() as one:
        one.sock.settimeout(20)
        one.send(encode("GET", "a") * 100_000)
        expected = bulk("x" * 100)
        for _ in range(100):
            assert one.file.read(len(expected) * 1000) == expected * 1000


def test_pipeline_with_locks_written_whole_before_anything_is_read(hasp, plain):
    """Each lock delays the commands after it. hasp must still read the whole pipeline."""
    plain.set("a", "x" * 1000)
    commands, expected = [], []
    for n in range(3000):
        commands += [encode("GET", "a") * 3, encode("SETNX", "lock:1", n)]
        expected += [bulk("x" * 1000) * 3, b":0\r\n" if n else b":1\r\n"]
    with slow(hasp) as one:
        one.send(b"".join(commands))
        assert one.file.read(sum(map(len, expected))) == b"".join(expected)


def test_client_that_sends_byte_by_byte(one):
    one.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in encode("SET", "a", "hello") + b"get a\r\n" + encode("SETNX", "lock:1", "v") + encode("GET", "lock:1"):
        one.send(bytes([byte]))
    assert [one.read() for _ in range(4)] == [OK, bulk("hello"), b":1\r\n", bulk("v")]


def test_transaction_of_ten_thousand_commands(one):
    one.sock.settimeout(20)
    one.send(encode("MULTI") + b"".join(encode("INCR", "n") for _ in range(10_000)) + encode("EXEC"))
    assert one.read() == OK
    assert one.file.read(len(QUEUED) * 10_000) == QUEUED * 10_000
    assert one.read() == b"*10000\r\n" + b"".join(b":%d\r\n" % (n + 1) for n in range(10_000))


def test_command_with_ten_thousand_keys(one, plain):
    keys = [f"k{n}" for n in range(10_000)]
    assert one.call("MSET", *(word for key in keys for word in (key, 1))) == OK
    assert one.call("DEL", *keys, "lock:1") == b":10000\r\n"
    assert plain.dbsize() == 0


def reads(plain):
    """Returns how often Redis has read from a connection."""
    return plain.info("stats")["total_reads_processed"]


@pytest.mark.parametrize("pooling", ["shared"])
def test_commands_of_many_clients_leave_together(start_hasp, plain):
    hasp = start_hasp(RULES)
    connections = [hasp.connect() for _ in range(50)]
    for connection in connections:
        assert connection.call("PING") == PONG

    def once():
        before = reads(plain)
        hasp.signal(signal.SIGSTOP)
        for n, connection in enumerate(connections):
            connection.send(encode("ECHO", n))
        hasp.signal(signal.SIGCONT)
        assert [connection.read() for connection in connections] == [bulk(n) for n in range(50)]
        return reads(plain) - before

    until(lambda: once() < 15, "fewer reads than commands")  # hasp loads its scripts during the first rounds
    for connection in connections:
        connection.close()


def test_pipeline_leaves_in_as_few_pieces_as_it_came_in(one, plain):
    assert one.call("PING") == PONG

    def once():
        before = reads(plain)
        one.send(encode("SET", "a", "b") * 100)
        assert one.file.read(500) == OK * 100
        return reads(plain) - before

    until(lambda: once() <= 2, "Redis to read the pipeline at once, and INFO")


# --- commands that break the order of request and reply ---------------------------


def test_blocking_commands_block_nobody_else(hasp, plain):
    with hasp.connect() as blocked, hasp.connect() as other:
        blocked.send(encode("BLPOP", "list", 0))
        until(lambda: plain.info("clients")["blocked_clients"] == 1, "BLPOP to block")
        for n in range(10):
            assert other.call("ECHO", n) == bulk(n)
        assert other.call("RPUSH", "list", "x") == b":1\r\n"
        assert blocked.read() == b"*2\r\n" + bulk("list") + bulk("x")
        assert blocked.call("PING") == PONG


def test_subscriber_in_resp2(hasp, plain):
    with hasp.connect() as one:
        one.send(encode("SUBSCRIBE", "a", "b") + encode("PSUBSCRIBE", "n*") + encode("PING"))
        assert [one.read() for _ in range(3)] == [
            b"*3\r\n" + bulk("subscribe") + bulk("a") + b":1\r\n",
            b"*3\r\n" + bulk("subscribe") + bulk("b") + b":2\r\n",
            b"*3\r\n" + bulk("psubscribe") + bulk("n*") + b":3\r\n"]
        assert one.read() == b"*2\r\n" + bulk("pong") + bulk("")
        plain.publish("a", "1")
        plain.publish("news", "2")
        assert one.read() == b"*3\r\n" + bulk("message") + bulk("a") + bulk("1")
        assert one.read() == b"*4\r\n" + bulk("pmessage") + bulk("n*") + bulk("news") + bulk("2")
        assert one.call("GET", "a").startswith(b"-ERR Can't execute 'get'")
        one.send(encode("UNSUBSCRIBE") + encode("PUNSUBSCRIBE") + encode("SETNX", "lock:1", 1) + encode("GET", "a"))
        assert [one.read()[-4:] for _ in range(3)] == [b":2\r\n", b":1\r\n", b":0\r\n"]
        assert [one.read(), one.read()] == [b":1\r\n", NIL]
    assert plain.ttl("lock:1") > 0


def test_subscriber_in_resp3_mixes_messages_and_replies(hasp):
    with hasp.connect() as one, hasp.connect() as publisher:
        one.call("HELLO", 3)
        assert one.call("SUBSCRIBE", "a") == b">3\r\n" + bulk("subscribe") + bulk("a") + b":1\r\n"
        seen = []
        for n in range(50):
            publisher.call("PUBLISH", "a", n)
            one.send(encode("ECHO", n) + encode("SETNX", f"lock:{n}", n))
        while len(seen) < 150:
            seen.append(one.read())
        assert [frame for frame in seen if frame.startswith(b">")] == [
            b">3\r\n" + bulk("message") + bulk("a") + bulk(n) for n in range(50)]
        assert [frame for frame in seen if not frame.startswith(b">")] == [
            frame for n in range(50) for frame in (bulk(n), b":1\r\n")]


def test_messages_to_oneself_in_resp3(one):
    one.call("HELLO", 3)
    one.call("SUBSCRIBE", "a")
    one.send(encode("PUBLISH", "a", "x") + encode("LOCK", "k") + encode("UNSUBSCRIBE", "a") + encode("ECHO", 1))
    frames = [b":fence" if frame == FENCE else frame for frame in (one.read() for _ in range(5))]
    assert sorted(frames) == sorted([
        b">3\r\n" + bulk("message") + bulk("a") + bulk("x"), b":1\r\n", b":fence",
        b">3\r\n" + bulk("unsubscribe") + bulk("a") + b":0\r\n", bulk(1)])
    assert frames[-1] == bulk(1)


def test_sharded_channels(one, plain):
    assert one.call("SSUBSCRIBE", "s") == b"*3\r\n" + bulk("ssubscribe") + bulk("s") + b":1\r\n"
    plain.execute_command("SPUBLISH", "s", "x")
    assert one.read() == b"*3\r\n" + bulk("smessage") + bulk("s") + bulk("x")
    assert one.call("SUNSUBSCRIBE") == b"*3\r\n" + bulk("sunsubscribe") + bulk("s") + b":0\r\n"
    assert one.call("SETNX", "lock:1", 1) == b":1\r\n"


def test_monitor_sees_what_others_do(hasp):
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("MONITOR") == OK
        other.call("SET", "seen", 1)
        until(lambda: b'"SET" "seen" "1"' in one.read(), "MONITOR to show the SET")


def test_client_tracking_pushes_invalidations(hasp, plain):
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call("CLIENT", "TRACKING", "ON") == OK
        assert one.call("GET", "a") == b"_\r\n"
        plain.set("a", 1)
        assert one.read() == b">2\r\n" + bulk("invalidate") + b"*1\r\n" + bulk("a")
        assert one.call("SETNX", "lock:1", 1) == b":1\r\n"


def test_client_tracking_redirected_in_resp2(hasp, plain):
    with hasp.connect() as one, hasp.connect() as listener:
        number = listener.call("CLIENT", "ID")[1:-2]
        listener.call("SUBSCRIBE", "__redis__:invalidate")
        assert one.call("CLIENT", "TRACKING", "ON", "REDIRECT", number) == OK
        assert one.call("GET", "a") == NIL
        plain.set("a", 1)
        assert listener.read() == b"*3\r\n" + bulk("message") + bulk("__redis__:invalidate") + b"*1\r\n" + bulk("a")


def test_client_reply_off_and_on(one, plain):
    one.send(encode("CLIENT", "REPLY", "OFF") + encode("SET", "a", 1) + encode("CLIENT", "REPLY", "ON") +
             encode("GET", "a") + encode("CLIENT", "REPLY", "SKIP") + encode("SET", "a", 2) + encode("GET", "a"))
    assert [one.read() for _ in range(3)] == [OK, bulk(1), bulk(2)]


def test_what_a_connection_is_told_of_itself_is_its_own(hasp):
    with hasp.connect() as one, hasp.connect() as other:
        for connection, name in ((one, "a"), (other, "b")):
            assert connection.call("CLIENT", "SETNAME", name) == OK
            assert connection.call("PING") == PONG
        assert (one.call("CLIENT", "GETNAME"), other.call("CLIENT", "GETNAME")) == (bulk("a"), bulk("b"))
        assert one.call("CLIENT", "ID") != other.call("CLIENT", "ID")
        assert b" name=a " in one.call("CLIENT", "INFO")


def test_databases_of_clients_do_not_mix(hasp):
    connections = [hasp.connect() for _ in range(8)]
    for n, connection in enumerate(connections):
        assert connection.call("SELECT", n) == OK
        assert connection.call("SET", "which", n) == OK
    for _ in range(3):
        for connection in connections:
            connection.send(encode("GET", "which"))
        for n, connection in enumerate(connections):
            assert connection.read() == bulk(n)
    for connection in connections:
        connection.close()


def test_protocol_versions_of_clients_do_not_mix(hasp, plain):
    plain.hset("h", "f", "v")
    with hasp.connect() as two, hasp.connect() as three:
        three.call("HELLO", 3)
        for _ in range(3):
            assert two.call("HGETALL", "h") == b"*2\r\n" + bulk("f") + bulk("v")
            assert three.call("HGETALL", "h") == b"%1\r\n" + bulk("f") + bulk("v")


def test_logins_of_clients_do_not_mix(hasp, plain):
    plain.execute_command("ACL", "SETUSER", "reader", "on", ">p", "~*", "+get", "+acl|whoami")
    with hasp.connect() as reader, hasp.connect() as other:
        assert reader.call("AUTH", "reader", "p") == OK
        for _ in range(3):
            assert other.call("SET", "a", 1) == OK
            assert reader.call("SET", "a", 2).startswith(b"-NOPERM")
            assert reader.call("GET", "a") == bulk(1)
            assert (reader.call("ACL", "WHOAMI"), other.call("ACL", "WHOAMI")) == (bulk("reader"), bulk("default"))


def test_wrong_login_is_refused_each_time(hasp, plain):
    plain.execute_command("ACL", "SETUSER", "u", "on", ">right", "~*", "+@all")
    with hasp.connect() as right, hasp.connect() as wrong:
        assert right.call("AUTH", "u", "right") == OK and right.call("PING") == PONG
        assert wrong.call("AUTH", "u", "wrong").startswith(b"-WRONGPASS")
        assert wrong.call("ACL", "WHOAMI") == bulk("default")
        assert wrong.call("HELLO", 3, "AUTH", "u", "wrong").startswith(b"-WRONGPASS")
        assert wrong.call("ACL", "WHOAMI") == bulk("default")


def test_user_deleted_is_logged_out(hasp, plain):
    plain.execute_command("ACL", "SETUSER", "u", "on", ">p", "~*", "+@all")
    with hasp.connect() as one, hasp.connect() as two:
        for connection in (one, two):
            assert connection.call("AUTH", "u", "p") == OK
            assert connection.call("SET", "a", 1) == OK
        plain.execute_command("ACL", "DELUSER", "u")
        for connection in (one, two):  # hasp or Redis closes the connection, or answers with an error
            try:
                assert connection.call("GET", "a").startswith(b"-")
            except (EOFError, ConnectionError):
                pass


def test_wait_counts_replicas(one):
    assert one.call("SET", "a", 1) == OK
    assert one.call("WAIT", 0, 0) == b":0\r\n"


def test_object_and_debug_pass(one):
    one.call("SET", "a", 1)
    assert one.call("OBJECT", "ENCODING", "a") == bulk("int")
    assert one.call("DEBUG", "SLEEP", 0) == OK


def test_functions_and_scripts(one):
    code = "#!lua name=mine\nredis.register_function('f', function(keys) return redis.call('GET', keys[1]) end)"
    assert one.call("FUNCTION", "LOAD", code) == bulk("mine")
    assert one.call("SET", "a", "v") == OK
    assert one.call("FCALL", "f", 1, "a") == bulk("v")
    digest = one.call("SCRIPT", "LOAD", "return ARGV[1]").split(b"\r\n")[1]
    assert one.call("EVALSHA", digest, 0, "x") == bulk("x")
    assert one.call("EVALSHA", "0" * 40, 0).startswith(b"-NOSCRIPT")


def test_every_type_of_resp3_passes(one):
    one.call("HELLO", 3)
    kinds = {"string": b"$", "integer": b":", "double": b",", "null": b"_", "array": b"*", "set": b"~", "map": b"%",
             "attrib": b"|", "bignum": b"(", "true": b"#", "false": b"#", "verbatim": b"="}
    for kind, first in kinds.items():
        assert one.call("DEBUG", "PROTOCOL", kind)[:1] == first
        assert one.call("LOCK", kind)[:1] == b":"


@pytest.mark.parametrize("client", ["redis", "redis-with-rule"])
def test_replica_syncs_and_follows_through_hasp(start_hasp, redis_server, plain, client):
    hasp = start_hasp(RULES if client == "redis-with-rule" else "")
    plain.config_set("repl-diskless-sync-delay", 0)
    plain.set("before", "x" * 100_000)
    with RedisServer(*hasp.replica_options) as replica:
        copy = replica.client()
        until(lambda: copy.info("replication")["master_link_status"] == "up", "the first synchronisation")
        assert copy.get("before") == "x" * 100_000
        for n in range(100):
            plain.set("after", n)
        with hasp.connect() as one:
            assert one.call("SETNX", "lock:1", "v") == b":1\r\n"
        until(lambda: copy.get("after") == "99" and copy.exists("lock:1"), "the replica to follow")
        assert plain.wait(1, 5000) == 1  # it acknowledges, too


def test_end_of_bad_requests_that_wait_for_their_link_to_log_in(share_hasp, redis_server):
    """The malformed request and the end of the connection arrive while the client's new link waits
    for Redis' answer to its login."""
    hasp = share_hasp()
    with hasp.connect() as one, hasp.connect() as other:
        for client in one, other:
            assert client.call("SELECT", 1) == OK and client.call("GET", "k") == NIL
        with redis_server.frozen():
            one.send(encode("WATCH", "k") + encode("GET", "k") + b"*1\r\n$x\r\n")
            one.sock.shutdown(socket.SHUT_WR)
            hasp.take_turn()
        assert one.read() == OK and one.read() == NIL
        assert one.read() == b"-ERR Protocol error: invalid bulk length\r\n"
        assert one.at_end() and other.call("GET", "k") == NIL
