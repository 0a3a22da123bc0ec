# SPDX-License-Identifier: BSD-3-Clause
"""A read that failed, of an owner that is several connections, when Redis cannot be told of it: the
owner's other connections do not overwrite what it has not seen, all the same.
"""

import pytest
from harness import encode, until
from harness.guards import GUARD, KEY, guard, is_locked, is_lost, named, overtake, stands, transact
from harness.info import is_ready
from harness.relay import Relay
from harness.replies import NIL, OK, QUEUED, bulk

READERS = "hasp:readers:{stock:1}"
SECOND = "stock:2"
OWNERS = pytest.mark.parametrize("owner", ["name", "address"])


@pytest.fixture
def hasp(start_hasp, gates, plain, request):
    """Whose own connection can be held up, and with it what it has to tell Redis."""
    owner = getattr(request, "param", "name")
    hasp = start_hasp(guard(owner=owner, lease="60s", wait="3s"), upstream=gates.address, workers=2,
                      pooling="shared")
    return is_ready(hasp.is_up(2), plain)


def is_refused_in_silence(hasp, plain):
    """The owner's next write over another connection is refused, and Redis was not told why."""
    with named(hasp, "one") as two:
        assert is_lost(two.call("SET", KEY, "two"))
    assert not plain.exists(READERS)
    assert plain.get(KEY) == "other"


def comes_to_be_listed(hasp, gates, plain):
    """So that other processes know."""
    gates.open()
    until(lambda: plain.exists(READERS), "the owner to be listed")
    with named(hasp, "one") as three:
        assert is_lost(three.call("SET", KEY, "three"))
        until(lambda: three.call("SET", KEY, "three") == OK, "it to have been told")


def test_wait_that_ends_when_its_link_has_gone(hasp, gates, plain):
    plain.set(GUARD, "somebody")
    with named(hasp, "one") as one:
        stands(plain, one, "GET", KEY)
        gates.shut(requests={"own"})
        gates.cut_links()
        # The latter where hasp has not heard yet that it stands in line.
        assert is_locked(answer := one.read()) or answer.startswith(b"-ERR hasp: upstream")
        overtake(plain)
        is_refused_in_silence(hasp, plain)
    comes_to_be_listed(hasp, gates, plain)


def test_connection_that_ended_while_it_waited(hasp, gates, plain):
    plain.set(GUARD, "somebody")
    one = named(hasp, "one")
    stands(plain, one, "GET", KEY)
    gates.shut(requests={"own"})
    one.close()
    until(lambda: any(b"read" in data for data in gates.waiting), "hasp to notice")
    overtake(plain)
    is_refused_in_silence(hasp, plain)
    comes_to_be_listed(hasp, gates, plain)


def test_link_that_broke_before_the_answer(hasp, gates, plain):
    plain.set(KEY, 5)
    with named(hasp, "one") as one:
        assert one.call("GET", SECOND) == NIL  # its link is open
        gates.shut(replies={"link"})
        one.send(encode("GET", KEY))
        until(lambda: plain.exists(READERS), "its script to be carried out")
        plain.delete(READERS)  # as if it had not come that far
        overtake(plain)
        gates.shut(requests={"own"}, replies={"link"})
        gates.cut_links()
        assert one.read().startswith(b"-ERR hasp: ")
        gates.shut(requests={"own"})
        is_refused_in_silence(hasp, plain)
    comes_to_be_listed(hasp, gates, plain)


@pytest.mark.parametrize("read", [[("GET", KEY)], [("ZSCORE", KEY, "m")], [("MULTI",), ("GET", KEY), ("EXEC",)]])
def test_read_that_redis_refuses(hasp, gates, plain, read):
    with named(hasp, "one") as one:
        gates.shut(requests={"own"})
        plain.config_set("maxmemory", 1)
        for command in read:
            reply = one.call(*command)
        plain.config_set("maxmemory", 0)
        assert reply.startswith((b"-OOM", b"-EXECABORT"))
        overtake(plain)
        is_refused_in_silence(hasp, plain)
    comes_to_be_listed(hasp, gates, plain)


def test_read_that_redis_refuses_of_a_connection_that_had_read_before(hasp, gates, plain):
    with named(hasp, "one") as one, named(hasp, "one") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "two") == OK
        gates.shut(requests={"own"})
        plain.config_set("maxmemory", 1)
        assert one.call("GET", KEY).startswith(b"-OOM")
        plain.config_set("maxmemory", 0)
        overtake(plain)
        assert is_lost(one.call("SET", KEY, "one"))
        is_refused_in_silence(hasp, plain)


def test_read_that_no_link_was_there_for(start_hasp, plain, redis_server):
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard(owner="address", lease="60s"), upstream=relay.address, workers=2).is_up(2)
        relay.cut()
        with hasp.connect() as one:
            assert one.call("GET", KEY).startswith(b"-ERR hasp: ")
        overtake(plain)
        relay.mend()
        until(lambda: plain.exists(READERS), "the owner to be listed")
        with hasp.connect() as two:
            assert is_lost(two.call("SET", KEY, "two"))
        assert plain.get(KEY) == "other"


def test_transaction_that_no_link_was_there_for(start_hasp, plain, redis_server):
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard(owner="name", lease="60s"), upstream=relay.address, workers=2).is_up(2)
        with named(hasp, "one") as one:
            assert (one.call("MULTI"), one.call("GET", KEY)) == (OK, QUEUED)
            relay.cut()
            assert one.at_end()
        overtake(plain)
        relay.mend()
        until(lambda: plain.exists(READERS), "the owner to be listed")


def test_transaction_that_hasp_refuses(hasp, gates, plain):
    """It was not read between WATCH and MULTI."""
    with named(hasp, "one") as one:
        gates.shut(requests={"own"})
        assert one.call("WATCH", SECOND) == OK
        assert transact(one, ("GET", KEY))[-1].startswith(b"-LOCKED a guarded key was not read")
        overtake(plain)
        with named(hasp, "one") as two:
            assert is_lost(two.call("SET", KEY, "two"))
        assert plain.get(KEY) == "other"


def test_read_that_hasp_refuses(hasp, gates, plain):
    with named(hasp, "one") as one:
        gates.shut(requests={"own"})
        many = one.call("MGET", KEY, *(f"stock:{n}" for n in range(2, 1100)))
        assert many.startswith(b"-ERR hasp: the command names too many")
        overtake(plain)
        is_refused_in_silence(hasp, plain)
    comes_to_be_listed(hasp, gates, plain)


@OWNERS
def test_owner_is_kept_from_writing_when_redis_comes_back(start_hasp, plain, redis_server, owner):
    """Another process may have reads to tell of; after a while it has told. An owner that has read
    meanwhile need not wait."""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard(owner=owner, lease="60s"), upstream=relay.address).is_up()

        def refused():
            relay.cut()
            relay.mend()
            with named(hasp, "one") as one:
                return is_lost(one.call("SET", KEY, "one"))
        until(refused, "a write that comes early enough")
        with named(hasp, "one") as one:
            assert one.call("GET", KEY).startswith(b"$")
            assert one.call("SET", KEY, "two") == OK
            until(lambda: one.call("SET", KEY, "three") == OK, "others to have told")


def test_owner_that_was_refused_can_read_and_write(hasp, gates, plain):
    with named(hasp, "one") as one, named(hasp, "one") as two:
        gates.shut(requests={"own"})
        plain.config_set("maxmemory", 1)
        assert one.call("GET", KEY).startswith(b"-OOM")
        plain.config_set("maxmemory", 0)
        overtake(plain)
        assert two.call("GET", KEY) == bulk("other")
        assert two.call("SET", KEY, "two") == OK
