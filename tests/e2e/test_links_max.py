# SPDX-License-Identifier: BSD-3-Clause
"""The number of hasp's links to Redis, and their names in CLIENT LIST."""

import contextlib

import pytest
from harness import until
from harness.info import clients
from harness.marks import BOTH, covers
from harness.replies import NIL, OK
from harness.sections import verbs


@pytest.fixture
def pooling():
    """Most of these tests do not depend on pooling; the others are marked BOTH."""
    return "session"


def limit(redis_server, n):
    return f"unix:{redis_server.unix}\nlinks_max = {n}"


def refusal(redis_server):
    return f"-ERR hasp: upstream unix:{redis_server.unix}: hasp has links_max links to this server\r\n".encode()


@covers("links_max")
def test_client_beyond_links_max_is_told_and_one_in_the_place_of_another_is_served(
        start_hasp, redis_server):
    hasp = start_hasp(upstream=limit(redis_server, 2))
    with hasp.connect() as first, hasp.connect() as second:
        assert first.call("GET", "k") == second.call("GET", "k") == NIL
        with hasp.connect() as third:
            assert third.call("GET", "k") == refusal(redis_server)
            assert third.at_end()
        first.close()

        def is_served():
            with hasp.connect() as third:
                return third.call("GET", "k") == NIL

        until(is_served, "hasp to serve a third client")
        assert second.call("GET", "k") == NIL


def test_those_who_share_a_link_are_served_beyond_links_max(start_hasp, redis_server):
    hasp = start_hasp(upstream=limit(redis_server, 1), pooling="shared").is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", "k") == other.call("GET", "k") == NIL
        assert other.call("WATCH", "k") == refusal(redis_server)
        assert one.call("GET", "k") == NIL


@covers("links_per_worker")
def test_clients_share_the_links_that_links_max_allows(start_hasp, redis_server):
    hasp = start_hasp(upstream=limit(redis_server, 1) + "\nlinks_per_worker = 4", pooling="shared").is_up()
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            assert stack.enter_context(hasp.connect()).call("GET", "k") == NIL


def test_spare_link_makes_way_for_one_that_is_needed(start_hasp, redis_server):
    hasp = start_hasp(upstream=limit(redis_server, 2), pooling="shared").is_up()
    with hasp.connect() as one, hasp.connect() as third, hasp.connect() as other:
        assert one.call("GET", "k") == other.call("GET", "k") == third.call("GET", "k") == NIL
        assert one.call("MULTI") == one.call("DISCARD") == OK
        assert other.call("SUBSCRIBE", "c").startswith(b"*3")
        assert one.call("MULTI") == refusal(redis_server)


def test_each_worker_has_a_part_of_links_max(start_hasp, redis_server):
    hasp = start_hasp(upstream=limit(redis_server, 4), workers=2).is_up(2)
    with redis_server.client() as plain:
        connections = [hasp.connect() for _ in range(20)]
        answers = [connection.call("SET", "k", 1) for connection in connections]
        assert set(answers) <= {OK, refusal(redis_server)}
        assert answers.count(OK) <= 4
        # A worker's link that asks about logins does not count, and closes soon.
        until(lambda: len(clients(plain, name="")) == answers.count(OK), "the links of the clients alone")
        for connection in connections:
            connection.close()


@BOTH
def test_hasps_own_connections_have_names_and_do_not_count(start_hasp, redis_server, plain, pooling):
    hasp = start_hasp(verbs(), upstream=limit(redis_server, 2), pooling=pooling, workers=1).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("LOCK", "k").startswith(b":")
        assert other.call("LOCK", "k", "WAIT", 10) == NIL
    until(lambda: {c["name"] for c in clients(plain)} >= {"hasp-0-control", "hasp-0-subscriber"},
          "the names of both connections")
