# SPDX-License-Identifier: BSD-3-Clause
"""LOCK ... LIMIT n: a semaphore, of which n owners can have a place at the same time."""

import contextlib

import pytest
from harness import Connection, encode, until
from harness.info import calls, is_ready
from harness.line import entries, nobody_waits, queue_of, rechecks, stand
from harness.relay import Relay
from harness.renewal import is_renewed, rises
from harness.renewal import verbs as short_verbs
from harness.replies import FENCE, NIL, NIL3, OK, ONE, PONG, UNKNOWN, ZERO
from harness.sections import VERBS, verbs
from harness.told import rows, told

KEY, RECORD = "k", "hasp:fence:{k}"
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"


def owners(plain, key=KEY):
    return plain.zcard(key)


# --- places ----------------------------------------------------------------------


def test_as_many_owners_have_a_place_as_the_limit_says(clients, plain):
    one, two, three = clients(3, VERBS)
    assert one.call("LOCK", KEY, "LIMIT", 2, "PX", 60000) == FENCE
    assert two.call("LOCK", KEY, "limit", 2) == FENCE
    assert three.call("LOCK", KEY, "LIMIT", 2) == NIL
    assert three.call("UNLOCK", KEY) == ZERO
    assert one.call("UNLOCK", KEY) == ONE
    assert one.call("UNLOCK", KEY) == ZERO
    assert three.call("LOCK", KEY, "LIMIT", 2) == FENCE
    assert two.call("UNLOCK", KEY) == three.call("UNLOCK", KEY) == ONE
    assert plain.keys() == ["hasp:fence"]


def test_each_place_has_a_fencing_token_of_its_own_and_they_rise(clients):
    ones = clients(3)
    tokens = [int(one.call("LOCK", KEY, "LIMIT", 3)[1:]) for one in ones]
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
def test_an_owner_has_one_place_at_most(clients, plain, reentrant):
    one, two = clients(2, verbs(reentrant=reentrant))
    first = one.call("LOCK", KEY, "LIMIT", 2, "PX", 5000)
    assert one.call("LOCK", KEY, "LIMIT", 2, "PX", 60000) == first
    assert plain.pttl(KEY) > 50000
    assert two.call("LOCK", KEY, "LIMIT", 2) == FENCE
    assert one.call("UNLOCK", KEY) == ONE
    assert one.call("UNLOCK", KEY) == ZERO
    assert two.call("UNLOCK", KEY) == ONE


def test_who_asks_says_how_many_there_may_be(clients):
    one, two, three = clients(3)
    assert one.call("LOCK", KEY, "LIMIT", 1) == FENCE
    assert two.call("LOCK", KEY, "LIMIT", 1) == NIL
    assert two.call("LOCK", KEY, "LIMIT", 2) == FENCE
    assert three.call("LOCK", KEY, "LIMIT", 2) == NIL


@pytest.mark.parametrize("words, error", [
    (("LIMIT",), b"-ERR syntax error\r\n"),
    (("LIMIT", 1, "LIMIT", 2), b"-ERR syntax error\r\n"),
    (("LIMIT", 0), b"-ERR value is out of range, must be positive\r\n"),
    (("LIMIT", -1), b"-ERR value is out of range, must be positive\r\n"),
    (("LIMIT", "many"), b"-ERR value is out of range, must be positive\r\n"),
    (("LIMIT", 1, "PX", 0), b"-ERR invalid expire time in 'lock' command\r\n")])
def test_wrong_arguments_are_told_as_redis_tells_them(clients, plain, words, error):
    one, = clients(1)
    assert one.call("LOCK", KEY, *words) == error
    assert one.call("UNLOCK", KEY, "LIMIT", 1) == b"-ERR syntax error\r\n"
    assert plain.keys() == []


def test_what_the_application_keeps_in_a_key_is_not_touched(clients, plain):
    one, = clients(1)
    plain.zadd(KEY, {"a": 1, "b": 2})
    for command in (("LOCK", KEY, "LIMIT", 2), ("UNLOCK", KEY), ("LOCK.EXTEND", KEY, "PX", 9), ("LOCK.INFO", KEY)):
        assert one.call(*command) == WRONG_TYPE
    assert plain.zrange(KEY, 0, -1) == ["a", "b"] and plain.ttl(KEY) == -1
    plain.delete(KEY)
    assert one.call("LOCK", KEY) == FENCE
    assert one.call("LOCK", KEY, "LIMIT", 2) == WRONG_TYPE


def test_a_place_whose_lease_is_over_is_free(clients, plain):
    one, two, three = clients(3)
    assert one.call("LOCK", KEY, "LIMIT", 2, "PX", 60000) == FENCE
    two.call("LOCK", KEY, "LIMIT", 2, "PX", 1)  # no reply is checked: the lease may end before hasp answers
    until(lambda: three.call("LOCK", KEY, "LIMIT", 2, "PX", 60000) != NIL, "the lease to end")
    assert two.call("UNLOCK", KEY) == ZERO
    assert owners(plain) == plain.hlen(RECORD) == 2


def test_extend_is_the_owners_and_concerns_its_place_only(clients, plain):
    one, two, three = clients(3)
    for each in (one, two):
        each.call("LOCK", KEY, "LIMIT", 2, "PX", 60000)
    assert three.call("LOCK.EXTEND", KEY, "PX", 90000) == ZERO
    assert one.call("LOCK.EXTEND", KEY, "PX", 900000) == ONE
    assert 800000 < plain.pttl(KEY) and 800000 < plain.pttl(RECORD)
    (_, first), (_, last) = plain.zrange(KEY, 0, -1, withscores=True)
    assert last - first > 800000
    one.call("LOCK.EXTEND", KEY, "PX", 1)  # no reply is checked: the lease may end before hasp answers
    until(lambda: three.call("LOCK", KEY, "LIMIT", 2) != NIL, "the place to be free")
    assert plain.pttl(KEY) <= 60000


def test_a_transaction_takes_a_place_and_does_not_wait(clients):
    one, two = clients(2, VERBS)
    for each, answer in ((one, b"*1\r\n:"), (two, b"*1\r\n$-1")):
        assert each.call("MULTI") == OK
        assert each.call("LOCK", KEY, "LIMIT", 1, "WAIT", 60000) == b"+QUEUED\r\n"
        assert each.call("EXEC").startswith(answer)


# --- waiting ---------------------------------------------------------------------


def test_places_are_handed_on_in_the_order_of_the_line(start_hasp, plain):
    hasp = start_hasp(VERBS, workers=2)
    with contextlib.ExitStack() as stack:
        ones = [stack.enter_context(hasp.connect()) for _ in range(6)]
        for one in ones[:2]:
            assert one.call("LOCK", KEY, "LIMIT", 2) == FENCE
        for one in ones[2:]:
            stand(plain, one, "LOCK", KEY, "LIMIT", 2, "WAIT", 60000)
        for before, one in zip(ones, ones[2:]):
            assert before.call("UNLOCK", KEY) == ONE
            assert one.read() == FENCE
            assert owners(plain) == 2


def test_newcomer_does_not_pass_those_who_wait(clients, plain):
    one, two, three = clients(3)
    assert one.call("LOCK", KEY, "LIMIT", 2) == FENCE
    stand(plain, two, "LOCK", KEY, "LIMIT", 1, "WAIT", 60000)
    assert three.call("LOCK", KEY, "LIMIT", 2) == NIL
    assert one.call("UNLOCK", KEY) == ONE
    assert two.read() == FENCE
    assert three.call("LOCK", KEY, "LIMIT", 2) == FENCE


def test_all_for_whom_there_are_places_come_in_by_one_call(clients, plain):
    holder, first, *others = clients(6)
    assert holder.call("LOCK", KEY, "LIMIT", 2) == FENCE
    stand(plain, first, "LOCK", KEY, "LIMIT", 1, "WAIT", 60000)
    for other in others:
        stand(plain, other, "LOCK", KEY, "LIMIT", 4, "WAIT", 60000)
    before = calls(plain, "eval", "evalsha")
    first.close()
    tokens = [int(other.read()[1:]) for other in others[:3]]
    assert tokens == sorted(set(tokens))
    # Fewer calls than waiters, although hasp may have checked in between.
    assert calls(plain, "eval", "evalsha") < before + len(tokens)
    assert owners(plain) == 4 and len(entries(plain)) == 1
    assert holder.call("UNLOCK", KEY) == ONE
    assert others[3].read() == FENCE


def test_a_wait_in_vain_ends_with_nil(clients, plain):
    one, two = clients(2)
    assert one.call("LOCK", KEY, "LIMIT", 1) == FENCE
    assert two.call("LOCK", KEY, "LIMIT", 1, "WAIT", 30) == NIL
    nobody_waits(plain)
    assert owners(plain) == 1


def test_a_lease_that_ends_lets_the_first_in_line_in(clients, plain):
    one, two, three = clients(3)
    assert one.call("LOCK", KEY, "LIMIT", 2, "PX", 900000) == FENCE
    two.call("LOCK", KEY, "LIMIT", 2, "PX", 300)  # no reply is checked: the lease may end before hasp answers
    three.send(encode("LOCK", KEY, "LIMIT", 2, "WAIT", 60000))
    assert three.read() == FENCE
    assert owners(plain) == 2


def waiter_for_one_of_two(clients, plain):
    """Returns a client that waits for one of two places, whose owners keep them for 15 minutes."""
    one, two, three = clients(3)
    for holder in (one, two):
        assert holder.call("LOCK", KEY, "LIMIT", 2, "PX", 900000) == FENCE
    stand(plain, three, "LOCK", KEY, "LIMIT", 2, "WAIT", 60000)
    return three


def test_a_place_that_another_client_frees_goes_to_the_first_in_line(clients, plain):
    """The place is removed directly in Redis, so only hasp's check of each second finds it."""
    waiter = waiter_for_one_of_two(clients, plain)
    checked = rechecks(plain)
    until(lambda: rechecks(plain) > checked, "a check that finds no free place")
    plain.zremrangebyrank(KEY, 0, 0)
    assert waiter.read() == FENCE
    assert owners(plain) == 2


def test_the_lease_that_ends_first_counts_while_the_line_is_at_rest(clients, plain):
    waiter = waiter_for_one_of_two(clients, plain)
    first = plain.zrange(KEY, 0, 0)[0]
    plain.zincrby(KEY, -898000, first)
    assert waiter.read() == FENCE
    assert owners(plain) == 2


def test_scripts_that_redis_forgets_are_sent_again(clients, plain):
    one, two = clients(2)
    assert one.call("LOCK", KEY, "LIMIT", 1) == FENCE
    plain.script_flush()
    stand(plain, two, "LOCK", KEY, "LIMIT", 1, "WAIT", 60000)
    plain.script_flush()
    assert one.call("UNLOCK", KEY) == ONE
    assert two.read() == FENCE


def test_two_hasps_share_one_line(share_hasp, plain):
    hasps = [share_hasp(VERBS) for _ in range(2)]
    with contextlib.ExitStack() as stack:
        ones = [stack.enter_context(hasps[n % 2].connect()) for n in range(5)]
        assert ones[0].call("LOCK", KEY, "LIMIT", 1) == FENCE
        for one in ones[1:]:
            stand(plain, one, "LOCK", KEY, "LIMIT", 1, "WAIT", 60000)
        for before, one in zip(ones, ones[1:]):
            assert before.call("UNLOCK", KEY) == ONE
            assert one.read() == FENCE


def test_waiters_keep_their_places_when_the_queue_is_lost(clients, plain):
    one, two, three = clients(3)
    assert one.call("LOCK", KEY, "LIMIT", 1) == FENCE
    stand(plain, two, "LOCK", KEY, "LIMIT", 1, "WAIT", 60000)
    stand(plain, three, "LOCK", KEY, "LIMIT", 1, "WAIT", 60000)
    tickets = [ticket.split("-")[0] for ticket in entries(plain)]
    plain.delete(queue_of(KEY))
    until(lambda: len(entries(plain)) == 2, "both waiters to enter the new queue")
    assert [ticket.split("-")[0] for ticket in entries(plain)] == tickets
    assert one.call("UNLOCK", KEY) == ONE
    assert two.read() == FENCE


# --- renewal and release ---------------------------------------------------------


def test_places_are_renewed_each_on_its_own(clients, plain):
    one, two = clients(2, short_verbs())
    assert one.call("LOCK", KEY, "LIMIT", 2) == FENCE
    two.call("LOCK", KEY, "LIMIT", 2)
    assert is_renewed(plain, KEY)
    assert owners(plain) == 2
    assert one.call("UNLOCK", KEY) == ONE
    assert is_renewed(plain, KEY)
    assert two.call("UNLOCK", KEY) == ONE


@pytest.mark.parametrize("on_disconnect", ["release", "expire"])
def test_a_holder_that_dies_gives_its_place_up(share_hasp, plain, on_disconnect):
    hasp = share_hasp(short_verbs(on_disconnect=on_disconnect))
    with hasp.connect() as two, hasp.connect() as three:
        with hasp.connect() as one:
            assert one.call("LOCK", KEY, "LIMIT", 2) == FENCE
            assert two.call("LOCK", KEY, "LIMIT", 2) == FENCE
            stand(plain, three, "LOCK", KEY, "LIMIT", 2, "WAIT", 60000)
        assert three.read() == FENCE
        assert owners(plain) == 2
        assert two.call("UNLOCK", KEY) == three.call("UNLOCK", KEY) == ONE


def test_a_place_that_its_owner_has_taken_again_elsewhere_stays(share_hasp, plain):
    hasps = [share_hasp(short_verbs(on_disconnect="release")) for _ in range(2)]
    with hasps[1].connect() as other:
        with hasps[0].connect() as one:
            for connection, key in ((one, "before"), (one, KEY), (one, "behind"), (other, KEY)):
                assert connection.call("LOCK", key, "LIMIT", 2, "PX", 60000, "AS", "job") == FENCE
        until(lambda: not plain.exists("before", "behind"), "the disconnected client's other places to be free")
        assert owners(plain) == 1
        assert other.call("UNLOCK", KEY, "AS", "job") == ONE


def test_a_thousand_owners_over_one_connection(share_hasp, plain):
    hasp = share_hasp(verbs(on_disconnect="release", lease="20s"))
    n = 1000
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.send(b"".join(encode("LOCK", KEY, "LIMIT", n, "AS", f"job-{i}") for i in range(n)))
            tokens = [one.read() for _ in range(n)]
            assert len(set(tokens)) == n and all(token == FENCE for token in tokens)
            assert other.call("LOCK", KEY, "LIMIT", n) == NIL
            assert rises(plain, 1, KEY)
            assert owners(plain) == n
            assert one.call("UNLOCK", KEY, "AS", "job-7") == ONE
            assert one.call("UNLOCK", KEY, "AS", "job-7") == ZERO
            assert other.call("LOCK", KEY, "LIMIT", n) == FENCE
            assert owners(plain) == n
        until(lambda: owners(plain) == 1, "the disconnected client's places to be free")
        assert other.call("UNLOCK", KEY) == ONE
    assert plain.keys() == ["hasp:fence"]


def test_a_place_whose_answer_was_lost_is_given_back(start_hasp, redis_server, plain):
    with Relay(redis_server.address) as relay:
        hasp = is_ready(start_hasp(VERBS, upstream=relay.address), plain)
        with hasp.connect() as one:
            assert one.call("PING") == PONG  # so its link to Redis is connected
            relay.swallows = True
            one.send(encode("LOCK", KEY, "LIMIT", 1, "PX", 600000))
            until(lambda: owners(plain) == 1, "the place to be taken")
            relay.cut()
            assert one.file.read().startswith(UNKNOWN)
        relay.mend()
        until(lambda: not plain.exists(KEY), "the place to be free")


# --- what LOCK.INFO, LOCK.LIST and errors show ----------------------------------


def test_info_tells_how_many_have_a_place_and_whose_lease_ends_first(clients):
    one, two, three = clients(3)
    one.call("LOCK", KEY, "LIMIT", 3, "PX", 60000, "AS", "long")
    token = two.call("LOCK", KEY, "LIMIT", 3, "PX", 30000, "AS", "short")
    info = told(three, KEY)
    assert (info["owner"], info["holds"], info["fence"], info["waiters"]) == ("short", 2, int(token[1:]), 0)
    assert 20000 < info["ttl"] <= 30000
    assert info["lease"] == 30000 and info["renewed"] == 0 and info["address"].startswith("127.0.0.1:")
    assert three.call("HELLO", 3)[:1] == b"%"
    assert three.call("LOCK.INFO", KEY).startswith(b"%10\r\n")
    assert three.call("LOCK", KEY, "LIMIT", 2) == NIL3


def test_list_tells_each_owner_with_a_place(clients):
    one, two = clients(2)
    for name in ("a", "b"):
        one.call("LOCK", KEY, "LIMIT", 3, "AS", name)
    two.call("LOCK", KEY, "LIMIT", 3, "AS", "c")
    assert sorted(row["owner"] for row in rows(one.call("LOCK.LIST"))) == ["a", "b", "c"]
    assert one.call("UNLOCK", KEY, "AS", "c") == ONE
    assert one.call("UNLOCK", KEY, "AS", "a") == ONE
    assert [row["owner"] for row in rows(one.call("LOCK.LIST"))] == ["b"]


def test_console_shows_each_place_and_frees_all(clients, plain, tmp_path):
    one, two, three = clients(3, VERBS + f"[admin]\nlisten = unix:{tmp_path}/s\n")
    for each in (one, two):
        assert each.call("LOCK", KEY, "LIMIT", 2) == FENCE
    stand(plain, three, "LOCK", KEY, "LIMIT", 2, "WAIT", 60000)
    with Connection(str(tmp_path / "s")) as console:
        assert console.call("SHOW", "LOCKS").count(b"$1\r\nk\r\n") == 2
        assert console.call("UNLOCK", KEY, "FORCE") == ONE
    assert three.read() == FENCE
    assert owners(plain) == 1
    assert one.call("UNLOCK", KEY) == ZERO
