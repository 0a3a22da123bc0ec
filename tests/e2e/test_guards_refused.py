# SPDX-License-Identifier: BSD-3-Clause
"""A refused read: if an application ignores the error, hasp also refuses its owner's next write to
the key, so that it overwrites no value that it has not seen.
"""

import contextlib

import pytest
from harness import encode, until
from harness.guards import GUARD, KEY, guard, is_locked, is_lost, overtake, transact
from harness.info import is_ready
from harness.replies import EXECABORT, NIL, OK, QUEUED, WRONGTYPE, bulk

SECOND = "stock:2"

READS = pytest.mark.parametrize("read", [
    [("GET", KEY)],
    [("MGET", SECOND, KEY)],
    [("HGETALL", KEY)],
    [("ZSCORE", KEY, "m")],  # no script can pass this reply on unchanged
    [("MULTI",), ("GET", KEY), ("EXEC",)],
    [("MULTI",), ("SET", SECOND, "1"), ("GET", KEY), ("EXEC",)],
])


def others(start_hasp):
    """Starts a hasp whose clients wait long for guards."""
    return start_hasp(guard(wait="60s", lease="60s"))


def refused_read(hasp, other, plain, read):
    """Returns a connection whose read was refused before another client wrote the key."""
    one = hasp.connect()
    assert other.call("GET", KEY).startswith(b"$")
    for command in read:
        reply = one.call(*command)
    assert is_locked(reply)
    assert other.call("SET", KEY, "other") == OK
    assert not plain.exists(GUARD)
    return one


@READS
@pytest.mark.parametrize("wait", ["0", "50ms"])
def test_write_behind_a_read_that_was_refused_is_refused(share_hasp, plain, read, wait):
    hasp = share_hasp(guard(wait=wait, lease="60s"))
    with others(share_hasp).connect() as other, refused_read(hasp, other, plain, read) as one:
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"
        # hasp refuses only one write.
        assert one.call("SET", KEY, "one") == OK


WRITES = pytest.mark.parametrize("write", [
    [("SET", KEY, "one")],
    [("APPEND", KEY, "one")],
    [("DEL", KEY)],
    [("INCR", KEY)],  # no script can pass this reply on unchanged
    [("MSET", KEY, "one", SECOND, "one")],
    [("EVAL", "return redis.call('SET', KEYS[1], 'one')", "1", KEY)],
    [("MULTI",), ("SET", KEY, "one"), ("EXEC",)],
])


@WRITES
def test_no_way_to_write_is_open(share_hasp, plain, write):
    hasp = share_hasp(guard(wait="0", lease="60s"))
    with others(share_hasp).connect() as other, \
            refused_read(hasp, other, plain, [("GET", KEY)]) as one:
        for command in write:
            reply = one.call(*command)
        assert is_lost(reply)
        assert plain.get(KEY) == "other"


def test_reading_again_clears_it(share_hasp, plain):
    hasp = share_hasp(guard(wait="0", lease="60s"))
    with others(share_hasp).connect() as other, \
            refused_read(hasp, other, plain, [("GET", KEY)]) as one:
        assert one.call("GET", KEY) == bulk("other")
        assert one.call("SET", KEY, "one") == OK


def test_reading_again_in_a_transaction_clears_it(share_hasp, plain):
    hasp = share_hasp(guard(wait="0", lease="60s"))
    with others(share_hasp).connect() as other, \
            refused_read(hasp, other, plain, [("MULTI",), ("GET", KEY), ("EXEC",)]) as one:
        assert transact(one, ("GET", KEY))[-1] == b"*1\r\n" + bulk("other")
        assert one.call("SET", KEY, "one") == OK


def test_read_in_a_transaction_that_lost_its_guard_is_refused_like_any(start_hasp, gates, plain):
    """The guard is lost after EXEC has taken it, and before hasp checks it."""
    hasp = is_ready(start_hasp(guard(wait="0"), upstream=gates.address), plain)
    with hasp.connect() as one:
        assert (one.call("MULTI"), one.call("GET", KEY)) == (OK, QUEUED)
        gates.shut(replies={"link"})
        one.send(encode("EXEC"))
        until(lambda: plain.exists(GUARD) and gates.waiting, "EXEC to take the guard")
        overtake(plain)
        gates.open()
        assert is_lost(one.read())
        assert is_lost(one.call("SET", KEY, "one"))
        assert plain.get(KEY) == "other"
        assert one.call("SET", KEY, "one") == OK  # hasp refuses only one write


def test_hanging_up_clears_it(share_hasp, plain):
    hasp = share_hasp(guard(wait="0", lease="60s"))
    with others(share_hasp).connect() as other:
        refused_read(hasp, other, plain, [("GET", KEY)]).close()
        with hasp.connect() as two:
            assert two.call("SET", KEY, "two") == OK


def test_several_keys_of_which_one_was_refused_were_all_not_seen(share_hasp, plain):
    hasp = share_hasp(guard(wait="50ms", lease="60s"))
    with others(share_hasp).connect() as other, hasp.connect() as one:
        assert other.call("GET", SECOND) == NIL
        assert is_locked(one.call("MGET", KEY, SECOND), SECOND)
        assert other.call("GET", KEY) == NIL
        assert other.call("SET", KEY, "other") == OK
        assert is_lost(one.call("SET", KEY, "one"))
        assert one.call("SET", KEY, "one") == OK


def test_key_that_a_refused_transaction_would_only_write_is_not_marked(share_hasp, plain):
    hasp = share_hasp(guard(wait="50ms", lease="60s"))
    with others(share_hasp).connect() as other, hasp.connect() as one:
        assert other.call("GET", KEY) == NIL
        assert is_locked(transact(one, ("GET", KEY), ("SET", SECOND, "1"))[-1])
        assert one.call("SET", SECOND, "one") == OK


@pytest.mark.parametrize("command", [("GET", KEY), ("ZSCORE", KEY, "m")])
def test_error_of_redis_counts_as_a_refusal(clients, plain, command):
    plain.execute_command("ACL", "SETUSER", "reader", "on", "nopass", "~*", "&*", "+@all")
    one, = clients(1, guard(lease="60s"))
    assert one.call("AUTH", "reader", "x") == OK
    plain.execute_command("ACL", "SETUSER", "reader", f"-{command[0]}")
    assert one.call(*command).startswith(b"-")
    overtake(plain)
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"


def test_wrong_type_is_an_answer(clients, plain):
    plain.rpush(KEY, "x")
    one, = clients(1, guard(lease="60s"))
    for command in (("GET", KEY), ("HGETALL", KEY)):
        assert one.call(*command) == WRONGTYPE
        assert one.call("RPUSH", KEY, "x").startswith(b":")


def test_transaction_that_redis_refused_has_read_nothing(clients, plain):
    one, = clients(1, guard(lease="60s"))
    assert transact(one, ("GET", KEY), ("NOSUCH",))[-1] == EXECABORT
    overtake(plain)
    assert is_lost(one.call("SET", KEY, "one"))


def test_read_that_reads_and_writes_can_be_tried_again(clients, plain):
    """GETEX changes no value: the first attempt is refused, and the second reads."""
    other, one = clients(2, guard(acquire_on="GETEX", release_on="SET", wait="0", lease="60s"))
    assert other.call("GETEX", KEY) == NIL
    assert is_locked(one.call("GETEX", KEY))
    assert other.call("SET", KEY, "other") == OK
    assert one.call("GETEX", KEY) == bulk("other")
    assert one.call("SET", KEY, "one") == OK


def test_mark_of_a_key_does_not_concern_transactions_on_others(share_hasp, plain):
    hasp = share_hasp(guard(wait="0", lease="60s"))
    with others(share_hasp).connect() as other, \
            refused_read(hasp, other, plain, [("GET", KEY)]) as one:
        assert one.call("WATCH", SECOND) == OK
        assert one.call("GET", SECOND) == NIL
        assert transact(one, ("SET", SECOND, "one"))[-1] == b"*1\r\n" + OK
        assert is_lost(one.call("SET", KEY, "one"))


def test_read_that_was_lost_stays_so_through_a_transaction_on_another_key(clients, plain):
    one, = clients(1, guard(wait="0", lease="60s"))
    assert one.call("GET", KEY) == NIL
    overtake(plain)
    assert one.call("WATCH", SECOND) == OK
    assert one.call("GET", SECOND) == NIL
    assert is_lost_somewhere(transact(one, ("SET", SECOND, "one"))[-1])
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"


def is_lost_somewhere(reply):
    return reply.startswith(b"-LOCKLOST a key was read under a guard that has ended")


def test_marks_of_more_keys_than_are_remembered_are_not_lost(clients, plain):
    """hasp forgets the oldest keys; it then treats an unknown key like one whose read failed."""
    other, one = clients(2, guard(wait="0", lease="60s"))
    assert other.call("GET", KEY) == NIL
    assert is_locked(one.call("GET", KEY))
    assert other.call("SET", KEY, "other") == OK
    for n in range(1024):
        assert one.call("GET", f"stock:x{n}") == NIL
    assert is_lost(one.call("SET", KEY, "one"))


@pytest.mark.parametrize("command", [("MGET", *(f"stock:{n}" for n in range(1100)))])
def test_read_that_hasp_refuses_itself_counts(clients, plain, command):
    one, = clients(1, guard(wait="0", lease="60s"))
    assert one.call(*command).startswith(b"-ERR hasp: the command names too many")
    assert is_lost(one.call("SET", KEY, "one"))
    assert one.call("SET", KEY, "one") == OK


def test_read_of_a_key_that_is_not_remembered_counts_when_its_write_is_decided_anew(start_hasp, gates, plain):
    """The write finds that Redis lacks the script, and hasp decides again, by rules that a reload
    has changed."""
    hasp = start_hasp(guard(wait="0"), upstream=gates.address).is_up()
    with hasp.connect() as one:
        assert one.call("MGET", *(f"stock:{n}" for n in range(1100))).startswith(b"-ERR hasp: the command names too many")
        plain.script_flush()
        gates.shut(requests={"link"})
        one.send(encode("SET", KEY, "one"))
        until(lambda: gates.waiting, "the write to be sent")
        hasp.reload("[upstream]", "[lock l]\npattern = lock:*\n[upstream]")
        gates.open()
        assert is_lost(one.read())
        assert one.call("SET", KEY, "one") == OK


def test_bitfield_that_only_gets_is_no_write(share_hasp, plain):
    """BITFIELD with GET alone passes while another owner has the guard; it is a read if acquire_on
    names it."""
    gets = ("BITFIELD", KEY, "GET", "u8", 0, "get", "u4", "#1")
    with others(share_hasp).connect() as other, share_hasp(guard(wait="0")).connect() as one, \
            share_hasp(guard(acquire_on="BITFIELD", release_on="SET", wait="0")).connect() as two:
        assert other.call("GET", KEY) == NIL
        assert one.call(*gets) == b"*2\r\n:0\r\n:0\r\n"
        assert is_locked(one.call("BITFIELD", KEY, "GET", "u8", 0, "SET", "u8", 0, 1))
        assert is_locked(two.call(*gets))
        assert other.call("SET", KEY, "a") == OK
        assert two.call(*gets) == b"*2\r\n:97\r\n:1\r\n"
        assert two.call("SET", KEY, "two") == OK

@contextlib.contextmanager
def busy(plain, redis_server):
    """Within the block, Redis runs a script and answers -BUSY."""
    plain.config_set("busy-reply-threshold", 1)
    with redis_server.connect() as slow, redis_server.connect() as past:
        slow.send(encode("EVAL", "while true do end", "0"))
        until(lambda: past.call("PING").startswith(b"-BUSY"), "Redis to answer -BUSY")
        yield
        assert past.call("SCRIPT", "KILL") == OK
        assert slow.read().startswith(b"-")


@contextlib.contextmanager
def out_of_memory(plain, _redis_server):
    plain.config_set("maxmemory", 1)
    yield
    plain.config_set("maxmemory", 0)


@pytest.mark.parametrize("refusing", [busy, out_of_memory])
@pytest.mark.parametrize("read", [[("GET", KEY)], [("MULTI",), ("GET", KEY), ("EXEC",)]])
def test_read_that_redis_itself_refused_counts(clients, plain, redis_server, refusing, read):
    one, = clients(1, guard(lease="60s"))
    with refusing(plain, redis_server):
        for command in read:
            reply = one.call(*command)
        assert reply.startswith((b"-BUSY", b"-OOM", b"-EXECABORT"))
    overtake(plain)
    assert is_lost(one.call("SET", KEY, "one"))
    assert plain.get(KEY) == "other"


