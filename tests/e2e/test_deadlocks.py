# SPDX-License-Identifier: BSD-3-Clause
"""Owners that wait for each other's locks in a circle: one owner gets an error at once, and the
others continue. The waits are much longer than the test, so no answer comes from a time-out.
"""


import pytest
from harness import encode, until
from harness.enforced import await_told, name_of
from harness.line import queue_of, stand
from harness.marks import covers
from harness.replies import FENCE, NIL, OK, ONE, bulk
from harness.scrape import HTTP, of
from harness.sections import rule, verbs
from harness.wait import TooSlow, readable

WAIT = 600_000
PLACES = ("LOCK", "places", "LIMIT", 2)
SECTIONS = (rule(wait="600s", lease="600s") + rule("values", pattern="value:*", owner="value", wait="600s", lease="600s")
            + rule("names", pattern="name:*", owner="name", wait="600s", lease="600s") + verbs(lease="600s")
            + "[guard stock]\npattern = stock:*\nacquire_on = GET\nlease = 600s\nwait = 600s\n")


@pytest.fixture(params=[1, 4])
def hasp(start_hasp, request):
    hasp = start_hasp(SECTIONS, workers=request.param)
    hasp.is_up(request.param)
    return hasp


@pytest.fixture
def parties(hasp):
    connections = []

    def connect(n):
        connections.extend(hasp.connect() for _ in range(n))
        return connections[-n:]

    yield connect
    for connection in connections:
        connection.close()


class Verb:
    """How a client takes lock number `i`, waits for it and releases it by LOCK and UNLOCK."""

    key = staticmethod("job:{}".format)
    queue = staticmethod(queue_of)
    answer = FENCE

    def take(self, key):
        return "LOCK", key, "WAIT", WAIT

    def give(self, key):
        return "UNLOCK", key


class Rule(Verb):
    key = staticmethod("lock:{}".format)
    answer = ONE

    def take(self, key):
        return "SETNX", key, "v"

    def give(self, key):
        return "DEL", key


class Guard(Verb):
    key = staticmethod("stock:{}".format)
    answer = NIL

    def queue(self, key):
        return f"hasp:queue:hasp:guard:{{{key}}}:"

    def take(self, key):
        return "GET", key

    def give(self, key):
        return "DEL", key


class Place(Verb):
    """A semaphore with one place, which is a mutex."""

    key = staticmethod("place:{}".format)

    def take(self, key):
        return "LOCK", key, "LIMIT", 1, "WAIT", WAIT


VERB, RULE, GUARD, PLACE = Verb(), Rule(), Guard(), Place()
WAYS = {"verbs": [VERB], "rules": [RULE], "guards": [GUARD], "places": [PLACE], "mixed": [PLACE, VERB, RULE, GUARD]}


def is_deadlock(reply, *keys):
    """Checks the -DEADLOCK error. `keys`: the circle's locks, from the one that the client asked
    for to the one that it has."""
    text = reply.decode()
    assert text.startswith(f"-DEADLOCK '{keys[0]}' is held by ") and text.endswith("\r\n")
    places = [text.find(f"'{key}'") for key in keys]
    return -1 not in places and places == sorted(places) and text.endswith(f", who waits for '{keys[-1]}'\r\n")


def closing(connection, others, *command):
    """Returns the error of the command that closes the circle. If hasp has not yet seen all waits,
    another client of the circle may get the error."""
    connection.send(encode(*command))
    return told(connection, others)


def told(connection, others):
    ready = readable(*(c.sock for c in (connection, *others)), timeout=25)
    if connection.sock not in ready:
        raise TooSlow("another client of the circle got the error")
    return connection.read()


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS.keys())
def test_who_closes_a_circle_is_told_and_the_others_go_on(parties, plain, ways, n):
    ways = [ways[i % len(ways)] for i in range(n)]
    keys = [way.key(i) for i, way in enumerate(ways)]
    party = parties(n)
    for connection, way, key in zip(party, ways, keys):
        assert connection.call(*way.take(key)) == way.answer
    for i in range(n - 1):
        stand(plain, party[i], *ways[i + 1].take(keys[i + 1]), queue=ways[i + 1].queue(keys[i + 1]))
    assert is_deadlock(closing(party[-1], party[:-1], *ways[0].take(keys[0])), *keys)
    until(lambda: not plain.exists(ways[0].queue(keys[0])), "the refused client to leave the queue")
    # The refused client releases; each other client then gets its lock and releases its own.
    for i in range(n - 1, 0, -1):
        party[i].call(*ways[i].give(keys[i]))
        assert party[i - 1].read() == ways[i].answer


@covers("deadlock")
def test_error_names_the_holder_as_the_log_does(hasp, parties, plain):
    one, other = parties(2)
    one.call("CLIENT", "SETNAME", "shop")
    one.call("LOCK", "a")
    other.call("LOCK", "b")
    stand(plain, one, "LOCK", "b", "WAIT", WAIT)
    error = closing(other, [one], "LOCK", "a", "WAIT", WAIT).decode()
    assert error == f"-DEADLOCK 'a' is held by {name_of(one)}, who waits for 'b'\r\n"
    await_told(hasp, "deadlock")
    assert f'event=deadlock key="a" by="{name_of(other)}"' in hasp.log


@covers("deadlock")
def test_error_names_no_key_and_no_holder_that_the_clients_user_may_not_see(clients, plain):
    for user, keys in ("app", ["~a*", "~hasp:*"]), ("other", ["~*"]):
        plain.execute_command("ACL", "SETUSER", user, "on", ">pw", *keys, "&*", "+@all")
    one, two, three = clients(3, SECTIONS)
    for connection, user, key in (one, "app", "a1"), (two, "other", "secret:2"), (three, "other", "a3"):
        assert connection.call("AUTH", user, "pw") == OK
        assert connection.call("LOCK", key) == FENCE
    stand(plain, two, "LOCK", "a1", "WAIT", WAIT)
    stand(plain, three, "LOCK", "secret:2", "WAIT", WAIT)
    error = closing(one, [two, three], "LOCK", "a3", "WAIT", WAIT).decode()
    assert error == (f"-DEADLOCK 'a3' is held by {name_of(three)}, who waits for another key, "
                     "held by another owner, who waits for 'a1'\r\n")


def test_names_behind_as_are_owners_of_several_connections(parties, plain):
    a, b, c, d = parties(4)
    a.call("LOCK", "a", "AS", "job-1")
    b.call("LOCK", "b", "AS", "job-2")
    stand(plain, c, "LOCK", "b", "WAIT", WAIT, "AS", "job-1")
    assert is_deadlock(closing(d, [c], "LOCK", "a", "WAIT", WAIT, "AS", "job-2"), "a", "b")
    assert b.call("UNLOCK", "b", "AS", "job-2") == ONE
    assert c.read() == FENCE


def test_values_are_owners(parties, plain):
    a, b, c, d = parties(4)
    assert a.call("SET", "value:a", "one", "NX") == OK
    assert b.call("SET", "value:b", "two", "NX") == OK
    stand(plain, c, "SET", "value:b", "one", "NX")
    error = closing(d, [c], "SET", "value:a", "two", "NX")
    assert error == b"-DEADLOCK 'value:a' is held by another owner, who waits for 'value:b'\r\n"


def test_connection_that_waits_as_somebody_else_cannot_release_what_is_its_own(parties, plain):
    one, other = parties(2)
    one.call("LOCK", "a")
    other.call("LOCK", "b")
    stand(plain, one, "LOCK", "b", "WAIT", WAIT, "AS", "job")
    assert is_deadlock(closing(other, [one], "LOCK", "a", "WAIT", WAIT), "a", "b")


def test_owner_whose_other_connections_may_release_is_in_no_circle(parties, plain):
    a, b, c, d = parties(4)
    for connection, name in ((a, "one"), (b, "two"), (c, "one"), (d, "two")):
        connection.call("CLIENT", "SETNAME", name)
    assert a.call("SETNX", "name:a", "v") == ONE
    assert b.call("SETNX", "name:b", "v") == ONE
    stand(plain, c, "SETNX", "name:b", "v")
    stand(plain, d, "SETNX", "name:a", "v")
    assert a.call("DEL", "name:a") == ONE
    assert d.read() == ONE
    assert b.call("DEL", "name:b") == ONE
    assert c.read() == ONE


def test_circle_that_a_hand_over_closes_is_told(parties, plain):
    """One connection of the owner waits; another one gets the lock that closes the circle."""
    holder, other, waits, gets = parties(4)
    holder.call("LOCK", "a")
    other.call("LOCK", "b")
    stand(plain, waits, "LOCK", "b", "WAIT", WAIT, "AS", "job")
    stand(plain, gets, "LOCK", "a", "WAIT", WAIT, "AS", "job")
    stand(plain, other, "LOCK", "a", "WAIT", WAIT)
    assert holder.call("UNLOCK", "a") == ONE
    assert gets.read() == FENCE
    assert is_deadlock(told(waits, [other]), "b", "a")
    assert gets.call("UNLOCK", "a", "AS", "job") == ONE
    assert other.read() == FENCE


def test_locks_of_two_databases_are_told_apart(parties, plain):
    one, other = parties(2)
    one.call("LOCK", "k")
    other.call("SELECT", 1)
    other.call("LOCK", "k")
    # Database 1 has a lock with the same name, which `other` holds.
    assert one.call("LOCK", "k", "WAIT", WAIT) == FENCE
    one.call("SELECT", 1)
    one.send(encode("LOCK", "k", "WAIT", WAIT))
    other.call("SELECT", 0)
    # Redis decides whose LOCK is the second, and that client gets the error.
    other.send(encode("LOCK", "k", "WAIT", WAIT))
    plain.ping()
    ready = readable(one.sock, other.sock, timeout=30)
    assert len(ready) == 1
    told = one if ready[0] is one.sock else other
    assert is_deadlock(told.read(), "k", "k")


def test_who_has_stopped_waiting_is_in_no_circle(parties, plain):
    one, other = parties(2)
    one.call("LOCK", "a")
    other.call("LOCK", "b")
    assert one.call("LOCK", "b", "WAIT", 1) == NIL
    stand(plain, other, "LOCK", "a", "WAIT", WAIT)
    assert one.call("UNLOCK", "a") == ONE
    assert other.read() == FENCE


def test_chain_is_no_circle(parties, plain):
    one, other, third = parties(3)
    one.call("LOCK", "a")
    other.call("LOCK", "b")
    third.call("LOCK", "c")
    stand(plain, other, "LOCK", "a", "WAIT", WAIT)
    stand(plain, third, "LOCK", "b", "WAIT", WAIT)
    assert one.call("UNLOCK", "a") == ONE
    assert other.read() == FENCE
    assert other.call("UNLOCK", "b") == ONE
    assert third.read() == FENCE


def test_who_wants_to_be_alone_waits_for_each_who_has_a_place(parties, plain):
    one, other, third = parties(3)
    one.call("LOCK", "a")
    for connection in (other, third):
        assert connection.call(*PLACES) == FENCE
    stand(plain, one, "LOCK", "places", "LIMIT", 1, "WAIT", WAIT)
    assert is_deadlock(closing(other, [one], "LOCK", "a", "WAIT", WAIT), "a", "places")
    assert other.call("UNLOCK", "places") == ONE
    assert third.call("UNLOCK", "places") == ONE
    assert one.read() == FENCE


def test_who_waits_for_one_of_several_places_is_in_no_circle(parties, plain):
    """Another owner may release its place, so the wait can end."""
    one, other, third = parties(3)
    one.call("LOCK", "a")
    for connection in (other, third):
        assert connection.call(*PLACES) == FENCE
    stand(plain, other, "LOCK", "a", "WAIT", WAIT)
    stand(plain, one, *PLACES, "WAIT", WAIT)
    assert third.call("UNLOCK", "places") == ONE
    assert one.read() == FENCE
    assert one.call("UNLOCK", "a") == ONE
    assert other.read() == FENCE


def test_deadlocks_are_counted(start_hasp, plain):
    hasp = start_hasp(SECTIONS + HTTP)
    with hasp.connect() as one, hasp.connect() as other:
        one.call("LOCK", "a")
        other.call("LOCK", "b")
        stand(plain, one, "LOCK", "b", "WAIT", WAIT)
        assert is_deadlock(closing(other, [one], "LOCK", "a", "WAIT", WAIT), "a", "b")
        assert of(hasp, "hasp_deadlocks_total", "LOCK", "verbs") == 1


def test_refused_read_counts_as_read(parties, plain):
    """If an application ignored the error, its write would overwrite a value it has not seen."""
    one, other = parties(2)
    assert one.call("GET", "stock:a") == NIL
    assert other.call("GET", "stock:b") == NIL
    stand(plain, one, "GET", "stock:b", queue=GUARD.queue("stock:b"))
    assert is_deadlock(closing(other, [one], "GET", "stock:a"), "stock:a", "stock:b")
    assert other.call("SET", "stock:a", 1).startswith(b"-LOCKLOST ")
    assert other.call("SET", "stock:b", 1) == OK
    assert one.read() == bulk("1")


def test_locks_in_several_slots_of_a_cluster(start_hasp, shared_cluster):
    hasp = start_hasp(SECTIONS, upstream=shared_cluster.upstream, workers=2)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", "a") == FENCE
        assert other.call("LOCK", "b") == FENCE
        one.send(encode("LOCK", "b", "WAIT", WAIT))
        until(lambda: shared_cluster.owner("b").ask("ZCARD", queue_of("b")) == 1, "the waiter to enter the queue")
        assert is_deadlock(closing(other, [one], "LOCK", "a", "WAIT", WAIT), "a", "b")
        assert other.call("UNLOCK", "b") == ONE
        assert one.read() == FENCE
