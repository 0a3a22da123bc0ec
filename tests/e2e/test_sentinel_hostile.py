# SPDX-License-Identifier: BSD-3-Clause
"""Servers that claim to be sentinels, and answer anything."""

import contextlib
import pathlib
import socket
import threading
import time

import pytest
from harness import encode, until
from harness.announcer import NAME, Announcer
from harness.lies import ANSWERS, bulks, naming
from harness.marks import covers
from harness.replicas import Replicas
from harness.replies import OK
from harness.sanitizers import sanitized
from harness.sections import verbs

MB = 1 << 20


class Told:
    """A server that answers every request with the same bytes."""

    def __init__(self, answer):
        self.answer, self.nasked = answer, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self.serve, args=self.listener.accept()[:1], daemon=True).start()

    def serve(self, sock):
        with contextlib.suppress(OSError), sock:
            while sock.recv(65536):
                self.nasked += 1
                sock.sendall(self.answer)


def upstream(*sentinels):
    return f"sentinels = {' '.join(sentinel.address for sentinel in sentinels)}\nmaster = mymaster\nfailover_wait = 20s\nconnect_timeout = 1s"


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_answer_that_names_no_primary_is_passed_over(start_hasp, redis_server, answer):
    with Told(answer) as odd, Told(naming(redis_server.host, redis_server.port)) as honest:
        hasp = start_hasp(verbs(), upstream=upstream(odd, honest))
        with hasp.connect(timeout=60) as client:
            assert client.call("SET", "k", 1) == OK
        assert odd.nasked


@pytest.mark.parametrize("begins", [b"", b"$400000000\r\n", b"*400000000\r\n", b"*2\r\n$300000000\r\n"])
def test_answer_without_end_takes_no_memory(start_hasp, redis_server, begins):
    filler = b"x" * 65536 if b"$" in begins else b"+x\r\n" * 16384
    with Told(b"") as odd, Told(naming(redis_server.host, redis_server.port)) as honest:
        odd.serve = lambda sock: flood(sock, begins, filler)
        hasp = start_hasp(upstream=upstream(odd, honest))
        with hasp.connect(timeout=60) as client:
            assert client.call("SET", "k", 1) == OK
        peak = int(pathlib.Path(f"/proc/{hasp.pid}/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
        assert sanitized() or peak < 64 * MB


def flood(sock, begins, filler):
    with contextlib.suppress(OSError), sock:
        sock.recv(65536)
        sock.sendall(begins)
        while True:
            sock.sendall(filler)


def test_others_that_are_none_are_not_asked_for_ever(start_hasp, redis_server):
    """The sentinel reports ten thousand other sentinels, which do not exist."""
    other = bulks(b"name", b"x", b"ip", b"127.0.0.1", b"port", b"1")
    answer = bulks(redis_server.host.encode(), str(redis_server.port).encode()) + b"*0\r\n*10000\r\n" + other * 10_000
    with Told(answer) as sentinel:
        hasp = start_hasp(upstream=upstream(sentinel))
        with hasp.connect(timeout=60) as client:
            assert client.call("SET", "k", 1) == OK


@pytest.mark.parametrize("who", ["itself", "hasp", "nobody"])
def test_primary_that_is_none_is_not_used(start_hasp, redis_server, who):
    """The sentinel names a wrong address; hasp asks again and uses the next answer."""
    with Told(b"") as sentinel:
        hasp = start_hasp(upstream=upstream(sentinel).replace("20s", "60s"))
        address = {"itself": sentinel.address, "hasp": "%s:%d" % hasp.address[:2], "nobody": "127.0.0.1:1"}[who]
        sentinel.answer = naming(*address.rsplit(":", 1))
        with hasp.connect(timeout=60) as client:
            client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\n1\r\n")
            asked = sentinel.nasked
            until(lambda: sentinel.nasked > asked + 2, "two more questions of hasp")
            sentinel.answer = naming(redis_server.host, redis_server.port)
            assert client.read() == OK


class Announcing(Announcer):
    """A sentinel that announces a switch shortly before each answer about the primary."""

    def _answer(self, words, answers):
        if "GET-MASTER-ADDR-BY-NAME" in words:
            for listener in self.listeners["+switch-master"]:
                with contextlib.suppress(OSError, ValueError):
                    listener.write(encode("message", "+switch-master", f"{NAME} 127.0.0.1 1 127.0.0.1 1"))
            time.sleep(0.1)
        return super()._answer(words, answers)


@covers("primary")
def test_announcements_at_each_question_do_not_keep_hasp_from_the_answer(start_hasp):
    with Replicas(1) as servers, Announcing(servers.primary) as sentinel:
        hasp = start_hasp(upstream=f"{sentinel.upstream}\nfailover_wait = 60s").is_up()
        until(sentinel.is_heard, "hasp to subscribe at the sentinel")
        replica = servers.replicas[0]
        sentinel.promotes(replica)
        sentinel.switches()
        with hasp.connect(timeout=60) as client:
            until(lambda: f"primary master={NAME} address=127.0.0.1:{replica.port}" in hasp.log, "hasp to find the new primary")
            assert client.call("SET", "k", 1) == OK
        assert replica.client().get("k") == "1"
