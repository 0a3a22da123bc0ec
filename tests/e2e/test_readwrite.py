# SPDX-License-Identifier: BSD-3-Clause
"""LOCK ... SHARED and LOCK ... EXCLUSIVE: the two sides of a read-write lock."""

import contextlib

import pytest
from harness import Connection, encode, until
from harness.info import calls, is_ready
from harness.line import entries, nobody_waits, queue_of, soon, stand, unless_checked
from harness.relay import Relay
from harness.renewal import LEASE_MS, is_renewed
from harness.renewal import verbs as short_verbs
from harness.replies import FENCE, NIL, OK, ONE, PONG, UNKNOWN, WRONGTYPE, ZERO, fence
from harness.sections import VERBS, verbs
from harness.told import rows, told

KEY = "k"
SIDES = pytest.mark.parametrize("side", ["SHARED", "EXCLUSIVE"])
LAYOUTS = pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
SYNTAX = b"-ERR syntax error\r\n"
NAMED = b"-ERR hasp: the owner of a reader or writer lock must not be called 'mode' or end in ':write'\r\n"


def shared(one, *args, key=KEY):
    return one.call("LOCK", key, "SHARED", *args)


def exclusive(one, *args, key=KEY):
    return one.call("LOCK", key, "EXCLUSIVE", *args)


def stands(plain, one, side, *args):
    stand(plain, one, "LOCK", KEY, side, "WAIT", 60000, *args)


def readers(plain):
    return sorted(field for field in plain.hgetall(KEY) if field != "mode")


def timeouts(plain):
    return plain.keys("*:rwlock_timeout:*")


def assert_free(plain):
    assert plain.keys() == ["hasp:fence"]


# --- the sides -------------------------------------------------------------------


@LAYOUTS
def test_readers_are_together_and_a_writer_is_alone(clients, plain, reentrant):
    one, two, three = clients(3, verbs(reentrant=reentrant))
    assert [shared(one), shared(two, "PX", 60000)] == [FENCE] * 2
    assert exclusive(three) == NIL
    assert three.call("UNLOCK", KEY) == ZERO
    assert one.call("UNLOCK", KEY) == ONE
    assert exclusive(three) == NIL
    assert two.call("UNLOCK", KEY) == ONE
    assert exclusive(three) == FENCE
    assert shared(one) == exclusive(two) == NIL
    assert one.call("UNLOCK", KEY) == ZERO
    assert three.call("UNLOCK", KEY) == ONE
    assert three.call("UNLOCK", KEY) == ZERO
    assert_free(plain)


def test_fencing_tokens_rise_with_each_owner(clients):
    ones = clients(3)
    tokens = []
    for side in (shared, exclusive, shared):
        got = [fence(side(one)) for one in ones if side is shared or one is ones[0]]
        tokens += got
        for one in ones[:len(got)]:
            assert one.call("UNLOCK", KEY) == ONE
    assert tokens == sorted(set(tokens)) and len(tokens) == 7


@LAYOUTS
@SIDES
def test_holds_are_counted_under_one_fencing_token(clients, plain, side, reentrant):
    one, two = clients(2, verbs(reentrant=reentrant))
    first = one.call("LOCK", KEY, side, "PX", 60000)
    assert one.call("LOCK", KEY, side, "PX", 1000) == one.call("LOCK", KEY, side, "PX", 90000) == first
    for _ in range(2):
        assert one.call("UNLOCK", KEY) == ONE
        assert exclusive(two) == NIL
        assert plain.pttl(KEY) > 55000
    assert one.call("UNLOCK", KEY) == ONE
    assert one.call("UNLOCK", KEY) == ZERO
    assert_free(plain)


def test_writer_may_read_and_steps_down(clients, plain):
    one, two, three = clients(3)
    assert [exclusive(one), shared(one)] == [FENCE] * 2
    assert shared(two) == NIL
    stands(plain, two, "SHARED")
    stands(plain, three, "EXCLUSIVE")
    assert one.call("UNLOCK", KEY) == ONE
    assert two.read() == FENCE
    assert plain.hget(KEY, "mode") == "read" and len(readers(plain)) == 2
    assert one.call("UNLOCK", KEY) == ONE
    assert two.call("UNLOCK", KEY) == ONE
    assert three.read() == FENCE
    assert plain.hget(KEY, "mode") == "write"


def test_writer_that_stepped_down_is_no_writer_any_more(clients):
    one, two = clients(2)
    assert [exclusive(one), shared(one)] == [FENCE] * 2
    assert one.call("UNLOCK", KEY) == ONE
    assert exclusive(one) == NIL
    assert shared(two) == FENCE


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("wait", [(), ("WAIT", 60000)])
def test_reader_does_not_become_the_writer(clients, plain, others, wait):
    """Redisson also refuses the write side to a reader, even to the only one."""
    one, *rest = clients(1 + others)
    for each in (one, *rest):
        assert shared(each) == FENCE
    assert exclusive(one, *wait) == NIL
    assert not plain.exists(queue_of(KEY))
    assert one.call("UNLOCK", KEY) == ONE


@pytest.mark.parametrize("words, error", [
    (("SHARED", "EXCLUSIVE"), SYNTAX), (("SHARED", "SHARED"), SYNTAX), (("EXCLUSIVE", "exclusive"), SYNTAX),
    (("SHARED", "LIMIT", 1), SYNTAX), (("LIMIT", 1, "EXCLUSIVE"), SYNTAX), (("SHARE",), SYNTAX),
    (("SHARED", "PX"), SYNTAX), (("SHARED", "PX", 0), b"-ERR invalid expire time in 'lock' command\r\n"),
    (("SHARED", "WAIT", -1), b"-ERR timeout is negative\r\n"),
    (("SHARED", "AS", "mode"), NAMED), (("EXCLUSIVE", "AS", "me:write"), NAMED)])
def test_wrong_arguments_are_told_as_redis_tells_them(clients, plain, words, error):
    one, = clients(1)
    assert one.call("LOCK", KEY, *words) == error
    for command in (("UNLOCK", KEY, "SHARED"), ("LOCK.EXTEND", KEY, "PX", 9, "SHARED"),
                    ("MLOCK", 1, KEY, "SHARED")):
        assert one.call(*command) == SYNTAX
    assert plain.keys() == []


@LAYOUTS
@SIDES
def test_key_is_of_one_kind(clients, plain, side, reentrant):
    one, two = clients(2, verbs(reentrant=reentrant) + "[lock r]\npattern = r*\n")
    assert one.call("LOCK", KEY, side) == FENCE
    before = plain.hgetall(KEY)
    for each in (one, two):
        for command in (("LOCK", KEY), ("LOCK", KEY, "WAIT", 60000), ("LOCK", KEY, "LIMIT", 2),
                        ("MLOCK", 2, "a", KEY)):
            assert each.call(*command) == WRONGTYPE
    assert plain.hgetall(KEY) == before and not plain.exists("a")
    plain.hset("r1", mapping=before)
    assert one.call("SET", "r1", "v", "NX", "EX", 9) == NIL
    assert one.call("INCR", "r1") == WRONGTYPE
    assert plain.hgetall("r1") == before
    assert one.call("UNLOCK", KEY) == ONE
    for n, command in enumerate((("LOCK", KEY), ("LOCK", KEY, "LIMIT", 2), ("SET", KEY, "v"), ("HSET", KEY, "a", 1))):
        assert one.call(*command) in (FENCE, OK, ONE)
        assert two.call("LOCK", KEY, side) == WRONGTYPE, n
        plain.delete(KEY)


def test_field_that_looks_like_a_mode_is_an_owner_of_a_plain_lock(clients):
    one, two = clients(2)
    assert one.call("LOCK", KEY, "AS", "mode") == FENCE
    assert two.call("LOCK", KEY) == NIL
    assert shared(two) == WRONGTYPE
    assert one.call("UNLOCK", KEY, "AS", "mode") == ONE


@SIDES
def test_what_follows_a_lease_that_is_over(clients, plain, side):
    one, two = clients(2)
    one.call("LOCK", KEY, side, "PX", 1)  # no reply is checked: the lease may end before hasp answers
    until(lambda: exclusive(two) != NIL, "the lease to end")
    assert one.call("UNLOCK", KEY) == ZERO
    assert two.call("UNLOCK", KEY) == ONE
    assert_free(plain)


def test_reader_whose_lease_is_over_is_not_waited_for(clients, plain):
    """Another reader still has the lock."""
    one, two, three = clients(3)
    assert shared(one, "PX", 900000) == FENCE
    shared(two, "PX", 1)  # no reply is checked: the lease may end before hasp answers
    until(lambda: len(timeouts(plain)) == 1, "the short lease to end")
    assert two.call("UNLOCK", KEY) == ZERO
    assert one.call("UNLOCK", KEY) == ONE
    assert exclusive(three) == FENCE


def test_reader_whose_lease_is_over_is_not_told_of(clients, plain):
    """The expired reader stays in the hash until another client asks for the lock."""
    one, two, three = clients(3)
    assert shared(one, "PX", 900000, "AS", "a") == FENCE
    for n in range(20):
        shared(two, "PX", 1, "AS", f"b{n}")  # no reply is checked: the lease may end before hasp answers
    until(lambda: len(timeouts(plain)) == 1, "all short leases to end")
    assert len(readers(plain)) > 1
    info = told(three, KEY)
    assert (info["owner"], info["readers"]) == ("a", 1)
    plain.delete(*timeouts(plain))
    assert told(three, KEY) is None
    assert exclusive(three) == FENCE


def test_read_side_of_the_writer_is_not_counted_when_its_lease_is_over(clients, plain):
    """The lock itself still exists, because the writer has it."""
    one, = clients(1)
    assert exclusive(one, "PX", 900000) == FENCE
    shared(one, "PX", 1)  # no reply is checked: the lease may end before hasp answers
    until(lambda: not timeouts(plain), "the read side's lease to end")
    assert shared(one, "PX", 900000) == FENCE
    assert [one.call("UNLOCK", KEY) for _ in range(3)] == [ONE, ONE, ZERO]
    assert_free(plain)


def test_extend_does_not_revive_the_read_side_of_the_writer(clients, plain):
    one, = clients(1)
    assert exclusive(one, "PX", 900000) == FENCE
    shared(one, "PX", 1)
    until(lambda: not timeouts(plain), "the read side's lease to end")
    assert told(one, KEY)["readers"] == 0
    assert one.call("LOCK.EXTEND", KEY, "PX", 900000) == ONE
    assert [one.call("UNLOCK", KEY) for _ in range(2)] == [ONE, ZERO]
    assert_free(plain)


def test_lock_lasts_as_long_as_the_longest_of_its_readers(clients, plain):
    one, two, three = clients(3)
    assert shared(one, "PX", 900000) == FENCE
    hold, = timeouts(plain)
    # hasp's script sets both expiries, but the clock may advance between them.
    plain.pexpire(KEY, plain.pttl(hold) + 500)
    for each, lease in ((two, 60000), (three, 90000)):
        assert shared(each, "PX", lease) == FENCE
    assert plain.pttl(KEY) > 800000
    assert one.call("UNLOCK", KEY) == ONE
    assert 80000 < plain.pttl(KEY) <= 90000
    assert two.call("UNLOCK", KEY) == ONE
    assert 80000 < plain.pttl(KEY) <= 90000


@SIDES
def test_extend_is_the_owner_s(clients, plain, side):
    one, two = clients(2)
    for _ in range(2):
        assert one.call("LOCK", KEY, side, "PX", 60000) == FENCE
    assert two.call("LOCK.EXTEND", KEY, "PX", 90000) == ZERO
    for lease in (900000, 30000):
        assert one.call("LOCK.EXTEND", KEY, "PX", lease) == ONE
        for key in (KEY, "hasp:fence:{k}", *timeouts(plain)):
            assert lease - 20000 < plain.pttl(key) <= lease
    one.call("LOCK.EXTEND", KEY, "PX", 1)  # no reply is checked: the lease may end before hasp answers
    until(lambda: exclusive(two) != NIL, "the lock to be free")


def test_extend_concerns_one_reader_only(clients, plain):
    one, two = clients(2)
    assert [shared(one, "PX", 60000, "AS", "a"), shared(two, "PX", 60000, "AS", "b")] == [FENCE] * 2
    assert one.call("LOCK.EXTEND", KEY, "PX", 900000, "AS", "a") == ONE
    assert plain.pttl("{k}:a:rwlock_timeout:1") > 800000 > 60000 >= plain.pttl("{k}:b:rwlock_timeout:1")
    assert one.call("LOCK.EXTEND", KEY, "PX", 1000, "AS", "a") == ONE
    assert 1000 < plain.pttl(KEY) <= 60000


def test_transaction_takes_a_side_and_does_not_wait(clients):
    one, two = clients(2, VERBS)
    for each, side, answer in ((one, "SHARED", b"*1\r\n:"), (two, "EXCLUSIVE", b"*1\r\n$-1")):
        assert each.call("MULTI") == OK
        assert each.call("LOCK", KEY, side, "WAIT", 60000) == b"+QUEUED\r\n"
        assert each.call("EXEC").startswith(answer)


@pytest.mark.parametrize("key", ["k", "a{k}b", "{k}", "k{", "}k"])
def test_time_outs_are_named_as_redisson_names_them(clients, plain, key):
    one, = clients(1)
    for _ in range(2):
        assert shared(one, "AS", "me", key=key) == FENCE
    name = key if "{" in key else "{" + key + "}"
    assert sorted(timeouts(plain)) == [f"{name}:me:rwlock_timeout:{n}" for n in (1, 2)]
    assert plain.hgetall(key) == {"mode": "read", "me": "2"}
    for _ in range(2):
        assert one.call("UNLOCK", key, "AS", "me") == ONE
    assert exclusive(one, "AS", "me", key=key) == FENCE
    assert plain.hgetall(key) == {"mode": "write", "me:write": "1"}
    assert one.call("UNLOCK", key, "AS", "me") == ONE
    assert_free(plain)


def test_munlock_gives_back_one_hold(clients, plain):
    one, = clients(1)
    assert [exclusive(one), shared(one), one.call("LOCK", "a")] == [FENCE] * 3
    assert one.call("MUNLOCK", 2, "a", KEY) == b":2\r\n"
    assert plain.hget(KEY, "mode") == "read"
    assert one.call("MUNLOCK", 2, "a", KEY) == ONE
    assert_free(plain)


# --- waiting ---------------------------------------------------------------------


def test_sides_are_handed_on_in_the_order_of_the_line(start_hasp, plain):
    hasp = start_hasp(VERBS, workers=2)
    line = [("EXCLUSIVE", 1), ("SHARED", 3), ("EXCLUSIVE", 1), ("EXCLUSIVE", 1), ("SHARED", 2)]
    with contextlib.ExitStack() as stack:
        groups = [(side, [stack.enter_context(hasp.connect()) for _ in range(n)]) for side, n in line]
        assert exclusive(groups[0][1][0]) == FENCE
        for side, group in groups[1:]:
            for one in group:
                stands(plain, one, side)
        for (_, before), (side, group) in zip(groups, groups[1:]):
            for one in before[:-1]:
                assert one.call("UNLOCK", KEY) == ONE
            assert before[-1].call("UNLOCK", KEY) == ONE
            assert all(one.read() == FENCE for one in group)
            assert plain.hget(KEY, "mode") == ("read" if side == "SHARED" else "write")
            assert len(readers(plain)) == len(group)


def test_reader_does_not_pass_a_writer_that_waits(clients, plain):
    one, two, three = clients(3)
    assert shared(one) == FENCE
    stands(plain, two, "EXCLUSIVE")
    assert shared(three) == NIL
    stands(plain, three, "SHARED")
    assert one.call("UNLOCK", KEY) == ONE
    assert two.read() == FENCE
    assert two.call("UNLOCK", KEY) == ONE
    assert three.read() == FENCE


def test_reader_that_has_the_lock_may_take_it_again_while_a_writer_waits(clients, plain):
    one, two = clients(2)
    first = shared(one)
    stands(plain, two, "EXCLUSIVE")
    assert shared(one) == first
    assert one.call("UNLOCK", KEY) == one.call("UNLOCK", KEY) == ONE
    assert two.read() == FENCE


def test_readers_next_to_each_other_come_in_by_one_call(clients, plain):
    writer, *ones = clients(5)
    assert exclusive(writer) == FENCE
    for one in ones[:3]:
        stands(plain, one, "SHARED")
    stands(plain, ones[3], "EXCLUSIVE")
    before = calls(plain, "eval", "evalsha")
    assert writer.call("UNLOCK", KEY) == ONE
    tokens = [fence(one.read()) for one in ones[:3]]
    scripts = calls(plain, "eval", "evalsha") - before
    unless_checked(plain)
    assert scripts == 1
    assert tokens == sorted(set(tokens))
    assert len(readers(plain)) == 3 and len(entries(plain)) == 1


def test_writer_that_gives_up_lets_those_behind_it_in(clients, plain):
    one, two, three = clients(3)
    assert shared(one) == FENCE
    stand(plain, two, "LOCK", KEY, "EXCLUSIVE", "WAIT", 60000)
    stands(plain, three, "SHARED")
    two.close()
    assert three.read() == FENCE
    assert len(readers(plain)) == 2


@SIDES
def test_wait_in_vain_ends_with_nil(clients, plain, side):
    one, two = clients(2)
    assert exclusive(one) == FENCE
    assert two.call("LOCK", KEY, side, "WAIT", 30) == NIL
    nobody_waits(plain)
    assert len(readers(plain)) == 1


@pytest.mark.parametrize("held, side", [("SHARED", "EXCLUSIVE"), ("EXCLUSIVE", "SHARED"), ("EXCLUSIVE", "EXCLUSIVE")])
def test_lease_that_ends_lets_the_first_in_line_in(clients, plain, held, side):
    one, two = clients(2)
    one.call("LOCK", KEY, held, "PX", 300)  # no reply is checked: the lease may end before hasp answers
    two.send(encode("LOCK", KEY, side, "WAIT", 60000))
    assert two.read() == FENCE
    assert len(readers(plain)) == 1


def test_reader_that_vanished_does_not_keep_the_writer(clients, plain):
    """The key with the reader's lease has expired, but the lock has not."""
    one, two = clients(2)
    assert shared(one, "PX", 900000) == FENCE
    stands(plain, two, "EXCLUSIVE")
    plain.delete(*timeouts(plain))
    assert two.read() == FENCE
    assert one.call("UNLOCK", KEY) == ZERO


def test_owner_in_line_joins_itself(clients, plain):
    one, two, three = clients(3)
    assert exclusive(one) == FENCE
    for each in (two, three):
        stands(plain, each, "EXCLUSIVE", "AS", "job")
    assert one.call("UNLOCK", KEY) == ONE
    assert two.read() == three.read()
    assert plain.hgetall(KEY) == {"mode": "write", "job:write": "2"}


def test_two_hasps_share_one_line(share_hasp, plain):
    hasps = [share_hasp(VERBS) for _ in range(2)]
    with contextlib.ExitStack() as stack:
        ones = [stack.enter_context(hasps[n % 2].connect()) for n in range(5)]
        assert exclusive(ones[0]) == FENCE
        for one, side in zip(ones[1:], ("SHARED", "SHARED", "EXCLUSIVE", "SHARED")):
            stands(plain, one, side)
        assert ones[0].call("UNLOCK", KEY) == ONE
        for one in ones[1:3]:
            assert one.read() == FENCE
        for before, one in zip(ones[2:], ones[3:]):
            if before is ones[2]:
                assert ones[1].call("UNLOCK", KEY) == ONE
            assert before.call("UNLOCK", KEY) == ONE
            assert one.read() == FENCE


def test_waiters_keep_their_places_when_the_queue_is_lost(clients, plain):
    def kinds():
        return [entry.split(" ")[4] for entry in plain.zrange(queue_of(KEY), 0, -1)]

    one, two, three = clients(3)
    assert shared(one) == FENCE
    stands(plain, two, "EXCLUSIVE")
    stands(plain, three, "SHARED")
    assert kinds() == ["x", "m"]
    plain.delete(queue_of(KEY))
    until(lambda: len(entries(plain)) == 2, "both waiters to enter the new queue")
    assert kinds() == ["x", "m"]
    assert one.call("UNLOCK", KEY) == ONE
    assert two.read() == FENCE


def test_scripts_that_redis_forgets_are_sent_again(clients, plain):
    one, two = clients(2)
    assert shared(one) == FENCE
    plain.script_flush()
    stands(plain, two, "EXCLUSIVE")
    plain.script_flush()
    assert one.call("UNLOCK", KEY) == ONE
    assert two.read() == FENCE


# --- renewal and release ---------------------------------------------------------


def test_readers_are_renewed_each_on_its_own(clients, plain):
    one, two = clients(2, short_verbs())
    assert [shared(one, "AS", "a"), shared(two, "AS", "b"), shared(two, "AS", "b")] == [FENCE] * 3
    assert is_renewed(plain, KEY, "{k}:a:rwlock_timeout:1", "{k}:b:rwlock_timeout:1", "{k}:b:rwlock_timeout:2")
    assert one.call("UNLOCK", KEY, "AS", "a") == ONE
    assert is_renewed(plain, KEY)
    assert two.call("UNLOCK", KEY, "AS", "b") == two.call("UNLOCK", KEY, "AS", "b") == ONE
    assert_free(plain)


def test_writer_is_renewed_and_what_it_stays_is(clients, plain):
    one, = clients(1, short_verbs())
    assert exclusive(one) == FENCE
    assert is_renewed(plain, KEY)
    assert shared(one) == FENCE
    assert one.call("UNLOCK", KEY) == ONE
    assert plain.hget(KEY, "mode") == "read"
    assert is_renewed(plain, KEY, timeouts(plain)[0])
    assert one.call("UNLOCK", KEY) == ONE


def test_extend_ends_renewal_of_both_sides(clients, plain):
    one, = clients(1, short_verbs())
    assert [exclusive(one), shared(one)] == [FENCE] * 2
    one.call("LOCK.EXTEND", KEY, "PX", LEASE_MS)
    until(lambda: not plain.exists(KEY), "the lease to end")


@SIDES
@pytest.mark.parametrize("on_disconnect", ["release", "expire"])
def test_holder_that_dies_lets_the_next_in(share_hasp, plain, side, on_disconnect):
    hasp = share_hasp(short_verbs(on_disconnect=on_disconnect))
    with hasp.connect() as two, hasp.connect() as three:
        with hasp.connect() as one:
            for _ in range(2):
                assert one.call("LOCK", KEY, side) == FENCE
            if side == "SHARED":
                assert shared(two) == FENCE
            else:
                assert shared(one) == FENCE
            stands(plain, three, "EXCLUSIVE")
        if side == "SHARED":
            until(lambda: len(readers(plain)) == 1 or plain.pttl(KEY) > 0 and len(timeouts(plain)) == 1,
                  "the disconnected client's lock to be gone")
            assert two.call("UNLOCK", KEY) == ONE
        assert three.read() == FENCE
        assert three.call("UNLOCK", KEY) == ONE


def test_side_that_its_owner_has_taken_again_elsewhere_stays(share_hasp, plain):
    hasps = [share_hasp(short_verbs(on_disconnect="release")) for _ in range(2)]
    with hasps[1].connect() as other:
        with hasps[0].connect() as one:
            for connection, key in ((one, "before"), (one, KEY), (one, "behind"), (other, KEY)):
                assert shared(connection, "PX", 60000, "AS", "job", key=key) == FENCE
        until(lambda: not plain.exists("before", "behind"), "the disconnected client's other locks to be released")
        assert plain.hgetall(KEY) == {"mode": "read", "job": "1"}
        assert other.call("UNLOCK", KEY, "AS", "job") == ONE


@SIDES
def test_side_whose_answer_was_lost_is_given_back(start_hasp, redis_server, plain, side):
    with Relay(redis_server.address) as relay:
        hasp = is_ready(start_hasp(VERBS, upstream=relay.address), plain)
        with hasp.connect() as one:
            assert one.call("PING") == PONG  # so its link to Redis is connected
            relay.swallows = True
            one.send(encode("LOCK", KEY, side, "PX", 600000))
            until(lambda: plain.exists(KEY), "the lock to be taken")
            relay.cut()
            assert one.file.read().startswith(UNKNOWN)
        relay.mend()
        until(lambda: not plain.exists(KEY), "the lock to be released")
        assert timeouts(plain) == []


def test_a_thousand_readers_over_one_connection(share_hasp, plain):
    hasp = share_hasp(short_verbs(on_disconnect="release"))
    n = 1000
    with hasp.connect() as other:
        with hasp.connect() as one:
            one.send(b"".join(encode("LOCK", KEY, "SHARED", "AS", f"job-{i}") for i in range(n)))
            tokens = [one.read() for _ in range(n)]
            assert len(set(tokens)) == n and all(token == FENCE for token in tokens)
            assert exclusive(other) == NIL
            assert is_renewed(plain, KEY)
            assert len(readers(plain)) == n
            assert one.call("UNLOCK", KEY, "AS", "job-7") == ONE
            assert one.call("UNLOCK", KEY, "AS", "job-7") == ZERO
            stands(plain, other, "EXCLUSIVE")
        assert other.read() == FENCE
        assert other.call("UNLOCK", KEY) == ONE
    assert_free(plain)


# --- what LOCK.INFO and LOCK.LIST show -------------------------------------------


def test_info_tells_the_side_and_how_many_read(clients, plain):
    one, two, three = clients(3)
    token = exclusive(one, "PX", 60000, "AS", "w")
    shared(one, "PX", 60000, "AS", "w")
    stands(plain, two, "SHARED", "AS", "r")
    info = told(three, KEY)
    assert (info["owner"], info["holds"], info["fence"], info["waiters"]) == ("w", 1, fence(token), 1)
    assert (info["mode"], info["readers"], info["lease"], info["renewed"]) == ("write", 1, 60000, 0)
    assert 50000 < info["ttl"] <= 60000 and info["address"].startswith("127.0.0.1:")
    assert one.call("UNLOCK", KEY, "AS", "w") == one.call("UNLOCK", KEY, "AS", "w") == ONE
    token = two.read()
    info = told(three, KEY)
    assert (info["owner"], info["holds"], info["fence"], info["mode"], info["readers"]) == \
        ("r", 1, fence(token), "read", 1)
    assert three.call("HELLO", 3)[:1] == b"%"
    assert three.call("LOCK.INFO", KEY).startswith(b"%12\r\n")
    assert two.call("LOCK", "plain") == FENCE
    assert three.call("LOCK.INFO", "plain").startswith(b"%10\r\n")


def test_list_tells_each_owner(clients):
    one, two = clients(2)
    for name in ("a", "b"):
        shared(one, "AS", name)
    shared(two, "AS", "c")
    assert sorted(row["owner"] for row in rows(one.call("LOCK.LIST"))) == ["a", "b", "c"]
    for each, name in ((one, "a"), (two, "c")):
        assert each.call("UNLOCK", KEY, "AS", name) == ONE
    assert [row["owner"] for row in rows(one.call("LOCK.LIST"))] == ["b"]


def test_writer_ends_what_is_listed_of_the_readers_before_it(clients, plain):
    one, two = clients(2)
    shared(one, "PX", 600000)
    plain.delete(KEY, *timeouts(plain))
    assert exclusive(two) == FENCE
    assert len(rows(two.call("LOCK.LIST"))) == 1


@SIDES
def test_console_shows_each_owner_and_frees_all(clients, plain, tmp_path, side):
    one, two, three = clients(3, VERBS + f"[admin]\nlisten = unix:{tmp_path}/s\n")
    owners = (one, two) if side == "SHARED" else (one,)
    for each in owners:
        assert each.call("LOCK", KEY, side) == FENCE
    stands(plain, three, "EXCLUSIVE")
    with Connection(str(tmp_path / "s")) as console:
        assert console.call("SHOW", "LOCKS").count(b"$1\r\nk\r\n") == len(owners)
        assert console.call("UNLOCK", KEY, "FORCE") == ONE
    assert three.read() == FENCE
    assert timeouts(plain) == []
    assert one.call("UNLOCK", KEY) == ZERO
