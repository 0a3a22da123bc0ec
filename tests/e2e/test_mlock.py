# SPDX-License-Identifier: BSD-3-Clause
"""MLOCK and MUNLOCK: several locks at once, all or none."""


import pytest
from harness import encode, info, until
from harness.info import is_ready
from harness.line import entries, nobody_waits, queue_of, stand
from harness.marks import LAYOUTS, covers
from harness.relay import Relay
from harness.renewal import is_renewed
from harness.renewal import verbs as short_verbs
from harness.replies import FENCE, NIL, NIL3, NOREPLICAS, OK, ONE, PONG, QUEUED, UNKNOWN, WRONGTYPE, ZERO, fence
from harness.sections import VERBS, rule, verbs
from harness.told import rows, told
from harness.wait import readable

LONG = ("WAIT", 60000)


def nothing_is_left(plain):
    """Waits until Redis has neither a lock nor a key beside one."""
    return until(lambda: plain.keys() in ([], ["hasp:fence"]), lambda: f"nothing to be left: {plain.keys()}")


# --- all or none -----------------------------------------------------------------


@covers("MLOCK", "MUNLOCK")
@LAYOUTS
def test_all_are_taken_under_one_token_and_released(clients, plain, reentrant):
    one, two = clients(2, verbs(reentrant=reentrant))
    token = fence(one.call("MLOCK", 3, "c", "a", "b", "PX", 60000))
    assert [told(two, key)["fence"] for key in "abc"] == [token] * 3
    assert all(50000 < plain.pttl(key) <= 60000 for key in "abc")
    assert two.call("LOCK", "b") == NIL
    assert two.call("MUNLOCK", 3, "a", "b", "c") == ZERO
    assert one.call("MUNLOCK", 3, "a", "b", "c") == b":3\r\n"
    assert one.call("MUNLOCK", 3, "a", "b", "c") == ZERO
    assert plain.keys() == ["hasp:fence"]


@LAYOUTS
def test_none_is_taken_when_one_is_anothers(clients, plain, reentrant):
    one, two = clients(2, verbs(reentrant=reentrant))
    for held in "abc":
        assert one.call("LOCK", held) == FENCE
        assert two.call("MLOCK", 3, "a", "b", "c") == NIL
        assert two.call("MLOCK", 3, "a", "b", "c", "WAIT", 30) == NIL
        assert plain.exists("a", "b", "c") == 1
        assert one.call("UNLOCK", held) == ONE
    assert two.call("HELLO", 3)[:1] == b"%"
    assert one.call("LOCK", "c") == FENCE
    assert two.call("MLOCK", 2, "a", "c") == NIL3
    assert one.call("UNLOCK", "c") == ONE
    nothing_is_left(plain)


def test_token_is_greater_than_any_of_its_keys_before_and_they_rise_after(clients):
    one, = clients(1)
    before = [fence(one.call("LOCK", key)) for key in "ab"]
    assert one.call("MUNLOCK", 2, "a", "b") == b":2\r\n"
    token = fence(one.call("MLOCK", 2, "a", "b"))
    assert token > max(before)
    assert one.call("UNLOCK", "a") == ONE
    assert fence(one.call("LOCK", "a")) > token


def test_each_is_an_ordinary_lock(clients, plain):
    one, two = clients(2)
    token = fence(one.call("MLOCK", 2, "a", "b", "PX", 60000))
    assert one.call("LOCK.EXTEND", "a", "PX", 900000) == ONE
    assert plain.pttl("a") > 800000
    assert sorted((row["key"], row["fence"]) for row in rows(one.call("LOCK.LIST"))) == [("a", token), ("b", token)]
    assert one.call("UNLOCK", "a") == ONE
    assert two.call("LOCK", "a") == FENCE
    assert one.call("MUNLOCK", 2, "a", "b") == ONE
    assert two.call("UNLOCK", "a") == ONE
    assert one.call("MUNLOCK", 2, "a", "b") == ZERO
    nothing_is_left(plain)


def test_owner_that_has_some_takes_them_again_in_the_layout_count(clients, plain):
    one, two = clients(2)
    first = fence(one.call("LOCK", "b", "PX", 60000))
    assert fence(one.call("MLOCK", 3, "a", "b", "c", "PX", 30000)) > first
    assert told(two, "b")["holds"] == 2 and told(two, "b")["fence"] == first
    assert 50000 < plain.pttl("b")
    assert one.call("MUNLOCK", 3, "a", "b", "c") == b":3\r\n"
    assert two.call("MLOCK", 2, "a", "b") == NIL
    assert one.call("UNLOCK", "b") == ONE
    nothing_is_left(plain)


@pytest.mark.parametrize("reentrant, answer", [("refresh", FENCE), ("no", NIL)])
def test_owner_that_has_some_in_the_layouts_of_a_string(clients, plain, reentrant, answer):
    one, = clients(1, verbs(reentrant=reentrant))
    assert one.call("LOCK", "b", "PX", 60000) == FENCE
    assert one.call("MLOCK", 2, "a", "b", "PX", 90000) == answer
    assert (plain.pttl("b") > 60000) == (reentrant == "refresh")
    assert one.call("UNLOCK", "b") == ONE


def test_owners_of_a_name_share_the_locks(clients, plain):
    one, two, three = clients(3)
    assert one.call("MLOCK", 2, "a", "b", "AS", "job") == FENCE
    assert three.call("MUNLOCK", 2, "a", "b", "AS", "other") == ZERO
    assert two.call("MLOCK", 2, "b", "c", "AS", "job") == FENCE
    assert two.call("MUNLOCK", 3, "a", "b", "c", "AS", "job") == b":3\r\n"
    assert one.call("UNLOCK", "b", "AS", "job") == ONE
    nothing_is_left(plain)


@pytest.mark.parametrize("words, error", [
    ((), b"wrong number of arguments for 'mlock' command"),
    ((1,), b"wrong number of arguments for 'mlock' command"),
    ((0, "a"), b"numkeys should be greater than 0"),
    ((-1, "a"), b"numkeys should be greater than 0"),
    (("many", "a"), b"numkeys should be greater than 0"),
    ((2, "a"), b"Number of keys can't be greater than number of args"),
    ((2, "a", "a"), b"the same key is named twice"),
    ((65, *range(65)), b"hasp: more than 64 locks cannot be taken at once"),
    ((1, "a", "b"), b"syntax error"),
    ((1, "a", "PX"), b"syntax error"),
    ((1, "a", "LIMIT", 2), b"syntax error"),
    ((1, "a", "PX", 0), b"invalid expire time in 'mlock' command"),
    ((1, "a", "PX", "soon"), b"value is not an integer or out of range"),
    ((1, "a", "WAIT", -1), b"timeout is negative")])
def test_wrong_arguments_are_told_as_redis_tells_them(clients, plain, words, error):
    one, = clients(1)
    assert one.call("MLOCK", *words) == b"-ERR " + error + b"\r\n"
    assert plain.keys() == []


def test_munlock_has_no_options_but_the_owner(clients):
    one, = clients(1)
    for words in ((1, "a", "PX", 1), (1, "a", "WAIT", 1), (1, "a", "AS")):
        assert one.call("MUNLOCK", *words) == b"-ERR syntax error\r\n"
    assert one.call("MUNLOCK", 0, "a") == b"-ERR numkeys should be greater than 0\r\n"


def test_the_most_keys_are_taken_and_released(clients, plain):
    one, = clients(1)
    assert one.call("MLOCK", 64, *range(64)) == FENCE
    assert one.call("MUNLOCK", 64, *range(64)) == b":64\r\n"
    nothing_is_left(plain)


def test_what_is_no_lock_is_not_touched_nor_is_any_other(clients, plain):
    one, = clients(1)
    plain.zadd("b", {"x": 1})
    for command in (("MLOCK", 3, "a", "b", "c"), ("MLOCK", 3, "a", "b", "c", *LONG)):
        assert one.call(*command) == WRONGTYPE
    assert one.call("LOCK", "a") == FENCE
    assert one.call("MUNLOCK", 2, "a", "b") == WRONGTYPE
    assert plain.hlen("a") == 1 and plain.zcard("b") == 1 and not plain.exists("c")


def test_locks_of_rules_and_other_clients_owners_are_refused(clients, plain):
    one, two = clients(2, rule() + VERBS)
    assert one.call("MLOCK", 2, "a", "lock:b").startswith(b"-ERR the key has a [lock] rule")
    assert one.call("MUNLOCK", 2, "a", "lock:b").startswith(b"-ERR the key has a [lock] rule")
    assert one.call("MLOCK", 2, "a", "hasp:fence:{x}").startswith(b"-")
    assert one.call("LOCK", "c") == FENCE
    assert two.call("MUNLOCK", 1, "c", "AS", told(two, "c")["owner"]) == b"-ERR AS names the owner of another client\r\n"
    assert not plain.exists("a")


@covers("mlock", "munlock")
def test_the_names_are_settings(clients):
    one, = clients(1, verbs(mlock="TAKE.ALL", munlock="GIVE.ALL"))
    assert one.call("take.all", 1, "a") == FENCE
    assert one.call("GIVE.ALL", 1, "a") == ONE
    assert one.call("MLOCK", 1, "a").startswith(b"-ERR unknown command")


def test_a_transaction_takes_all_or_none_and_does_not_wait(clients, plain):
    one, two = clients(2, VERBS)
    assert two.call("LOCK", "b") == FENCE
    for answer in (b"*2\r\n$-1\r\n:0\r\n", b"*2\r\n:1"):
        assert one.call("MULTI") == OK
        assert one.call("MLOCK", 2, "a", "b", *LONG) == QUEUED
        assert one.call("MUNLOCK", 1, "c") == QUEUED
        assert one.call("EXEC").startswith(answer)
        assert plain.exists("a") == (answer != b"*2\r\n$-1\r\n:0\r\n")
        two.call("UNLOCK", "b")
    assert one.call("MUNLOCK", 2, "a", "b") == b":2\r\n"


# --- waiting ---------------------------------------------------------------------


@LAYOUTS
def test_it_waits_for_each_in_turn_and_keeps_what_it_has(start_hasp, plain, reentrant):
    hasp = start_hasp(verbs(reentrant=reentrant), workers=2)
    with hasp.connect() as one, hasp.connect() as two, hasp.connect() as three:
        last = [fence(one.call("LOCK", key)) for key in "bd"][-1]
        stand(plain, two, "MLOCK", 5, "e", "d", "c", "b", "a", "PX", 60000, *LONG, queue=queue_of("b"))
        assert three.call("LOCK", "a") == NIL
        assert three.call("MLOCK", 2, "c", "e") == FENCE
        assert three.call("MUNLOCK", 2, "c", "e") == b":2\r\n"
        assert one.call("UNLOCK", "b") == ONE
        until(lambda: entries(plain, "d"), "the client to wait for lock d")
        assert plain.exists("a", "b", "c") == 3 and not plain.exists("e")
        assert three.call("MLOCK", 2, "b", "c") == NIL
        assert one.call("UNLOCK", "d") == ONE
        token = fence(two.read())
        assert token > last
        assert [told(three, key)["fence"] for key in "abcde"] == [token] * 5
        assert all(plain.pttl(key) > 10000 for key in "abcde")
        assert two.call("MUNLOCK", 5, *"abcde") == b":5\r\n"
        nothing_is_left(plain)


@LAYOUTS
def test_a_wait_in_vain_gives_all_back_before_the_client_is_told(clients, plain, reentrant):
    one, two = clients(2, verbs(reentrant=reentrant))
    assert one.call("LOCK", "c") == FENCE
    assert two.call("MLOCK", 3, "a", "b", "c", "WAIT", 50) == NIL
    assert plain.exists("a", "b") == 0
    nobody_waits(plain, "c")
    assert one.call("UNLOCK", "c") == ONE
    nothing_is_left(plain)


def test_a_client_that_goes_while_it_waits_leaves_nothing(share_hasp, plain):
    hasp = share_hasp(VERBS)
    with hasp.connect() as one, hasp.connect() as three:
        assert one.call("LOCK", "b") == FENCE
        with hasp.connect() as two:
            stand(plain, two, "MLOCK", 3, "a", "b", "c", *LONG, queue=queue_of("b"))
            stand(plain, three, "LOCK", "a", *LONG)
        assert three.read() == FENCE
        nobody_waits(plain, "b")
        assert one.call("UNLOCK", "b") == three.call("UNLOCK", "a") == ONE
        nothing_is_left(plain)


def test_what_it_has_is_renewed_while_it_waits(clients, plain):
    one, two = clients(2)
    assert one.call("LOCK", "c") == FENCE
    stand(plain, two, "MLOCK", 3, "a", "b", "c", "PX", 3000, *LONG, queue=queue_of("c"))
    plain.pexpire("a", 5000)
    plain.pexpire("b", 5000)
    until(lambda: plain.pttl("a") > 5000 and plain.pttl("b") > 5000, "both locks to be renewed")
    assert one.call("LOCK", "a") == NIL


@LAYOUTS
def test_a_part_that_was_lost_while_it_waited_is_taken_again(clients, plain, reentrant):
    one, two = clients(2, verbs(reentrant=reentrant))
    assert one.call("LOCK", "c") == FENCE
    stand(plain, two, "MLOCK", 3, "a", "b", "c", *LONG, queue=queue_of("c"))
    plain.delete("a")
    assert one.call("UNLOCK", "c") == ONE
    token = fence(two.read())
    assert [told(one, key)["fence"] for key in "abc"] == [token] * 3


@LAYOUTS
def test_a_part_that_another_has_got_meanwhile_is_waited_for_without_the_later_ones(clients, plain, reentrant):
    one, two, three = clients(3, verbs(reentrant=reentrant))
    assert one.call("LOCK", "c") == FENCE
    stand(plain, two, "MLOCK", 3, "a", "b", "c", *LONG, queue=queue_of("c"))
    plain.delete("a")
    assert three.call("LOCK", "a") == FENCE
    assert one.call("UNLOCK", "c") == ONE
    until(lambda: entries(plain, "a"), "the client to wait for lock a")
    assert not plain.exists("b", "c")
    assert one.call("MLOCK", 2, "b", "c") == FENCE
    assert three.call("UNLOCK", "a") == ONE
    until(lambda: entries(plain, "b"), "the client to wait for lock b")
    assert one.call("MUNLOCK", 2, "b", "c") == b":2\r\n"
    assert two.read() == FENCE
    assert two.call("MUNLOCK", 3, *"abc") == b":3\r\n"
    nothing_is_left(plain)


def test_lock_that_mlock_gave_back_for_a_while_is_its_own_when_it_has_all(clients, plain):
    """Another client of the same owner has the lock in between."""
    one, two, three, four = clients(4)
    job = ("AS", "job")
    assert one.call("LOCK", "b") == FENCE
    assert four.call("LOCK", "a", *job) == FENCE
    stand(plain, two, "MLOCK", 2, "a", "b", *LONG, *job, queue=queue_of("b"))
    stand(plain, three, "LOCK", "b", *LONG, *job, queue=queue_of("b"))
    assert four.call("UNLOCK", "a", *job) == ONE
    assert four.call("LOCK", "a") == FENCE
    assert one.call("UNLOCK", "b") == ONE
    assert three.read() == FENCE
    until(lambda: entries(plain, "a"), "the client to wait for lock a")
    assert plain.hvals("b") == ["1"]
    assert four.call("UNLOCK", "a") == ONE
    assert two.read() == FENCE
    assert plain.hvals("b") == ["2"]
    assert two.call("MUNLOCK", 2, "a", "b", *job) == b":2\r\n"
    assert three.call("UNLOCK", "b", *job) == ONE
    nothing_is_left(plain)


@LAYOUTS
def test_nobody_waits_for_what_its_own_connection_could_not_release(clients, plain, reentrant):
    one, two = clients(2, verbs(reentrant=reentrant))
    assert one.call("LOCK", "b", "AS", "x") == FENCE
    plain.config_set("min-replicas-to-write", 1)
    assert one.call("UNLOCK", "b", "AS", "x") == NOREPLICAS
    plain.config_set("min-replicas-to-write", 0)
    assert one.call("MLOCK", 2, "a", "b", *LONG, "AS", "y") == NIL
    stand(plain, two, "MLOCK", 2, "a", "b", *LONG, "AS", "z", queue=queue_of("b"))
    assert one.call("UNLOCK", "b", "AS", "x") == ONE
    assert two.read() == FENCE


def test_nobody_is_overtaken(clients, plain):
    one, two, three, four = clients(4)
    assert one.call("LOCK", "b") == FENCE
    stand(plain, two, "LOCK", "b", *LONG)
    stand(plain, three, "MLOCK", 2, "a", "b", *LONG, queue=queue_of("b"))
    stand(plain, four, "LOCK", "b", *LONG)
    assert one.call("UNLOCK", "b") == ONE
    assert two.read() == FENCE
    assert two.call("UNLOCK", "b") == ONE
    assert three.read() == FENCE
    assert three.call("MUNLOCK", 2, "a", "b") == b":2\r\n"
    assert four.read() == FENCE


def test_two_that_name_them_in_opposite_order_do_not_wait_in_a_circle(clients, plain):
    ones = clients(4, workers=2)
    commands = (("MLOCK", 3, "a", "b", "c", *LONG), ("MLOCK", 3, "c", "b", "a", *LONG))
    for turn in range(40):
        for number, one in enumerate(ones):
            one.send(encode(*commands[(number + turn) % 2]) + encode("MUNLOCK", 3, "b", "a", "c"))
    for _ in range(40):
        for one in ones:
            assert (one.read(), one.read()) == (FENCE, b":3\r\n")
    nothing_is_left(plain)


def test_scripts_that_redis_forgets_are_sent_again(clients, plain):
    one, two = clients(2)
    assert one.call("LOCK", "b") == FENCE
    plain.script_flush()
    stand(plain, two, "MLOCK", 2, "a", "b", *LONG, queue=queue_of("b"))
    plain.script_flush()
    assert one.call("UNLOCK", "b") == ONE
    assert two.read() == FENCE
    plain.script_flush()
    assert two.call("MUNLOCK", 2, "a", "b") == b":2\r\n"


def test_it_keeps_its_place_when_the_queue_is_lost(clients, plain):
    one, two, three = clients(3)
    assert one.call("LOCK", "b") == FENCE
    stand(plain, two, "MLOCK", 2, "a", "b", *LONG, queue=queue_of("b"))
    stand(plain, three, "LOCK", "b", *LONG)
    plain.delete(queue_of("b"))
    until(lambda: len(entries(plain, "b")) == 2, "both waiters to enter the new queue")
    assert one.call("UNLOCK", "b") == ONE
    assert two.read() == FENCE
    assert two.call("MUNLOCK", 2, "a", "b") == b":2\r\n"
    assert three.read() == FENCE


def new_connection_of_its_own(hasp, plain):
    """Cuts hasp's own connection; with the next one, hasp decides again about waiting commands."""
    def own():
        return {one["id"] for one in info.clients(plain, name="hasp-0-control")}

    was = until(own, "hasp's own connection")
    for one in was:
        plain.client_kill_filter(_id=one)
    until(lambda: own() - was and hasp.log.count("upstream_up") > 1, "hasp's new own connection")
    is_ready(hasp, plain)
    hasp.take_turn()


@LAYOUTS
def test_it_goes_on_with_what_it_has_when_hasp_decides_anew(start_hasp, plain, reentrant):
    hasp = is_ready(start_hasp(verbs(reentrant=reentrant)), plain)
    with hasp.connect() as one, hasp.connect() as two, hasp.connect() as three:
        assert one.call("LOCK", "b") == FENCE
        stand(plain, two, "MLOCK", 2, "a", "b", *LONG, queue=queue_of("b"))
        ticket = entries(plain, "b")
        stand(plain, three, "LOCK", "b", *LONG)
        new_connection_of_its_own(hasp, plain)
        plain.delete(queue_of("b"))
        until(lambda: len(entries(plain, "b")) == 2, "both waiters to enter the new queue")
        assert entries(plain, "b")[:1] == ticket
        assert one.call("UNLOCK", "b") == ONE
        token = fence(two.read())
        assert [told(one, key)["fence"] for key in "ab"] == [token] * 2
        assert two.call("MUNLOCK", 2, "a", "b") == b":2\r\n"
        assert three.read() == FENCE


@pytest.mark.parametrize("other", ["", "reentrant", "names"])
def test_a_wait_in_vain_gives_all_back_when_hasp_decides_anew(start_hasp, gates, plain, other):
    hasp = is_ready(start_hasp(verbs(reentrant="count", max_hold="1h"), upstream=gates.address), plain)
    with hasp.connect() as one, hasp.connect() as two:
        assert one.call("LOCK", "c") == FENCE
        stand(plain, two, "MLOCK", 3, "a", "b", "c", "WAIT", 3000, queue=queue_of("c"))
        gates.shut(requests=["own"])
        if other == "reentrant":
            hasp.reload("reentrant = count", "reentrant = no")
        elif other == "names":
            hasp.reload("[verbs]", "[verbs]\nmlock = TAKE.ALL")
        else:
            hasp.reload("max_hold = 1h", "max_hold = 2h")
        assert two.read() == NIL
        assert plain.exists("a", "b") == 0
        gates.open()
        nobody_waits(plain, "c")


def test_what_it_has_is_given_back_when_it_is_another_try_now(start_hasp, gates, plain):
    """The reloaded rules forbid the command; hasp releases the locks before it sends the error, also if
    Redis has forgotten the script."""
    hasp = is_ready(start_hasp(VERBS, upstream=gates.address), plain)
    with hasp.connect() as one, hasp.connect() as two:
        assert one.call("LOCK", "b") == FENCE
        stand(plain, two, "MLOCK", 3, "a", "b", "lock:c", *LONG, queue=queue_of("b"))
        hasp.reload("[verbs]", rule() + "[verbs]")
        gates.shut(requests=["own"])
        plain.script_flush()
        assert one.call("UNLOCK", "b") == ONE
        assert two.read().startswith(b"-ERR the key has a [lock] rule")
        assert plain.exists("a", "b") == 0


@pytest.mark.parametrize("mlock_comes_last", [False, True])
def test_a_circle_with_what_it_has_is_told(clients, plain, mlock_comes_last):
    one, two = clients(2)
    for holder, key in ((one, "b"), (two, "z")):
        assert holder.call("LOCK", key) == FENCE
    several = two, ("MLOCK", 2, "a", "b", "WAIT", 600000), "b"
    single = one, ("LOCK", "z" if mlock_comes_last else "a", "WAIT", 600000), "z"
    first, last = (single, several) if mlock_comes_last else (several, single)
    stand(plain, first[0], *first[1], queue=queue_of(first[2]))
    last[0].send(encode(*last[1]))
    # hasp refuses the client that closes the circle; on a busy machine, it may be the other one.
    until(lambda: readable(one.sock, two.sock), "one client to get an error")
    told_one = one if readable(one.sock) else two
    assert told_one.read().startswith(b"-DEADLOCK ")
    if told_one is one:
        assert one.call("UNLOCK", "b") == ONE
        assert two.read() == FENCE
        return
    assert two.call("UNLOCK", "z") == ONE
    assert one.read() == FENCE
    until(lambda: plain.exists("a") == (not mlock_comes_last), "the refused MLOCK to release lock a")


# --- renewal, release, and what goes wrong -----------------------------------------


@LAYOUTS
def test_all_are_renewed_and_released_at_disconnect(share_hasp, plain, reentrant):
    hasp = share_hasp(short_verbs(on_disconnect="release", reentrant=reentrant))
    with hasp.connect() as other:
        assert other.call("LOCK", "c") == FENCE
        with hasp.connect() as one:
            stand(plain, one, "MLOCK", 3, "a", "b", "c", *LONG, queue=queue_of("c"))
            assert other.call("UNLOCK", "c") == ONE
            assert one.read() == FENCE
            assert is_renewed(plain, "a", "b", "c")
        nothing_is_left(plain)


def test_holds_of_the_same_owner_elsewhere_are_renewed_on(start_hasp, plain):
    hasp = start_hasp(short_verbs(on_disconnect="release"), workers=2)
    with hasp.connect() as one, hasp.connect() as two:
        assert one.call("LOCK", "a", "AS", "job") == FENCE
        assert two.call("MLOCK", 2, "a", "b", "AS", "job") == FENCE
        assert is_renewed(plain, "a", "b")
        two.close()
        until(lambda: not plain.exists("b"), "the disconnected client's lock b to be released")
        assert is_renewed(plain, "a")
        assert one.call("UNLOCK", "a", "AS", "job") == ONE
        nothing_is_left(plain)


def test_an_answer_that_was_lost_is_undone_in_all(start_hasp, redis_server, plain):
    with Relay(redis_server.address) as relay:
        hasp = is_ready(start_hasp(VERBS, upstream=relay.address), plain)
        with hasp.connect() as one:
            assert one.call("PING") == PONG  # so its link to Redis is connected
            relay.swallows = True
            one.send(encode("MLOCK", 3, "a", "b", "c", "PX", 600000))
            until(lambda: plain.exists("a", "b", "c") == 3, "the locks to be taken")
            relay.cut()
            assert one.file.read().startswith(UNKNOWN)
        relay.mend()
        nothing_is_left(plain)


def test_what_it_has_is_given_back_when_redis_goes_while_it_waits(start_hasp, redis_server, plain):
    with Relay(redis_server.address) as relay:
        hasp = is_ready(start_hasp(VERBS, upstream=relay.address), plain)
        assert plain.hset("b", "x", 1) == 1
        with hasp.connect() as one:
            stand(plain, one, "MLOCK", 2, "a", "b", "WAIT", 600000, queue=queue_of("b"))
            relay.cut()
            one.close()
        relay.mend()
        until(lambda: not plain.exists("a") and not entries(plain, "b"), "lock a and the queue of b to be gone")


@pytest.mark.parametrize("other_has", ["", "a", "b"])
def test_success_that_comes_when_the_leases_are_over_is_told_only_if_all_can_be_had_again(
        start_hasp, redis_server, plain, other_has):
    with Relay(redis_server.address) as relay:
        hasp = is_ready(start_hasp(VERBS, upstream=relay.address), plain)
        with hasp.connect() as one:
            assert one.call("PING") == PONG  # so its link to Redis is connected
            relay.holds_back = FENCE
            one.send(encode("MLOCK", 2, "a", "b", "PX", 2000))
            until(lambda: plain.get("hasp:fence"), "the locks to be taken")
            first = int(plain.get("hasp:fence"))
            until(lambda: plain.exists("a", "b") == 0, "both leases to end")
            if other_has:
                plain.hset(other_has, "another", 1)
            relay.holds_back = None
            answer = one.read()
            if other_has:
                assert answer == NIL
                assert plain.exists("a", "b") == 1
            else:
                assert fence(answer) > first


def test_replicas_must_have_all_of_them(clients, plain):
    one, = clients(1, verbs(replicas_ack=1, replicas_ack_timeout="50ms"))
    assert one.call("MLOCK", 3, "a", "b", "c", "PX", 60000) == NOREPLICAS
    until(lambda: not plain.exists("a", "b", "c"), "all locks to be released")


def test_two_hasps_share_the_lines(share_hasp, plain):
    hasps = [share_hasp(VERBS) for _ in range(2)]
    with hasps[0].connect() as one, hasps[1].connect() as two:
        assert one.call("MLOCK", 2, "a", "b") == FENCE
        stand(plain, two, "MLOCK", 3, "c", "b", "a", *LONG, queue=queue_of("a"))
        assert one.call("MUNLOCK", 2, "a", "b") == b":2\r\n"
        assert two.read() == FENCE
        stand(plain, one, "LOCK", "c", *LONG)
        assert two.call("MUNLOCK", 3, "a", "b", "c") == b":3\r\n"
        assert one.read() == FENCE
