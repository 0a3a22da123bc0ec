# SPDX-License-Identifier: BSD-3-Clause
"""What hasp does with a connection's locks when the connection ends: `on_disconnect`."""

import signal
import socket
import struct

import pytest
from harness import encode, until
from harness.marks import BOTH, covers
from harness.poolings import pooling  # noqa: F401
from harness.relay import Relay
from harness.renewal import rule, verbs
from harness.replies import NIL, OK, ONE, TAKEN, ZERO
from harness.resp import pipeline

KEY, SIDE = "lock:1", "hasp:owner:{lock:1}"


def reset(connection):
    """Closes with an RST instead of a FIN."""
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def gone(plain, *keys):
    """Waits until the keys are gone, long before the lease ends."""
    return until(lambda: not plain.exists(*keys), f"{keys} to go")


def close(hasp, plain, connection):
    connection.close()


def close_hard(hasp, plain, connection):
    reset(connection)


def close_half(hasp, plain, connection):
    connection.sock.shutdown(socket.SHUT_WR)
    assert connection.at_end()


def quit_(hasp, plain, connection):
    assert connection.call("QUIT") == OK


def be_killed(hasp, plain, connection):
    number = connection.call("CLIENT", "ID")[1:-2].decode()
    plain.client_kill_filter(_id=number)
    assert connection.at_end()


def break_the_protocol(hasp, plain, connection):
    connection.send(b"*1\r\n:1\r\n")
    assert connection.read().startswith(b"-ERR Protocol error")


ENDINGS = [close, close_hard, close_half, quit_, be_killed, break_the_protocol]


@covers("on_disconnect")
@BOTH
@pytest.mark.parametrize("end", ENDINGS)
def test_on_disconnect_release_frees_at_once(share_hasp, plain, end):
    hasp = share_hasp(rule(lease="30s", on_disconnect="release") + verbs(lease="30s", on_disconnect="release"))
    one = hasp.connect()
    one.call("SETNX", KEY, "v")
    one.call("SET", "lock:2", "v", "NX", "EX", 60)
    one.call("MSETNX", "lock:3", "v", "lock:4", "w")
    one.call("LOCK", "k")
    one.call("LOCK", "k")
    one.call("LOCK", "leased", "EX", 60)
    end(hasp, plain, one)
    assert gone(plain, KEY, SIDE, "lock:2", "lock:3", "lock:4", "k", "leased")


@pytest.mark.parametrize("sides", [[()], [["SHARED"]], [["EXCLUSIVE"]], [["EXCLUSIVE"], ["SHARED"]]])
def test_on_disconnect_release_gives_back_more_holds_than_hasp_has_tickets(share_hasp, plain, sides):
    hasp = share_hasp(verbs(lease="30s", on_disconnect="release"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            for side in sides:
                for _ in range(20):
                    assert one.call("LOCK", "k", *side).startswith(b":")
            other.send(encode("LOCK", "k", "WAIT", 20000, *sides[0]))
        assert other.read().startswith(b":")
        assert other.call("UNLOCK", "k") == ONE
    assert gone(plain, "k", "hasp:fence:{k}")


@pytest.mark.parametrize("owner", ["address", "name", "user", "value"])
def test_on_disconnect_release_with_every_owner(share_hasp, plain, owner):
    with share_hasp(rule(lease="30s", on_disconnect="release", owner=owner)).connect() as one:
        one.call("CLIENT", "SETNAME", "me")
        one.call("SETNX", KEY, "v")
    assert gone(plain, KEY)


def test_on_disconnect_expire_leaves_the_lock_for_its_lease(share_hasp, plain):
    released = "[lock released]\npattern = released\non_disconnect = release\n"
    hasp = share_hasp(rule(lease="30s") + verbs(lease="30s") + released)
    with hasp.connect() as one:
        one.call("SETNX", KEY, "v")
        one.call("LOCK", "k")
        one.call("SETNX", "released", "v")
    assert gone(plain, "released")
    with hasp.connect() as other:
        assert other.call("SETNX", KEY, "v") == ZERO
        assert other.call("LOCK", "k") == NIL
    assert plain.pttl(KEY) > 0 and plain.pttl("k") > 0


def test_release_does_not_free_what_is_anothers_by_now(share_hasp, plain):
    hasp = share_hasp(rule(lease="30s", on_disconnect="release"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.call("SETNX", KEY, "v")
            one.call("SETNX", "lock:2", "v")
            plain.delete(KEY)
            assert other.call("SETNX", KEY, "v") == ONE
        assert gone(plain, "lock:2")
        assert plain.exists(KEY)


@pytest.mark.parametrize("owner", ["connection", "address"])
def test_release_leaves_what_others_have_counted(share_hasp, plain, owner):
    """The counter is a read lock: each reader increments it, and a writer waits until it is gone.
    Each client uses another hasp."""
    file = rule(lease="30s", on_disconnect="release", owner=owner)
    with share_hasp(file).connect() as other:
        with share_hasp(file).connect() as one:
            assert one.call("INCRBY", KEY, 1) == ONE
            assert one.call("SETNX", "lock:2", "v") == ONE
            assert other.call("INCRBY", KEY, 1) == b":2\r\n"
        assert gone(plain, "lock:2")
        assert plain.get(KEY) == "1"
        assert other.call("SET", KEY, "writer", "NX") == NIL
        assert other.call("DECR", KEY) == ZERO


def test_release_deletes_what_its_owner_alone_has_counted(share_hasp, plain):
    hasp = share_hasp(rule(lease="30s", on_disconnect="release"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            assert pipeline(one, ("INCR", KEY), ("INCR", KEY), ("DECR", KEY), ("INCR", KEY))[-1] == b":2\r\n"
            assert pipeline(other, ("INCR", KEY), ("DECR", KEY)) == [b":3\r\n", b":2\r\n"]
        assert gone(plain, KEY, SIDE)


@BOTH
@pytest.mark.parametrize("lock, unlock", [
    ("LOCK k AS bob", "UNLOCK k AS bob"), ("LOCK k SHARED AS bob", "UNLOCK k AS bob"),
    ("MLOCK 2 k l AS bob", "MUNLOCK 2 k l AS bob")])
def test_release_of_an_owner_with_several_connections(share_hasp, plain, lock, unlock):
    """When a connection ends, hasp releases only that connection's hold."""
    hasp = share_hasp(verbs(lease="30s", on_disconnect="release"))
    with hasp.connect() as other:
        with hasp.connect() as one:
            for c in (one, other):
                assert c.call(*lock.split())[:1] == b":"
            assert other.call(*unlock.split()) in (ONE, b":2\r\n")
            assert plain.exists("k")
        assert gone(plain, "k", "l")


def test_release_in_another_database(share_hasp, redis_server):
    with share_hasp(rule(lease="30s", on_disconnect="release")).connect() as one:
        one.call("SELECT", 3)
        one.call("SETNX", KEY, "v")
    with redis_server.client(db=3) as third:
        assert gone(third, KEY, SIDE)


def test_release_although_the_scripts_were_lost(share_hasp, plain):
    with share_hasp(rule(lease="30s", on_disconnect="release")).connect() as one:
        one.call("SETNX", KEY, "v")
        plain.script_flush()
    assert gone(plain, KEY, SIDE)


@BOTH
def test_release_of_a_thousand_locks(share_hasp, plain):
    with share_hasp(rule(lease="30s", on_disconnect="release")).connect() as one:
        assert set(pipeline(one, *(("SETNX", f"lock:{n}", "v") for n in range(1000)))) == {ONE}
    until(lambda: plain.dbsize() == 0, "all locks to be released")


@BOTH
@pytest.mark.parametrize("take", [
    [("LOCK", "k")],
    [("SETNX", KEY, "v")],
    [("MSETNX", "lock:2", "v", KEY, "v")],
    [("MULTI",), ("LOCK", "k"), ("SETNX", KEY, "v"), ("EXEC",)],
])
@pytest.mark.parametrize("end", [close, close_hard])
def test_lock_in_flight_when_its_client_dies_is_freed(start_hasp, redis_server, plain, take, end):
    hasp = start_hasp(rule(lease="30s", on_disconnect="release") + verbs(lease="30s", on_disconnect="release")).is_up()
    one = hasp.connect()
    assert one.call("PING") == b"+PONG\r\n"
    evals = plain.info("commandstats").get("cmdstat_eval", {}).get("calls", 0)
    redis_server.signal(signal.SIGSTOP)
    one.send(b"".join(encode(*command) for command in take))
    end(hasp, plain, one)
    hasp.take_turn()
    redis_server.signal(signal.SIGCONT)

    def taken():
        stats = plain.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha")) > evals

    until(taken, "the lock to be taken")
    assert gone(plain, "k", KEY, "lock:2")


@BOTH
@pytest.mark.parametrize("take, key", [(("SETNX", KEY, "v"), KEY), (("LOCK", "k"), "k")])
def test_release_is_made_good_when_redis_is_back(start_hasp, redis_server, plain, take, key):
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(rule(lease="30s", on_disconnect="release") + verbs(lease="30s", on_disconnect="release"),
                          upstream=relay.address)
        with hasp.connect() as one:
            assert one.call(*take) in TAKEN
            until(lambda: "upstream_up" in hasp.log, "hasp's own connection")
            relay.cut()
            until(lambda: "upstream_down" in hasp.log, "hasp to notice that its connection is cut")
        hasp.take_turn()
        assert plain.exists(key)
        relay.mend()
        assert gone(plain, key)
