# SPDX-License-Identifier: BSD-3-Clause
"""Guards when something goes wrong, or changes, between the read and the write.

Whatever it is: what another one has written is not overwritten by who did not read it, no
guard stays behind, and nobody waits for nothing.
"""

import signal
from select import select

import pytest
from harness import RedisServer, encode, until
from harness.guards import (GUARD, KEY, NIL, OK, ONE, QUEUE, QUEUED, WRONGTYPE, bulk, guard, held, is_locked, is_lost,
                            nothing_left, overtake, reload, stands, transact)
from harness.relay import Relay

SECOND = "stock:2"
SHARED = pytest.mark.parametrize("owner", ["address", "name", "user"])
ANY = pytest.mark.parametrize("owner", ["connection", "name"])
EXECABORT = b"-EXECABORT Transaction discarded because of previous errors.\r\n"


def named(hasp, name):
    connection = hasp.connect()
    assert connection.call("CLIENT", "SETNAME", name) == OK
    return connection


# --- transactions ---

@pytest.mark.parametrize("command", [("get", "other"), ("IncrbY", "other", 1), ("srem", "other", 1)])
def test_exec_is_not_mistaken_for_a_command_of_its_block(start_hasp, command):
    """Their names take the place of EXEC's among those that are remembered."""
    hasp = start_hasp(guard(acquire_on="GET"))
    with hasp.connect() as one:
        assert transact(one, command, ("SET", "other", 1))[-1].startswith(b"*2\r\n")
        assert transact(one, command, ("SET", KEY, 1))[-1].startswith(b"*2\r\n")
        assert one.call("PING") == b"+PONG\r\n"


def test_write_that_failed_in_a_transaction_keeps_its_guard(start_hasp, plain):
    hasp = start_hasp(guard())
    plain.set(KEY, "text")
    with hasp.connect() as one:
        assert one.call("GET", KEY) == bulk("text")
        assert transact(one, ("LPUSH", KEY, 1), ("SET", "other", 1))[-1] == b"*2\r\n" + WRONGTYPE + OK
        assert plain.exists(GUARD)
        overtake(plain)
        assert is_lost(one.call("SET", KEY, 1))


def test_read_in_a_transaction_with_a_failed_write_counts(start_hasp, plain):
    hasp = start_hasp(guard())
    plain.set(KEY, "text")
    with hasp.connect() as one:
        assert transact(one, ("LPUSH", KEY, 1), ("GET", KEY))[-1] == b"*2\r\n" + WRONGTYPE + bulk("text")
        overtake(plain)
        assert is_lost(one.call("SET", KEY, 1))


def test_write_that_failed_keeps_the_guard_where_the_application_watches(start_hasp, plain):
    hasp = start_hasp(guard())
    plain.set(KEY, "text")
    with hasp.connect() as one:
        one.call("WATCH", KEY)
        one.call("GET", KEY)
        assert transact(one, ("LPUSH", KEY, 1))[-1] == b"*1\r\n" + WRONGTYPE
        overtake(plain)
        assert is_lost(one.call("SET", KEY, 1))


def test_command_that_was_refused_when_it_was_queued_is_not_carried_out(start_hasp, plain):
    """It might not be refused when the transaction is sent again."""
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        assert [one.call("MULTI"), one.call("SET", "free", 1)] == [OK, QUEUED]
        plain.config_set("maxmemory", 1)
        assert one.call("SET", KEY, 1).startswith(b"-OOM ")
        plain.config_set("maxmemory", 0)
        assert one.call("EXEC") == EXECABORT
        assert plain.exists(KEY, "free") == 0
        nothing_left(plain)
        # That one is over.
        assert transact(one, ("SET", KEY, 1))[-1] == b"*1\r\n" + OK


def test_refusal_in_a_discarded_transaction_is_forgotten(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        one.send(b"".join(encode(*c) for c in [
            ("MULTI",), ("NOSUCH",), ("DISCARD",), ("MULTI",), ("SET", KEY, 1), ("EXEC",)]))
        replies = [one.read() for _ in range(6)]
        assert replies[1].startswith(b"-ERR unknown") and replies[-1] == b"*1\r\n" + OK
    nothing_left(plain)


def test_transaction_that_is_refused_leaves_no_guard(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as one:
        assert transact(one, ("SET", KEY, 1), ("NOSUCH",))[-1] == EXECABORT
        nothing_left(plain)


@pytest.mark.parametrize("command", [("EVAL", "return 1", 1, KEY), ("HDEL", KEY, "f")])
def test_transaction_that_does_not_release_leaves_no_guard_that_nobody_has_read_under(start_hasp, plain, command):
    hasp = start_hasp(guard(lease="60s", release_on="HSET"))
    with hasp.connect() as one:
        assert transact(one, command)[-1].startswith(b"*1\r\n:")
        nothing_left(plain)


def test_multi_that_redis_refuses_guards_what_follows(start_hasp, plain):
    """What was sent behind it is carried out at once."""
    hasp = start_hasp(guard(wait="50ms"))
    with held(hasp), hasp.connect() as one:
        one.send(encode("MULTI", "x") + encode("SET", "free", 1) + encode("SET", KEY, "blind"))
        assert one.read().startswith(b"-ERR wrong number") and one.read() == OK
        assert is_locked(one.read())
        assert not plain.exists(KEY)


def test_transaction_that_redis_refused_is_not_carried_out_with_the_next(start_hasp, plain):
    plain.execute_command("ACL", "SETUSER", "default", "-multi")
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        one.send(encode("MULTI") + encode("INCR", "free"))
        assert one.read().startswith(b"-NOPERM") and one.read() == ONE
        plain.execute_command("ACL", "SETUSER", "default", "+multi")
        assert transact(one, ("SET", KEY, 1))[-1] == b"*1\r\n" + OK
        assert plain.get("free") == "1"


@pytest.mark.parametrize("command", [("INCR", KEY), ("EVAL", "return 1", 1, KEY)])
def test_watch_is_not_ended_by_a_fenced_command(start_hasp, plain, command):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        assert one.call("WATCH", "mine") == OK
        reply = one.call(*command)
        plain.set("mine", "changed")
        if not reply.startswith(b"-ERR hasp: "):
            assert reply == ONE
        assert transact(one, ("SET", "free", 1))[-1] == b"*-1\r\n"
        assert not plain.exists("free")
        assert one.call(*command) == ONE


def test_unwatch_that_redis_refuses_watches_on(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        assert one.call("WATCH", KEY) == OK
        assert one.call("GET", KEY) == NIL
        assert one.call("UNWATCH", "x").startswith(b"-ERR wrong number")
        plain.set(KEY, "changed")
        assert transact(one, ("SET", KEY, 1))[-1] == b"*-1\r\n"
        assert plain.get(KEY) == "changed"


# --- reloads ---

def test_guard_that_comes_during_a_transaction_loses_none_of_its_commands(start_hasp, plain):
    hasp = start_hasp()
    with hasp.connect() as one:
        assert one.call("MULTI") == OK
        assert one.call("SET", "free", 1) == QUEUED
        reload(hasp, "[upstream]", guard() + "[upstream]")
        assert one.call("SET", KEY, 1) == QUEUED
        assert one.call("EXEC").startswith(b"-ERR hasp: ")
        assert plain.exists("free", KEY) == 0
        assert transact(one, ("SET", "free", 1), ("SET", KEY, 1))[-1] == b"*2\r\n" + 2 * OK


def test_guard_that_grows_during_a_transaction_concerns_it(start_hasp, plain):
    hasp = start_hasp(guard(pattern="others:*", acquire_on="HGET"))
    with hasp.connect() as one, hasp.connect() as other:
        assert [one.call("MULTI"), one.call("GET", KEY)] == [OK, QUEUED]
        reload(hasp, "pattern = others:*\nacquire_on = HGET", "pattern = stock:*\nacquire_on = GET")
        assert one.call("EXEC") == b"*1\r\n" + NIL
        stands(plain, other, "GET", KEY)
        assert one.call("SET", KEY, 1) == OK
        assert other.read() == bulk("1")


def test_owner_that_changes_does_not_make_the_read_forgotten(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        reload(hasp, "acquire_on", "owner = address\nacquire_on")
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"
        assert one.call("GET", KEY) == bulk("other")
        assert one.call("SET", KEY, "one") == OK


def test_who_waits_is_refused_when_a_rule_comes_in_between(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with held(hasp) as one, hasp.connect() as other:
        stands(plain, other, "MSET", KEY, 1, "lock:1", 1)
        reload(hasp, "[upstream]", "[lock l]\npattern = lock:*\n[upstream]")
        assert one.call("SET", KEY, "one") == OK
        assert other.read().startswith(b"-ERR hasp: ")
        assert other.call("PING") == b"+PONG\r\n"


@pytest.mark.parametrize("command", [("GET", KEY), ("SET", KEY, 1), ("INCR", KEY), ("HGETALL", KEY)])
def test_who_waits_goes_on_when_there_is_no_guard_any_more(start_hasp, plain, command):
    hasp = start_hasp(guard(lease="60s"))
    with held(hasp), hasp.connect() as other:
        other.call("HELLO", 3)
        stands(plain, other, *command)
        reload(hasp, guard(lease="60s"), "")
        plain.delete(GUARD)
        assert not other.read().startswith(b"-")
        assert other.call("PING") == b"+PONG\r\n"


def test_who_waits_stays_in_line_when_its_guard_changes(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with held(hasp) as one, hasp.connect() as other:
        stands(plain, other, "GETEX", KEY)
        reload(hasp, "acquire_on = ", "acquire_on = GETEX, ")
        assert one.call("SET", KEY, "one") == OK
        assert other.read() == bulk("one")
        assert other.call("SET", KEY, "two") == OK
    nothing_left(plain)


# --- who asks ---

def test_new_name_reads_as_itself(start_hasp, plain):
    """What the connection once read as another, that one may have written elsewhere."""
    hasp = start_hasp(guard(owner="name"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "v0") == OK
        assert one.call("CLIENT", "SETNAME", "y") == OK
        assert one.call("GET", KEY) == bulk("v0")
        stands(plain, two, "GET", KEY)
        assert one.call("SET", KEY, "v1") == OK
        assert two.read() == bulk("v1")
        assert two.call("SET", KEY, "v2") == OK
    nothing_left(plain)


def test_new_name_that_waits_in_vain_has_still_read_as_the_old_one(start_hasp, plain):
    hasp = start_hasp(guard(owner="name", wait="50ms"))
    with named(hasp, "x") as one, named(hasp, "z") as other:
        assert one.call("GET", KEY) == NIL
        overtake(plain, value="v1")
        assert one.call("CLIENT", "SETNAME", "y") == OK
        assert other.call("GET", KEY) == bulk("v1")
        assert is_locked(one.call("GET", KEY))
        assert other.call("SET", KEY, "v2") == OK
        assert is_lost(one.call("SET", KEY, "v0"))
        assert one.call("GET", KEY) == bulk("v2")
        assert one.call("SET", KEY, "v3") == OK


def test_name_that_changes_between_read_and_write_is_no_way_into_anothers_work(start_hasp, plain):
    hasp = start_hasp(guard(owner="name"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "v0") == OK
        assert one.call("CLIENT", "SETNAME", "y") == OK
        assert two.call("GET", KEY) == bulk("v0")
        assert is_lost(one.call("SET", KEY, "y's"))
        assert two.call("SET", KEY, "v1") == OK


@pytest.mark.parametrize("write", [(("INCR", KEY),), (("MULTI",), ("SET", KEY, 1), ("EXEC",)),
                                   (("WATCH", "free"), ("GET", KEY), ("MULTI",), ("SET", KEY, 1), ("EXEC",))])
def test_owner_hears_of_its_write_when_its_guard_is_released(start_hasp, plain, redis_server, write):
    """Before that it would read under the guard that is about to be released."""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard(owner="name", lease="60s"), upstream=relay.address)
        plain.set(KEY, 5)
        with named(hasp, "x") as one:
            relay.holds_back = ONE  # the answer to the release
            for command in (("GET", KEY), *write[:-1]):
                one.call(*command)
            one.send(encode(*write[-1]))
            until(lambda: plain.get(KEY) != "5" and not plain.exists(GUARD), "it to be written and released")
            hasp.take_turn()
            assert select([one.sock], [], [], 0)[0] == []
            relay.holds_back = None
            assert one.read()[:1] in b":*"
    nothing_left(plain)


def test_name_that_comes_after_the_read_loses_nothing(start_hasp, plain):
    hasp = start_hasp(guard(owner="name"))
    with hasp.connect() as one:
        assert one.call("GET", KEY) == NIL
        assert one.call("CLIENT", "SETNAME", "y") == OK
        assert one.call("SET", KEY, 1) == OK
    nothing_left(plain)


def test_who_has_no_name_is_its_connection(start_hasp, plain):
    """What it has read its own hasp remembers, and Redis need not."""
    hasp = start_hasp(guard(owner="name"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", KEY) == NIL
        assert plain.keys("hasp:*") == [GUARD]
        stands(plain, other, "GET", KEY)
        assert one.call("SET", KEY, 1) == OK
        assert other.read() == bulk("1")
        overtake(plain)
        assert is_lost(other.call("SET", KEY, 2))


# --- reading again ---

@ANY
def test_key_that_was_lost_is_not_had_again_by_waiting_for_another(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, wait="50ms", lease="60s"))
    with named(hasp, "a") as one, named(hasp, "b") as other, named(hasp, "c") as third:
        assert one.call("GET", KEY) == NIL
        plain.delete(GUARD)
        assert other.call("GET", KEY) == NIL
        assert other.call("SET", KEY, "other") == OK
        assert third.call("GET", SECOND) == NIL
        assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@ANY
def test_guard_that_comes_when_nobody_waits_any_more_makes_nothing_good(start_hasp, plain, owner):
    """It was given to who had left the line, as far as that one knows."""
    hasp = start_hasp(guard(owner=owner, wait="200ms", lease="60s"))
    with named(hasp, "a") as one, named(hasp, "b") as other:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        assert other.call("GET", KEY) == bulk("other")
        stands(plain, one, "GET", KEY)
        token = plain.zrange(QUEUE, 0, 0)[0].split(" ")[-1]
        assert is_locked(one.read())
        plain.set(GUARD, token)
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@ANY
def test_who_waits_in_vain_for_a_second_key_keeps_the_first(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, wait="50ms", lease="60s"))
    with named(hasp, "a") as one, named(hasp, "b") as other:
        assert one.call("GET", KEY) == NIL
        assert other.call("GET", SECOND) == NIL
        assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
        assert one.call("SET", KEY, "one") == OK


@SHARED
def test_guard_that_is_handed_to_who_has_given_up_makes_nothing_good(start_hasp, plain, owner):
    """Twice: by the first one its owner reads, by the second one it has the guard again."""
    settings = guard(owner=owner, wait="60s", lease="60s")
    hasp, gone, other = start_hasp(settings), start_hasp(settings), start_hasp(guard(wait="60s", lease="60s"))
    with other.connect() as first, other.connect() as second, named(hasp, "x") as one, \
            named(gone, "x") as two, named(gone, "x") as three:
        assert first.call("GET", KEY) == NIL
        stands(plain, two, "GET", KEY)
        stands(plain, second, "GET", KEY)
        stands(plain, three, "GET", KEY)
        gone.freeze()
        try:
            assert first.call("SET", KEY, "first") == OK
            assert one.call("GET", KEY) == bulk("first")
            plain.delete(GUARD)
            assert second.read() == bulk("first")
            assert second.call("SET", KEY, "second") == OK
            assert plain.zcard(QUEUE) == 0 and plain.exists(GUARD)
            assert is_lost(one.call("SET", KEY, "one"))
            assert plain.get(KEY) == "second"
        finally:
            gone.signal(signal.SIGCONT)


def test_outcome_that_is_not_known_is_told_though_more_is_on_its_way(start_hasp, plain, redis_server):
    """What the read had taken by plain commands, when somebody stood in line, is being given back."""
    with Relay(redis_server.address) as relay:
        hasp = start_hasp(guard(), upstream=relay.address)
        with hasp.connect() as one:
            for key, cut in ((SECOND, False), (KEY, True)):
                plain.set(key, 5)
                plain.zadd(f"hasp:queue:hasp:guard:{{{key}}}:", {"somebody": 1})
                # In one piece or two.
                relay.holds_back = (ONE, ONE + bulk("5")) if cut else None
                one.send(encode("GET", key))
                assert cut or one.read() == bulk("5")
            until(lambda: plain.get(GUARD) and not plain.exists(QUEUE), "its script to be carried out")
            hasp.take_turn()
            relay.cut()
            assert one.read().endswith(b"; whether the command was carried out is not known\r\n")
            relay.holds_back = None


@SHARED
@pytest.mark.parametrize("reads_itself", [True, False])
def test_read_in_a_transaction_that_is_refused_makes_nothing_good(start_hasp, plain, owner, reads_itself):
    hasp = start_hasp(guard(owner=owner, lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        assert transact(one if reads_itself else two, ("GET", KEY), ("NOSUCH",))[-1] == EXECABORT
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"
        assert not plain.exists(GUARD)


FAILING = pytest.mark.parametrize("command", [("HGET", KEY, "f"), ("XRANGE", KEY, "-", "+")])


@SHARED
@FAILING
def test_read_that_fails_makes_nothing_good(start_hasp, plain, owner, command):
    hasp = start_hasp(guard(owner=owner, acquire_on="GET HGET XRANGE", wait="60s", lease="60s"))
    other = start_hasp(guard(lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two, other.connect() as first:
        assert one.call("GET", KEY) == NIL
        plain.delete(GUARD)
        assert first.call("GET", KEY) == NIL
        stands(plain, two, *command)
        assert first.call("SET", KEY, "first") == OK
        assert two.read() == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "first"


@SHARED
@FAILING
def test_read_that_fails_at_once_makes_nothing_good(start_hasp, plain, owner, command):
    hasp = start_hasp(guard(owner=owner, acquire_on="GET HGET XRANGE", lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        assert two.call(*command) == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@SHARED
@pytest.mark.parametrize("command", [("XRANGE", KEY, "-", "+"), ("MULTI",)])
def test_guard_that_nobody_came_for_makes_nothing_good(start_hasp, plain, owner, command):
    """It was handed to a try that had been given up; then a read of the same owner fails."""
    hasp = start_hasp(guard(owner=owner, acquire_on="GET XRANGE", lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        token = plain.get(GUARD)
        plain.set(KEY, "other")
        plain.set(GUARD, f"{token} 1-1")
        if command == ("MULTI",):
            assert transact(two, ("GET", KEY), ("NOSUCH",))[-1] == EXECABORT
        else:
            assert two.call(*command) == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@SHARED
def test_guard_is_given_back_by_a_command_that_waited_and_failed(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, wait="60s", lease="60s"))
    other = start_hasp(guard(lease="60s"))
    with named(hasp, "x") as one, other.connect() as first:
        assert first.call("GET", KEY) == NIL
        stands(plain, one, "INCR", KEY)
        assert first.call("SET", KEY, "word") == OK
        assert one.read() == b"-ERR value is not an integer or out of range\r\n"
        until(lambda: not plain.exists(GUARD), "the guard to be given back")


@ANY
def test_who_gave_up_waiting_for_a_second_key_keeps_no_guard(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, wait="50ms", lease="60s"))
    with named(hasp, "a") as one, named(hasp, "b") as other:
        assert other.call("GET", SECOND) == NIL
        assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
        assert other.call("GET", KEY) == NIL


@SHARED
def test_read_that_still_waits_for_a_second_key_makes_nothing_good(start_hasp, plain, owner):
    """Its owner has the first key's guard again, and what was read of it before is still old."""
    hasp = start_hasp(guard(owner=owner, wait="10s", lease="60s"))
    other = start_hasp(guard(wait="10s", lease="60s"))
    with named(hasp, "x") as one, named(hasp, "x") as two, other.connect() as first, other.connect() as second:
        assert one.call("GET", KEY) == NIL
        plain.delete(GUARD)
        assert first.call("GET", KEY) == NIL
        assert second.call("GET", SECOND) == NIL
        stands(plain, two, "MGET", KEY, SECOND)
        assert first.call("SET", KEY, "first") == OK
        until(lambda: plain.zcard("hasp:queue:hasp:guard:{stock:2}:"), "it to wait for the second key")
        assert is_lost(one.call("SET", KEY, "one"))
        assert second.call("SET", SECOND, "second") == OK
        assert two.read() == b"*2\r\n" + bulk("first") + bulk("second")
        assert one.call("SET", KEY, "two") == OK


@pytest.mark.parametrize("command", [("HGETALL", KEY), ("ZSCORE", KEY, "m")])
def test_read_that_fails_behind_its_guard_leaves_none(start_hasp, plain, command):
    hasp = start_hasp(guard(lease="60s"))
    plain.set(KEY, "text")
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call(*command) == WRONGTYPE
        nothing_left(plain)


def test_read_that_fails_behind_its_guard_does_not_make_good_what_was_lost(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call("HGETALL", KEY) == b"%0\r\n"
        overtake(plain)
        assert one.call("HGETALL", KEY) == WRONGTYPE
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


def test_read_that_fails_behind_its_guard_keeps_what_was_not_lost(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    plain.set(KEY, "text")
    with hasp.connect() as one:
        one.call("HELLO", 3)
        assert one.call("GET", KEY) == bulk("text")
        assert one.call("HGETALL", KEY) == WRONGTYPE
        assert plain.exists(GUARD)
        assert one.call("SET", KEY, "one") == OK
    nothing_left(plain)


@SHARED
def test_read_that_fails_is_no_read_of_its_owner(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, lease="60s"))
    plain.lpush(KEY, 1)
    with named(hasp, "a") as one:
        assert one.call("GET", KEY) == WRONGTYPE
        assert one.call("DEL", KEY) == ONE
        assert plain.keys("hasp:*") == []


@SHARED
@pytest.mark.parametrize("command", [("SET", KEY, "two"), ("EVAL", "return 1", 1, KEY)])
def test_transaction_over_another_connection_does_not_have_again_what_was_lost(start_hasp, plain, owner, command):
    hasp = start_hasp(guard(owner=owner))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        overtake(plain)
        assert is_lost(transact(two, command)[-1])
        assert plain.get(KEY) == "other"


@SHARED
def test_read_in_a_transaction_counts_also_where_another_connection_has_written_since(start_hasp, plain, owner):
    """The connection that reads has read before, and knows nothing of that write."""
    hasp = start_hasp(guard(owner=owner))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "two") == OK
        assert transact(one, ("GET", KEY))[-1] == b"*1\r\n" + bulk("two")
        assert plain.exists(GUARD)
        overtake(plain)
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@SHARED
@pytest.mark.parametrize("more, answer", [((), b""), ((("LPUSH", "text", 1),), WRONGTYPE)])
def test_read_where_the_application_watches_counts_also_where_another_connection_has_written_since(
        start_hasp, plain, owner, more, answer):
    hasp = start_hasp(guard(owner=owner))
    plain.set("text", 1)
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("GET", KEY) == NIL
        assert two.call("SET", KEY, "two") == OK
        assert one.call("WATCH", "other") == OK
        assert transact(one, ("GET", KEY), *more)[-1] == b"*%d\r\n" % (1 + len(more)) + bulk("two") + answer
        overtake(plain)
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"


@SHARED
def test_writer_that_reads_is_checked_for_what_its_owner_read(start_hasp, plain, owner):
    hasp = start_hasp(guard(owner=owner, acquire_on="BITFIELD"))
    with named(hasp, "x") as one, named(hasp, "x") as two:
        assert one.call("BITFIELD", KEY, "GET", "u8", 0) == b"*1\r\n:0\r\n"
        overtake(plain, value="\x07")
        assert is_lost(two.call("BITFIELD", KEY, "SET", "u8", 0, 1))
        assert two.call("BITFIELD", KEY, "GET", "u8", 0) == b"*1\r\n:7\r\n"
        assert one.call("SET", KEY, "x") == OK
    nothing_left(plain)


def test_writer_that_reads_is_checked_for_what_it_read_before(start_hasp, plain):
    hasp = start_hasp(guard(acquire_on="BITFIELD"))
    with hasp.connect() as one:
        assert one.call("BITFIELD", KEY, "GET", "u8", 0) == b"*1\r\n:0\r\n"
        overtake(plain, value="\x07")
        assert is_lost(one.call("BITFIELD", KEY, "SET", "u8", 0, 1))
        assert plain.get(KEY) == "\x07"
        assert one.call("BITFIELD", KEY, "GET", "u8", 0) == b"*1\r\n:7\r\n"
        assert one.call("BITFIELD", KEY, "SET", "u8", 0, 1) == b"*1\r\n:7\r\n"
        assert plain.exists(GUARD)
        assert one.call("SET", KEY, "x") == OK
    nothing_left(plain)


# --- many keys, strange keys ---

def test_keys_beyond_what_is_remembered(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        for n in range(1024):
            assert one.call("GET", f"stock:{n + 1000}") == NIL
        # The oldest makes room for the first, and is read again itself.
        assert one.call("MGET", "stock:0", "stock:1000") == b"*2\r\n" + 2 * NIL
        assert one.call("SET", "stock:1000", 1) == OK
        overtake(plain, "stock:0")
        assert is_lost(one.call("SET", "stock:0", 1), "stock:0")


def test_who_has_read_too_many_to_remember_is_told_once(start_hasp):
    """Whether it had read what it writes now, is not known."""
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        for n in range(1030):
            assert one.call("GET", f"stock:{n + 1000}") == NIL
        assert is_lost(one.call("SET", KEY, 1))
        assert [one.call("SET", KEY, n) for n in range(3)] == 3 * [OK]


def test_names_that_look_the_same_are_told_apart(start_hasp, plain):
    """Only their beginnings are in errors."""
    first, second = "stock:" + 150 * "x" + "1", "stock:" + 150 * "x" + "2"
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        assert one.call("MGET", first, second) == b"*2\r\n" + 2 * NIL
        overtake(plain, second)
        assert one.call("MSET", first, 1, second, 1).startswith(b"-LOCKLOST ")
        overtake(plain, first)
        assert one.call("SET", first, 1).startswith(b"-LOCKLOST ")


@pytest.mark.parametrize("command", [("SINTERSTORE", KEY, KEY, "free"), ("SUNIONSTORE", KEY, "free", KEY),
                                     ("RENAME", KEY, KEY), ("SORT", KEY, "STORE", KEY)])
def test_key_that_is_read_and_written_by_one_command_is_released(start_hasp, plain, command):
    hasp = start_hasp(guard(acquire_on="SMEMBERS", lease="60s"))
    plain.sadd(KEY, 1)
    with held(hasp, KEY, "SMEMBERS", KEY) as one:
        assert not one.call(*command).startswith(b"-")
        nothing_left(plain)


@pytest.mark.parametrize("command", [("COPY", KEY, SECOND, "DB", 1, "REPLACE"),
                                     ("COPY", KEY, SECOND, "REPLACE", "dB", 1)])
def test_copy_to_another_database_writes_nothing_here(start_hasp, plain, command):
    hasp = start_hasp(guard())
    plain.set(KEY, 1)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("GET", SECOND) == NIL
        assert one.call(*command) == ONE
        stands(plain, other, "GET", SECOND, guard="hasp:guard:{stock:2}")
        assert one.call("SET", SECOND, 2) == OK
        assert other.read() == bulk("2")


@pytest.mark.parametrize("key", ["stock:{a}", "stock:{}", "stock:}", "stock:a}b{c", "stock:\r\n'\x00\xff",
                                 "stock:" + 70_000 * "k"])
def test_strange_keys(start_hasp, plain, key):
    hasp = start_hasp(guard(wait="50ms"))
    with hasp.connect() as one, hasp.connect() as other:
        for read, write in ((("GET", key), ("SET", key, 1)), (("GET", key), ("INCR", key))):
            one.call(*read)
            for command in (read, write):
                assert other.call(*command).startswith(b"-LOCKED ")
            assert not one.call(*write).startswith(b"-")
            one.call(*read)
            (name,) = (k for k in plain.keys("hasp:guard:*"))
            plain.delete(name)
            assert one.call(*write).startswith(b"-LOCKLOST ")
            for command in (read, write):
                assert not one.call(*command).startswith(b"-LOCKLOST ")
    nothing_left(plain)


# --- replies that are not followed ---

def test_second_write_behind_client_reply_off_is_carried_out(start_hasp, plain):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        one.send(b"".join(encode(*c) for c in [
            ("CLIENT", "REPLY", "OFF"), ("GET", KEY), ("SET", KEY, 1), ("SET", KEY, 2), ("CLIENT", "REPLY", "ON")]))
        assert one.read() == OK
        assert plain.get(KEY) == "2"
        nothing_left(plain)


def test_lost_update_behind_client_reply_off_is_refused(start_hasp, plain):
    hasp = start_hasp(guard())
    with held(hasp) as one:
        overtake(plain)
        one.send(encode("CLIENT", "REPLY", "SKIP") + encode("SET", KEY, 1) + encode("PING"))
        assert one.read() == b"+PONG\r\n"
        assert plain.get(KEY) == "other"


@pytest.mark.parametrize("command", [("EVAL", "return redis.call('SET', KEYS[1], 'v')", 1, KEY),
                                     ("RPUSH", KEY, *range(8000))])
def test_what_no_script_can_do_is_done_behind_client_reply(start_hasp, plain, command):
    hasp = start_hasp(guard())
    with hasp.connect() as one:
        one.send(encode("CLIENT", "REPLY", "SKIP") + encode(*command) + encode("PING"))
        assert one.read() == b"+PONG\r\n"
        assert plain.exists(KEY)


# --- waiting ---

def test_first_one_who_waits_stands_in_line_once(start_hasp, plain):
    """hasp must subscribe first, and asks with the ticket by which it will be called in."""
    hasp = start_hasp(guard(lease="60s"))
    plain.set(GUARD, "somebody")
    with hasp.connect() as one:
        stands(plain, one, "INCR", KEY)
        plain.delete(GUARD)
        assert one.read() == ONE
        nothing_left(plain)


def test_first_transaction_that_waits_stands_in_line_once(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s"))
    plain.set(GUARD, "somebody")
    with hasp.connect() as one:
        one.send(encode("MULTI") + encode("SET", KEY, 1) + encode("EXEC"))
        until(lambda: plain.zcard(QUEUE) == 1, "it to stand in line")
        plain.delete(GUARD)
        assert [one.read() for _ in range(3)] == [OK, QUEUED, b"*1\r\n" + OK]
        nothing_left(plain)


def test_who_waits_in_vain_gives_back_what_it_took_also_when_its_link_has_gone(start_hasp, plain):
    hasp = start_hasp(guard(lease="60s", wait="300ms"), pooling="shared")
    # Until then there are private links, and their clients go with them.
    until(lambda: "upstream_up" in hasp.log, "links to be shared")
    with held(hasp, SECOND) as one, hasp.connect() as other:
        stands(plain, other, "MGET", KEY, SECOND, guard="hasp:guard:{stock:2}")
        assert plain.exists(GUARD)
        plain.client_kill_filter(_type="normal", skipme=True)
        assert is_locked(other.read(), SECOND)
        until(lambda: not plain.exists(GUARD), "it to be given back", timeout=2)
        assert one.call("SET", SECOND, 1) == OK


def test_hanging_up_after_a_wait_longer_than_the_lease_frees_the_guard(start_hasp, plain):
    hasp = start_hasp(guard(lease="400ms", wait="10s"))
    plain.set(GUARD, "somebody")
    with hasp.connect() as one:
        one.send(encode("MULTI") + encode("GET", KEY) + encode("EXEC"))
        until(lambda: plain.zcard(QUEUE) == 1, "it to stand in line")
        queued = plain.time()
        until(lambda: plain.time()[0] > queued[0] + 1, "a lease to go by")
        plain.delete(GUARD)
        assert [one.read() for _ in range(3)] == [OK, QUEUED, b"*1\r\n" + NIL]
        plain.pexpire(GUARD, 60_000)
    until(lambda: not plain.exists(GUARD), "it to be released", timeout=2)


# --- what hasp does not know ---

def test_unknown_command_is_not_passed_before_redis_has_said_what_it_is(pooling, start_hasp):
    del pooling
    with RedisServer("--rename-command", "COMMAND", "") as server:
        hasp = start_hasp(guard(), upstream=f"unix:{server.unix}")
        with hasp.connect() as one:
            assert one.call("MODULE.SET", KEY, 1).startswith(b"-LOADING ")
            assert one.call("MODULE.SET", "other", 1).startswith(b"-ERR unknown command")
            assert one.call("PING") == b"+PONG\r\n"
            assert one.call("SET", KEY, 1) == OK
