# SPDX-License-Identifier: BSD-3-Clause
"""Thousands of clients that wait at the same time."""

import collections
import selectors
import socket

from harness import encode, until
from harness.line import queue_of
from harness.load import clients_that_fit
from harness.replies import FENCE, ONE
from harness.sections import verbs
from harness.waiting import KEY


class Crowd:
    """`n` connections that are read without blocking."""

    def __init__(self, address, n):
        self.selector = selectors.DefaultSelector()
        self.ones = []
        for number in range(n):
            one = socket.create_connection(address)
            one.setblocking(False)
            self.selector.register(one, selectors.EVENT_READ, number)
            self.ones.append(one)

    def send(self, number, *command):
        self.ones[number].sendall(encode(*command))

    def replies(self):
        """Yields (number, reply) for each reply that a client gets; fails if none comes."""
        while True:
            ready = self.selector.select(LONG)
            assert ready, f"no reply in {LONG} s"
            for key, _ in ready:
                data = key.fileobj.recv(256)
                assert data.endswith(b"\r\n"), data
                yield key.data, data

    def close(self):
        self.selector.close()
        for one in self.ones:
            one.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


MANY = clients_that_fit(2500)
LONG = 300  # seconds in which Redis serves all clients, one after the other
LEASES = verbs(lease="1h")  # so long that hasp need not renew thousands of locks


def test_thousands_wait_for_one_lock_and_get_it_in_turn(start_hasp, plain):
    hasp = start_hasp(LEASES, max_clients=MANY + 50)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        with Crowd(hasp.address, MANY) as crowd:
            for number in range(MANY):
                crowd.send(number, "LOCK", KEY, "WAIT", 3600000, "AS", f"w{number}")
            until(lambda: plain.zcard(queue_of(KEY)) == MANY, "all clients to enter the queue", timeout=LONG)
            order = [int(entry.split()[7][1:]) for entry in plain.zrange(queue_of(KEY), 0, -1)]
            one.call("UNLOCK", KEY)
            got, last = [], 0
            for number, reply in crowd.replies():
                if reply == ONE:  # the reply to UNLOCK
                    continue
                assert reply == FENCE and int(reply[1:]) > last
                last = int(reply[1:])
                got.append(number)
                crowd.send(number, "UNLOCK", KEY, "AS", f"w{number}")
                if len(got) == MANY:
                    break
            assert got == order


def test_thousands_of_locks_are_waited_for_by_one_each(start_hasp, plain):
    hasp = start_hasp(LEASES, max_clients=MANY + 50)
    with hasp.connect() as one:
        one.sock.settimeout(LONG)
        one.send(b"".join(encode("LOCK", f"k{number}") for number in range(MANY)))
        assert [one.read() for _ in range(MANY)] == [FENCE] * MANY
        with Crowd(hasp.address, MANY) as crowd:
            for number in range(MANY):
                crowd.send(number, "LOCK", f"k{number}", "WAIT", 3600000)
            until(lambda: plain.dbsize() == 3 * MANY + 1, "all clients to enter their queues", timeout=LONG)
            one.send(b"".join(encode("UNLOCK", f"k{number}") for number in range(MANY)))
            got = collections.Counter()
            for number, reply in crowd.replies():
                assert reply == FENCE
                got[number] += 1
                if len(got) == MANY:
                    break
            assert set(got.values()) == {1}


def test_all_of_thousands_leave_when_they_hang_up(start_hasp, plain):
    hasp = start_hasp(LEASES, max_clients=MANY + 50)
    with hasp.connect() as one:
        one.call("LOCK", KEY)
        with Crowd(hasp.address, MANY) as crowd:
            for number in range(MANY):
                crowd.send(number, "LOCK", KEY, "WAIT", 3600000)
            until(lambda: plain.zcard(queue_of(KEY)) == MANY, "all clients to enter the queue", timeout=LONG)
        until(lambda: not plain.exists(queue_of(KEY)), "all clients to leave the queue", timeout=LONG)
        assert one.call("UNLOCK", KEY) == ONE and not plain.exists(KEY)
