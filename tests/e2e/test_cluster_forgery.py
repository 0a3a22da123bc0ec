# SPDX-License-Identifier: BSD-3-Clause
"""Scripts of a cluster's clients that answer as if their node had redirected them.

A script may return any error. hasp must not believe a script's MOVED or ASK, because hasp would
send passwords and other clients' commands to an address that the script chose.
"""

import contextlib
import socket
import threading

import pytest

from harness.resp import pipeline
from harness.sections import rule
from harness.shared_cluster import hasp_of_cluster  # noqa: F401

KEY = "mine:{victim}"
SCRIPT = "return redis.error_reply('%s')"
LIBRARY = "#!lua name=forgery\nredis.register_function('forge', function(_, args) return redis.error_reply(args[1]) end)"
VALUE = b"$5\r\nvalue\r\n"


class Forger:
    """The server to which a forged redirection leads. It records hasp's bytes, and answers each
    piece with a value."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.received = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=self.listener.accept()[:1], daemon=True).start()

    def serve(self, sock):
        self.received.append(b"")
        with contextlib.suppress(OSError), sock:
            while piece := sock.recv(65536):
                self.received.append(piece)
                sock.sendall(b"$6\r\nforged\r\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def by_eval(_, error):
    return [("EVAL", SCRIPT % error, 1, KEY)]


def by_eval_ro(_, error):
    return [("EVAL_RO", SCRIPT % error, 1, KEY)]


def by_evalsha(client, error):
    sha = client.call("SCRIPT", "LOAD", SCRIPT % error).split()[1].decode()
    return [("EVALSHA", sha, 1, KEY)]


def by_fcall(client, error):
    client.call("FUNCTION", "LOAD", "REPLACE", LIBRARY)
    return [("FCALL", "forge", 1, KEY, error)]


def without_keys(_, error):
    return [("EVAL", SCRIPT % error, 0)]


def of_a_rule(_, error):
    return [("EVAL", SCRIPT % error, 1, "lock:{victim}")]


def in_a_long_request(_, error):
    return [("EVAL", SCRIPT % error, 1, KEY, "x" * 2**18)]


def with_links_of_its_own(client, error):
    client.call("CLIENT", "NO-EVICT", "OFF")
    return by_eval(client, error)


WAYS = [by_eval, by_eval_ro, by_evalsha, by_fcall, without_keys, of_a_rule, in_a_long_request, with_links_of_its_own]


@pytest.fixture(name="forger")
def somewhere_else():
    with Forger() as forger:
        yield forger


def victims(hasp, slot_key="{victim}"):
    """Returns the reply to another client, whose command goes to the slot that the script named."""
    with hasp.connect() as other:
        return other.call("GET", slot_key)


@pytest.mark.parametrize("word", ["MOVED", "ASK"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_redirection_that_a_script_forges_is_its_reply(shared_cluster, start_hasp, forger, way, word):
    hasp = start_hasp(rule(), upstream=shared_cluster.upstream)
    error = f"{word} {shared_cluster.slot(KEY)} {forger.address}"
    with hasp.connect() as client:
        assert client.call("SET", "{victim}", "value") == b"+OK\r\n"
        *_, reply = pipeline(client, *way(client, error))
        assert reply == b"-%s\r\n" % error.encode()
        assert client.call("GET", "{victim}") == VALUE
    assert victims(hasp) == VALUE
    assert not forger.received


def test_a_script_is_run_once_whatever_error_it_answers(shared_cluster, hasp):
    with hasp.connect() as client:
        for n, error in enumerate(["TRYAGAIN later", "CLUSTERDOWN The cluster is down", "MOVED 1 nowhere"], 1):
            script = f"redis.call('INCR', KEYS[1]); {SCRIPT % error}"
            assert client.call("EVAL", script, 1, KEY) == b"-%s\r\n" % error.encode()
            assert client.call("GET", KEY) == b"$1\r\n%d\r\n" % n


def test_a_transaction_whose_multi_is_refused_redirects_nobody(shared_cluster, start_hasp, forger):
    """Redis has refused MULTI, so the script runs at once, outside of a transaction."""
    for node in shared_cluster.nodes:
        node.ask("ACL", "SETUSER", "tricky", "reset", "on", ">pw", "~*", "+@all", "-multi")
    try:
        hasp = start_hasp(upstream=shared_cluster.upstream)
        error = f"MOVED {shared_cluster.slot(KEY)} {forger.address}"
        with hasp.connect() as client:
            assert client.call("SET", "{victim}", "value") == b"+OK\r\n"
            assert client.call("AUTH", "tricky", "pw") == b"+OK\r\n"
            pipeline(client, ("MULTI",), ("EVAL", SCRIPT % error, 1, KEY), ("EVAL", SCRIPT % error, 1, KEY), ("EXEC",))
        assert victims(hasp) == VALUE
        assert not forger.received
    finally:
        for node in shared_cluster.nodes:
            node.ask("ACL", "DELUSER", "tricky")


def test_a_script_does_not_lead_hasp_to_itself(shared_cluster, hasp):
    host, port = hasp.address
    with hasp.connect() as other, hasp.connect() as client:
        assert other.call("SET", "{victim}", "value") == b"+OK\r\n"
        error = f"MOVED {shared_cluster.slot(KEY)} {host}:{port}"
        assert client.call("EVAL", SCRIPT % error, 1, KEY) == b"-%s\r\n" % error.encode()
        assert other.call("GET", "{victim}") == VALUE


def test_scripts_follow_a_slot_that_moves_for_good(shared_cluster, hasp):
    slot = shared_cluster.slot("k")
    new = shared_cluster.other_than(slot)
    incr = ("EVAL", "return redis.call('INCR', KEYS[1])", 1, "{k}")
    with hasp.connect() as client:
        assert client.call(*incr) == b":1\r\n"
        source = shared_cluster.begin_migration(slot, new)
        assert client.call("EVAL", "return redis.call('INCR', KEYS[1])", 1, "{k}:new") == b":1\r\n"
        shared_cluster.move_keys(slot, source, new)
        assert client.call(*incr) == b":2\r\n"
        shared_cluster.end_migration(slot, source, new)
        assert pipeline(client, incr, ("GET", "{k}"), incr) == [b":3\r\n", b"$1\r\n3\r\n", b":4\r\n"]
