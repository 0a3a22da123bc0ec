# SPDX-License-Identifier: BSD-3-Clause
"""First come, first served: hasp serves requests that arrive while it is busy in their order.

The test freezes hasp, so that all requests are there in one turn of its loop. hasp and Redis each
finish a turn before that, because epoll keeps the place of a socket that it has reported until the
next wait. Clients use a unix socket, where bytes have arrived when send() returns; over TCP, the
kernel of a busy machine may deliver the later of two sends first.
"""

import contextlib

import pytest
from harness import encode, until
from harness.line import queue_of
from harness.load import clients_that_fit
from harness.replies import FENCE, OK, ONE, PONG, TAKEN
from harness.sections import VERBS, rule
from harness.waiting import KEY

SIX = range(6)
MANY = clients_that_fit(5000)


@pytest.fixture
def start(start_hasp, tmp_path):
    """Starts a hasp, and waits until it knows Redis' commands. Before that, each client would get a
    link of its own."""
    options = {"listen": f"unix:{tmp_path}/s", "backlog": 4096, "max_clients": MANY + 50}
    return lambda rules="": start_hasp(rules, **options).is_up()


def six(hasp, plain, clients):
    ones = [clients.enter_context(hasp.connect()) for _ in SIX]
    for one in ones:
        assert one.call("PING") == PONG
    take_turns(hasp, plain)
    return ones


def take_turns(hasp, plain):
    hasp.take_turn()
    plain.ping()


def test_writes_are_carried_out_in_the_order_in_which_they_came(start, plain):
    hasp = start()
    with contextlib.ExitStack() as clients:
        ones = six(hasp, plain, clients)
        with hasp.frozen():
            for number, one in enumerate(ones):
                one.send(encode("RPUSH", "l", number))
        for one in ones:
            one.read()
    assert plain.lrange("l", 0, -1) == [str(number) for number in SIX]


def test_writes_of_new_clients_are_carried_out_in_the_order_in_which_they_connected(start, plain):
    hasp = start()
    with contextlib.ExitStack() as clients:
        with hasp.frozen():
            ones = []
            for number in range(20):  # more connections than hasp accepts in one turn
                ones.append(clients.enter_context(hasp.connect()))
                ones[-1].send(encode("RPUSH", "l", number))
        for one in ones:
            one.read()
    assert plain.lrange("l", 0, -1) == [str(number) for number in range(20)]


@pytest.mark.parametrize("take", [("LOCK", KEY, "WAIT", 60000), ("SETNX", "lock:1", "v")])
def test_client_that_asks_for_a_lock_first_gets_it_first(start, plain, take):
    hasp = start(rule(wait="60s") + VERBS)
    give = ("UNLOCK", KEY) if take[0] == "LOCK" else ("DEL", "lock:1")
    with contextlib.ExitStack() as clients, hasp.connect() as holder:
        assert holder.call(*take) in TAKEN
        ones = six(hasp, plain, clients)
        with hasp.frozen():
            for one in ones:
                one.send(encode(*take) + encode("RPUSH", "l", ones.index(one)) + encode(*give))
        until(lambda: plain.zcard(queue_of(take[1])) == len(ones), "all clients to enter the queue")
        assert holder.call(*give) == ONE
        until(lambda: plain.llen("l") == len(ones), "all clients to have had the lock")
    assert plain.lrange("l", 0, -1) == [str(number) for number in SIX]


def test_client_with_a_link_of_its_own_does_not_pass_those_that_share_one(start, plain):
    hasp = start(VERBS)
    with contextlib.ExitStack() as clients, hasp.connect() as holder:
        assert holder.call("LOCK", KEY) == FENCE
        ones = six(hasp, plain, clients)
        for one in ones[3:]:
            assert one.call("WATCH", "other") == one.call("UNWATCH") == OK
        take_turns(hasp, plain)
        with hasp.frozen():
            for one in ones:
                one.send(encode("LOCK", KEY, "WAIT", 60000) + encode("UNLOCK", KEY))
        until(lambda: plain.zcard(queue_of(KEY)) == len(ones), "all clients to enter the queue")
        assert holder.call("UNLOCK", KEY) == ONE
        fences = [int(one.read()[1:]) for one in ones]
    assert fences == sorted(fences)


def test_five_thousand_get_a_lock_in_the_order_in_which_they_asked(start, plain):
    hasp = start(VERBS)
    with contextlib.ExitStack() as clients, hasp.connect() as holder:
        assert holder.call("LOCK", KEY) == FENCE
        ones = [clients.enter_context(hasp.connect(timeout=60)) for _ in range(MANY)]
        take_turns(hasp, plain)  # so hasp has accepted all clients
        with hasp.frozen():
            for one in ones:
                one.send(encode("LOCK", KEY, "WAIT", 120000) + encode("UNLOCK", KEY))
        until(lambda: plain.zcard(queue_of(KEY)) == MANY, "all clients to enter the queue", timeout=60)
        assert holder.call("UNLOCK", KEY) == ONE
        fences = []
        for one in ones:
            fences.append(int(one.read()[1:]))
            assert one.read() == ONE
    assert fences == sorted(fences)
