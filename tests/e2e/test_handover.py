# SPDX-License-Identifier: BSD-3-Clause
"""SIGUSR2: the old hasp hands its clients over to the new one, and the clients do not notice.

A client leaves the old process when it is at rest: it has no request in flight, and no lock, guard,
transaction or subscription. test_handover_processes.py tests the messages between the two
processes.
"""

import contextlib
import re
import threading

import pytest
from harness import Connection, until
from harness.by_hand import alive
from harness.generations import Generations, generations  # noqa: F401
from harness.guards import guard
from harness.marks import covers
from harness.poolings import pooling  # noqa: F401
from harness.replies import FENCE, FULL, NIL, OK, ONE, PONG, QUEUED, bulk
from harness.resp import encode, pipeline
from harness.sections import VERBS, rule, section

RULES = VERBS + rule(pattern="lock:*") + rule("values", pattern="value:*", owner="value") + guard(pattern="stock:*", lease="60s", wait="60s")


def left(hasps):
    """Waits until the first hasp has handed over all of its clients, and exits."""
    until(lambda: not hasps.hasp.running(), "the old hasp to leave")


# --- under load ---------------------------------------------------------------------------


class Loop(threading.Thread):
    """Calls `step(connection, number)` repeatedly on one connection; `count` is the sum of its
    results."""

    def __init__(self, address, number, step):
        super().__init__(daemon=True)
        self.address, self.number, self.step = address, number, step
        self.faults, self.count, self.rounds, self.ending = [], 0, 0, threading.Event()

    def run(self):
        try:
            with Connection(self.address) as one:
                while not self.ending.is_set():
                    self.count += self.step(one, self.number)
                    self.rounds += 1
        except (OSError, EOFError, AssertionError) as fault:
            self.faults.append(repr(fault))


def increase(one, _):
    assert one.call("INCR", "n")[:1] == b":"
    return 1


def increase_at_once(one, _):
    replies = pipeline(one, *[("INCR", "n")] * 20)
    assert all(reply[:1] == b":" for reply in replies)
    return len(replies)


def lock_and_increase(one, number):
    key = f"lock:{number}"
    assert one.call("SETNX", key, "v") == ONE
    increase(one, number)
    assert one.call("DEL", key) == ONE
    return 1


def lock_and_increase_at_once(one, number):
    """hasp reads each request from its buffer only when the one before it is answered."""
    key = f"lock:{number}"
    assert pipeline(one, ("SETNX", key, "v"), ("DEL", key), ("INCR", "n"))[:2] == [ONE, ONE]
    return 1


def verb_and_increase(one, _):
    assert one.call("LOCK", "k", "PX", 60000, "WAIT", 60000) == FENCE
    increase(one, 0)
    assert one.call("UNLOCK", "k") == ONE
    return 1


def transact_and_increase(one, _):
    assert pipeline(one, ("MULTI",), ("INCR", "n")) == [OK, QUEUED]
    assert one.call("EXEC")[:5] == b"*1\r\n:"
    return 1


def update_and_increase(one, number):
    key = f"stock:{number}"
    value = one.call("GET", key)
    before = 0 if value == NIL else int(value.split(b"\r\n")[1])
    assert one.call("SET", key, before + 1) == OK
    return increase(one, number)


@contextlib.contextmanager
def loops(address, *steps):
    threads = [Loop(address, number, step) for number, step in enumerate(steps)]
    for thread in threads:
        thread.start()
    try:
        yield threads
    finally:
        for thread in threads:
            thread.ending.set()
        for thread in threads:
            thread.join()


def go_on(threads):
    """Waits until each client has done two more rounds, or has failed."""
    before = [thread.rounds for thread in threads]
    until(lambda: all(thread.faults or thread.rounds > then + 1 for thread, then in zip(threads, before)),
          "two more rounds of each client")


@covers("upgraded")
def test_upgrades_are_not_noticed_by_clients_that_stay_connected(generations, plain):
    """Each client keeps one connection, which six processes serve in turn."""
    hasps = generations(RULES, workers=2, drain_timeout="60s")
    steps = [increase] * 6 + [increase_at_once] * 2 + [lock_and_increase] * 2 + [verb_and_increase] * 2 + \
        [lock_and_increase_at_once, transact_and_increase, update_and_increase]
    with loops(hasps.hasp.address, *steps) as threads:
        for _ in range(5):
            go_on(threads)
            hasps.upgrade()
            go_on(threads)
    assert [thread.faults for thread in threads if thread.faults] == []
    assert plain.get("n") == str(sum(thread.count for thread in threads))
    until(lambda: not any(map(alive, hasps.pids[1:-1])), "all but the last hasp to leave")
    handed = re.findall(r" handed_over clients=(\d+)", hasps.hasp.log)
    assert sum(int(n) >= len(threads) for n in handed) >= 3, handed


def test_upgrades_that_follow_each_other_at_once_are_not_noticed(generations, plain):
    """A client moves to the next hasp while that one already hands its clients over."""
    hasps = generations(workers=2)
    with loops(hasps.hasp.address, *[increase] * 6) as threads:
        go_on(threads)
        for _ in range(12):
            hasps.upgrade()
        go_on(threads)
    assert [thread.faults for thread in threads if thread.faults] == []
    assert plain.get("n") == str(sum(thread.count for thread in threads))


SLOW = """
local begin, now = redis.call("TIME"), nil
repeat now = redis.call("TIME") until (now[1] - begin[1]) * 1e6 + now[2] - begin[2] > 3000
return redis.call("INCR", KEYS[1])
"""


def test_client_that_is_never_at_rest_is_handed_over(generations):
    """The client always has a request in flight, so hasp stops reading from it to hand it over."""
    hasps = generations(drain_timeout="1h")
    request, sent, got, ending = encode("EVAL", SLOW, 1, "n"), 0, 0, threading.Event()
    with hasps.hasp.connect() as one:
        def send():
            nonlocal sent
            while not ending.wait(0.001):
                if sent - got < 100:
                    one.send(request)
                    sent += 1

        def read():
            nonlocal got
            got += 1
            assert one.read() == b":%d\r\n" % got

        sender = threading.Thread(target=send)
        sender.start()
        try:
            read()
            hasps.upgrade()
            while hasps.hasp.running():
                read()
                assert got < 3000, "the client stays with the old hasp"
            for _ in range(200):
                read()
        finally:
            ending.set()
            sender.join()
        while got < sent:
            read()


def test_many_clients_are_handed_over(generations):
    hasps = generations(workers=2, max_clients=1000)
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasps.hasp.connect()) for _ in range(400)]
        for number, one in enumerate(clients):
            assert one.call("CLIENT", "SETNAME", f"c{number}") == OK
        hasps.upgrade()
        left(hasps)
        for number, one in enumerate(clients):
            assert one.call("CLIENT", "GETNAME") == bulk(f"c{number}")
    assert "handed_over clients=400" in hasps.hasp.log


def test_workers_of_the_new_process_get_clients_in_turn(generations, tmp_path):
    hasps = generations(f"[admin]\nlisten = unix:{tmp_path}/admin\n", workers=1)
    hasp = hasps.hasp
    hasp.configure(hasp.config_file.read_text().replace("workers = 1", "workers = 4"))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(hasp.connect()) for _ in range(16)]
        assert all(one.call("PING") == PONG for one in clients)
        hasps.upgrade()
        left(hasps)
        ids = [row["id"] for row in shown(tmp_path / "admin")]
        assert sorted(int(each) % 64 for each in ids) == [n for n in range(4) for _ in range(4)]


# --- state that the new process takes over ------------------------------------------------


def shown(path):
    """Returns the rows of SHOW CLIENTS."""
    with Connection(str(path)) as console:
        assert console.call("HELLO", 3)[:1] == b"%"
        reply = console.call("SHOW", "CLIENTS").split(b"\r\n")
    words = [word.decode() for word in reply if word[:1] not in (b"*", b"%", b"$")]
    rows, word = [], iter(words)
    for name in word:
        if name == "id":
            rows.append({})
        if rows:
            rows[-1][name.removeprefix(":")] = next(word, "").removeprefix(":")
    return rows


def test_connection_is_as_it_was(generations, plain):
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">p", "~*", "&*", "+@all")
    hasps = generations()
    with hasps.hasp.connect() as one:
        assert one.call("HELLO", 3, "AUTH", "alice", "p", "SETNAME", "me")[:1] == b"%"
        assert one.call("SELECT", 3) == OK
        assert one.call("CLIENT", "SETINFO", "LIB-NAME", "lib")[:1] in (b"+", b"-")
        hasps.upgrade()
        left(hasps)
        assert one.call("GET", "none") == b"_\r\n"
        assert one.call("SET", "k", "v") == OK
        assert one.call("CLIENT", "GETNAME") == bulk("me")
        assert one.call("ACL", "WHOAMI") == bulk("alice")
        assert b" lib-name=lib " in one.call("CLIENT", "INFO") or "lib-name" not in str(plain.client_info())
    assert plain.execute_command("GET", "k") is None
    plain.execute_command("SELECT", 3)
    assert plain.execute_command("GET", "k") == "v"
    plain.execute_command("SELECT", 0)
    plain.execute_command("ACL", "DELUSER", "alice")


def test_first_part_of_a_request_is_handed_over(generations):
    hasps = generations(rule())
    request = encode("SET", "lock:1", "value", "NX", "PX", 60000)
    with contextlib.ExitStack() as stack:
        clients = [(stack.enter_context(hasps.hasp.connect()), at) for at in range(0, len(request) - 1, 3)]
        for one, at in clients:
            assert one.call("PING") == PONG
            one.send(request[:at])
        hasps.upgrade()
        left(hasps)
        replies = []
        for one, at in clients:
            one.send(request[at:])
            replies.append(one.read())
    assert sorted(replies) == sorted([OK] + [NIL] * (len(clients) - 1))


def test_client_that_has_sent_nothing_is_handed_over(generations):
    hasps = generations()
    with hasps.hasp.connect() as one:
        hasps.upgrade()
        left(hasps)
        assert one.call("PING") == PONG


def test_owner_stays_the_same(generations):
    """The connection is the same owner after an upgrade, although it had no lock meanwhile."""
    hasps = generations(VERBS)
    with hasps.hasp.connect() as one:
        assert one.call("LOCK", "k", "PX", 60000) == FENCE
        owner = re.search(rb"connection:\S+/[0-9a-f]{32}", one.call("LOCK.INFO", "k"))
        assert one.call("UNLOCK", "k") == ONE
        hasps.upgrade()
        left(hasps)
        assert one.call("LOCK", "k", "PX", 60000) == FENCE
        assert re.search(rb"connection:\S+/[0-9a-f]{32}", one.call("LOCK.INFO", "k")).group() == owner.group()


def test_value_that_a_client_has_read_is_known(generations, tmp_path):
    """With owner = value, a client that has read the lock's value may delete the lock."""
    hasps = generations(rule(owner="value") + f"[admin]\nlisten = unix:{tmp_path}/admin\n")
    with hasps.hasp.connect() as one, hasps.hasp.connect() as other, hasps.hasp.connect() as third:
        assert one.call("SET", "lock:1", "a b", "NX", "PX", 60000) == OK
        assert other.call("GET", "lock:1") == bulk("a b")
        hasps.upgrade()
        until(lambda: len(shown(tmp_path / "admin")) == 2, "the new hasp to have both clients at rest")
        assert third.call("DEL", "lock:1") != ONE
        assert other.call("DEL", "lock:1") == ONE


def test_read_that_a_guard_checks_is_checked_after_the_upgrade(generations, tmp_path, plain):
    """With strategy = check, the client stays connected, and its write is still for the value that it has read."""
    stock = section("guard stock", {"pattern": "stock:*", "acquire_on": "GET, MGET", "strategy": "check"})
    hasps = generations(stock + f"[admin]\nlisten = unix:{tmp_path}/admin\n")
    plain.mset({"stock:1": "a b", "stock:2": "c"})
    with hasps.hasp.connect() as one:
        assert one.call("GET", "stock:1") == bulk("a b")
        assert one.call("MGET", "stock:2", "stock:3") == b"*2\r\n" + bulk("c") + NIL
        assert one.call("GET", "stock:4") == NIL
        hasps.upgrade()
        until(lambda: len(shown(tmp_path / "admin")) == 1, "the new hasp to have the client at rest")
        plain.mset({"stock:1": "other", "stock:3": "new"})
        for key, is_lost in (("stock:1", True), ("stock:2", False), ("stock:3", True), ("stock:4", False)):
            answer = one.call("SET", key, "mine")
            assert answer.startswith(b"-LOCKLOST") if is_lost else answer == OK, key
            assert one.call("SET", key, "mine") == OK


def test_client_that_has_read_many_keys_is_handed_over(generations, tmp_path, plain):
    """The old process sends all that it knows of the client in one message."""
    stock = section("guard stock", {"pattern": "stock:*", "acquire_on": "GET", "strategy": "check"})
    hasps = generations(stock + f"[admin]\nlisten = unix:{tmp_path}/admin\n")
    keys = [f"stock:{n:060}" for n in range(1000)]
    with hasps.hasp.connect() as one:
        assert pipeline(one, *[("GET", key) for key in keys]) == [NIL] * len(keys)
        hasps.upgrade()
        until(lambda: len(shown(tmp_path / "admin")) == 1, "the new hasp to have the client at rest")
        plain.set(keys[0], "other")
        assert one.call("SET", keys[0], "mine").startswith(b"-LOCKLOST") and one.call("SET", keys[-1], "mine") == OK


def test_client_of_a_unix_socket_is_handed_over(generations, tmp_path):
    hasps = generations(listen=f"unix:{tmp_path}/s")
    with Connection(f"{tmp_path}/s") as one:
        assert one.call("SELECT", 1) == OK
        hasps.upgrade()
        left(hasps)
        assert one.call("SET", "k", "v") == OK


def test_client_keeps_its_age_and_its_address_behind_a_balancer(generations, tmp_path):
    hasps = generations(f"[admin]\nlisten = unix:{tmp_path}/admin\n", proxy_protocol="127.0.0.1")
    with hasps.hasp.connect() as one:
        one.send(b"PROXY TCP4 192.0.2.7 192.0.2.1 40123 6380\r\n")
        assert one.call("PING") == PONG
        before, = shown(tmp_path / "admin")
        hasps.upgrade()
        left(hasps)
        after, = shown(tmp_path / "admin")
    assert after["address"] == before["address"] == "192.0.2.7:40123"
    assert int(after["connected_ms"]) > int(before["connected_ms"])


@covers("drain_timeout")
def test_clients_at_rest_are_not_cut_off_by_a_short_time(generations):
    hasps = generations(drain_timeout=0)
    with hasps.hasp.connect() as one:
        assert one.call("PING") == PONG
        hasps.upgrade()
        left(hasps)
        assert one.call("PING") == PONG


@covers("max_clients", "handed_over")
def test_clients_that_were_handed_over_count(generations):
    hasps = generations(max_clients=2)
    with hasps.hasp.connect() as one, hasps.hasp.connect() as two:
        assert one.call("PING") == two.call("PING") == PONG
        hasps.upgrade()
        left(hasps)
        with hasps.hasp.connect() as third:
            assert third.read() == FULL
        assert one.call("PING") == two.call("PING") == PONG


@covers("listener_closed")
def test_client_of_a_listener_that_is_gone_is_closed(generations, tmp_path):
    hasps = generations(listen=f"127.0.0.1:0 unix:{tmp_path}/s")
    hasp = hasps.hasp
    hasp.configure(hasp.config_file.read_text().replace(f" unix:{tmp_path}/s", ""))
    with Connection(f"{tmp_path}/s") as one, hasp.connect() as two:
        assert one.call("PING") == two.call("PING") == PONG
        hasps.upgrade()
        assert one.at_end()
        assert f"listener_closed address=unix:{tmp_path}/s reason=" in hasps.hasp.log
        left(hasps)
        assert two.call("PING") == PONG


def test_client_of_a_cluster_is_handed_over(shared_cluster, start_hasp):
    hasp = start_hasp(upstream=shared_cluster.upstream)
    hasps = Generations(hasp)
    try:
        with hasp.connect() as one:
            assert one.call("CLIENT", "SETNAME", "me") == OK
            assert one.call("SET", "{a}1", "x") == one.call("SET", "{b}1", "y") == OK
            hasps.upgrade()
            left(hasps)
            assert one.call("MGET", "{a}1", "{b}1") == b"*2\r\n" + bulk("x") + bulk("y")
            assert one.call("CLIENT", "GETNAME") == bulk("me")
    finally:
        hasps.end()


# --- clients that stay with the old process -----------------------------------------------

AT_WORK = {
    "transaction": ([("MULTI",)], [OK], ("EXEC",), b"*0\r\n"),
    "watch": ([("WATCH", "k")], [OK], ("UNWATCH",), OK),
    "rule": ([("SET", "lock:1", "v", "NX", "PX", 60000)], [OK], ("DEL", "lock:1"), ONE),
    "value": ([("SET", "value:1", "v", "NX", "PX", 60000), ("GET", "value:1")], [OK, bulk("v")],
              ("DEL", "value:1"), ONE),
    "verb": ([("LOCK", "k", "PX", 60000)], [FENCE], ("UNLOCK", "k"), ONE),
    "guard": ([("GET", "stock:1")], [NIL], ("SET", "stock:1", 1), OK),
}


@pytest.mark.parametrize("what", AT_WORK)
def test_client_at_work_is_handed_over_when_it_is_done(generations, what):
    begin, replies, end, reply = AT_WORK[what]
    hasps = generations(RULES, drain_timeout="1h")
    with hasps.hasp.connect() as one, hasps.hasp.connect() as idle:
        assert pipeline(one, *begin) == replies
        assert idle.call("PING") == PONG
        hasps.upgrade()
        assert idle.call("PING") == PONG
        assert hasps.hasp.running()
        assert one.call(*end) == reply
        left(hasps)
        assert one.call("PING") == PONG


def test_blocked_client_is_handed_over_when_it_has_its_reply(generations, plain):
    hasps = generations(drain_timeout="1h")
    with hasps.hasp.connect() as one, hasps.hasp.connect() as gone:
        one.send(encode("BLPOP", "list", 0) + encode("PING"))
        gone.send(encode("BLPOP", "other", 0))
        until(lambda: sum(client["cmd"] == "blpop" for client in plain.client_list()) == 2, "both clients to block")
        hasps.upgrade()
        gone.sock.close()
        gone.file.close()
        until(lambda: sum(client["cmd"] == "blpop" for client in plain.client_list()) == 1, "the closed client to be gone")
        plain.rpush("list", "v")
        assert [one.read(), one.read()] == [b"*2\r\n" + bulk("list") + bulk("v"), PONG]
        left(hasps)
        assert one.call("PING") == PONG


def test_subscriber_stays_with_the_old_process(generations, plain):
    hasps = generations(drain_timeout="1h")
    with hasps.hasp.connect() as one:
        assert one.call("SUBSCRIBE", "c") == b"*3\r\n" + bulk("subscribe") + bulk("c") + ONE
        hasps.upgrade()
        plain.publish("c", "m")
        assert one.read() == b"*3\r\n" + bulk("message") + bulk("c") + bulk("m")
        assert hasps.hasp.running()
        assert one.call("UNSUBSCRIBE", "c") == b"*3\r\n" + bulk("unsubscribe") + bulk("c") + b":0\r\n"
        left(hasps)
        assert one.call("PING") == PONG


@pytest.mark.parametrize("command", [("CLIENT", "NO-EVICT", "ON"), ("CLIENT", "TRACKING", "ON", "BCAST")])
def test_client_whose_state_only_redis_knows_is_closed(generations, command):
    hasps = generations()
    with hasps.hasp.connect() as one:
        assert one.call("HELLO", 3)[:1] == b"%"
        assert one.call(*command) == OK
        hasps.upgrade()
        assert one.at_end()
        left(hasps)


def test_late_write_is_refused_as_if_there_had_been_no_upgrade(generations, plain):
    """hasp remembers a guard beyond its lease, and hands that memory over with the client."""
    hasps = generations(guard(pattern="stock:*", lease="1s", wait="60s"), drain_timeout="1h")
    with hasps.hasp.connect() as one:
        assert one.call("GET", "stock:1") == NIL
        hasps.upgrade()
        assert one.at_end()
    left(hasps)
    assert not plain.exists("stock:1")
