# SPDX-License-Identifier: BSD-3-Clause
"""Events of enforcing sections: which command of which client was refused, the holder, and each
section's totals."""

import pytest
from harness import Connection, encode, until
from harness.enforced import await_told, name_of, told, totals
from harness.guards import guard
from harness.line import queue_of
from harness.marks import covers
from harness.replies import FENCE, NIL, OK, ONE, ZERO
from harness.sections import rule, verbs

KEY, STOCK = "lock:1", "stock:1"
LONG = {"lease": "600s"}


def is_between(event, by, holder):
    assert (event["key"], event["by"], event["holder"], event["suppressed"]) == (KEY, name_of(by), name_of(holder), 0)
    assert event["held_ms"] >= 0


TRIES = [("SETNX", KEY, 2), ("SET", KEY, 2, "NX"), ("SET", KEY, 2, "NX", "PX", 9000), ("SET", KEY, 2, "NX", "GET"),
         ("INCR", KEY), ("MSETNX", "lock:free", 2, KEY, 2)]


@covers("lock_refused")
@pytest.mark.parametrize("attempt", TRIES)
def test_refused_try_is_told_with_key_and_both_clients(three, attempt):
    hasp, one, other, _ = three(rule(**LONG))
    assert one.call("SET", KEY, 1, "NX") == OK
    other.call(*attempt)
    (event,) = told(hasp, "lock_refused")
    assert event["lock"] == "locks"
    is_between(event, other, one)
    sums = totals(hasp, "lock=locks")
    assert (sums["acquired"], sums["refused"]) == (1, 1)


def test_clients_are_called_by_their_names(three):
    hasp, one, other, _ = three(rule(**LONG))
    one.call("CLIENT", "SETNAME", "shop-1")
    other.call("CLIENT", "SETNAME", 'a"b\\')
    one.call("SETNX", KEY, 1)
    other.call("SETNX", KEY, 1)
    (event,) = told(hasp, "lock_refused")
    assert event["holder"] == name_of(one) + " shop-1"
    assert f'by="{name_of(other)} a\\"b\\\\"' in hasp.log


def test_key_cannot_forge_a_line(three):
    hasp, one, other, _ = three(rule(**LONG))
    key = b'lock:"\n\xff\x00 event=lock_lost'
    one.call("SETNX", key, 1)
    other.call("SETNX", key, 1)
    assert told(hasp, "lock_refused")
    assert r'key="lock:\"\x0a\xff\x00 event=lock_lost"' in hasp.log


WRITES = [("SET", KEY, 2), ("SETEX", KEY, 100, 2), ("APPEND", KEY, "x"), ("SETRANGE", KEY, 0, "x"), ("MSET", KEY, 2)]


@covers("write_refused")
@pytest.mark.parametrize("write", WRITES)
def test_refused_write_is_told(three, write):
    hasp, one, other, _ = three(rule(**LONG))
    one.call("SETNX", KEY, 1)
    assert other.call(*write).startswith(b"-LOCKED ")
    (event,) = told(hasp, "write_refused")
    is_between(event, other, one)
    assert totals(hasp, "lock=locks")["writes_refused"] == 1


def test_refused_write_in_a_transaction_is_told(three):
    hasp, one, other, _ = three(rule(**LONG))
    one.call("SETNX", KEY, 1)
    for command in ("MULTI",), ("SET", KEY, 2), ("SET", "free", 1):
        other.call(*command)
    assert b"-LOCKED " in other.call("EXEC")
    (event,) = told(hasp, "write_refused")
    is_between(event, other, one)


@covers("delete_refused")
@pytest.mark.parametrize("delete", [("DEL", KEY), ("UNLINK", "free", KEY, "lock:none")])
def test_refused_delete_is_told_and_what_it_hints_at(three, delete):
    hasp, one, other, _ = three(rule(**LONG))
    one.call("SETNX", KEY, 1)
    other.call("SET", "free", 1)
    assert other.call(*delete) == b":%d\r\n" % (len(delete) > 2)
    (event,) = told(hasp, "delete_refused")
    is_between(event, other, one)
    assert event["hint"] == "if both clients are one pool, see owner = address"
    assert totals(hasp, "lock=locks")["deletes_refused"] == 1


def refused_deletes(hasp, one, other, reads, read_first=False):
    """Returns the hint in the event, or None, when `other` sends DEL for the lock that `one` has.
    `other` sends `reads` first, before or after `one` takes the lock.

    `one` releases the lock when the event has been logged. After an earlier release, the worker of
    `other` might ask the worker of `one` too late for the time of the acquisition."""
    n = len(told(hasp, "delete_refused"))
    if read_first:
        other.call(*reads)
    assert one.call("SETNX", KEY, 1) == ONE
    if reads and not read_first:
        other.call(*reads)
    assert other.call("DEL", KEY) == ZERO
    event = await_told(hasp, "delete_refused", n + 1)[-1]
    assert one.call("DEL", KEY) == ONE
    return event.get("hint")


VALUE_READ = "the client had read the value: see owner = value"


@pytest.mark.parametrize("read", [("GET", KEY), ("MGET", "lock:2", KEY)])
def test_refused_delete_of_one_that_reads_the_value_hints_at_that(start_hasp, read):
    """hasp records reads only after it has refused a release for which it has no better hint."""
    hasp = start_hasp(rule(**LONG))
    with hasp.connect() as one, Connection(hasp.address, source="127.0.0.2") as other:
        assert refused_deletes(hasp, one, other, read) is None
        assert refused_deletes(hasp, one, other, read) == VALUE_READ
        assert refused_deletes(hasp, one, other, None) is None
        assert refused_deletes(hasp, one, other, read, read_first=True) is None
        assert refused_deletes(hasp, one, other, ("GET", "lock:2")) is None
        assert refused_deletes(hasp, one, other, read) == VALUE_READ
        hasp.reload("lease = 600s", "lease = 500s")
        assert refused_deletes(hasp, one, other, read) == VALUE_READ


def test_read_of_the_value_at_another_worker_than_the_holder_s(start_hasp):
    hasp = start_hasp(rule(**LONG), workers=2)
    one, *others = [hasp.connect(), *(Connection(hasp.address, source="127.0.0.2") for _ in range(8))]
    for other in others:
        refused_deletes(hasp, one, other, None)
    hints = {refused_deletes(hasp, one, other, ("GET", KEY)) for other in others[:2]}
    assert hints == {VALUE_READ}
    for connection in one, *others:
        connection.close()


def test_connection_of_the_holder_s_address_that_reads_the_value(three):
    hasp, one, other, _ = three(rule(**LONG))
    for _ in range(2):
        assert refused_deletes(hasp, one, other, ("GET", KEY)) == "if both clients are one pool, see owner = address"


def test_delete_of_nothing_is_no_refusal(three):
    hasp, one, other, _ = three(rule(**LONG))
    one.call("SETNX", KEY, 1)
    assert one.call("DEL", KEY) == ONE
    assert other.call("DEL", KEY) == ZERO
    assert not told(hasp, "delete_refused")
    sums = totals(hasp, "lock=locks")
    assert (sums["released"], sums["deletes_refused"]) == (1, 0)


def test_holder_at_another_worker_is_told_by_its_address(three):
    hasp, *_ = three(rule(**LONG), workers=4)
    many = [hasp.connect() for _ in range(16)]
    many[0].call("SETNX", KEY, 1)
    for other in many[1:6]:
        assert other.call("DEL", KEY) == ZERO
    await_told(hasp, "delete_refused", 5)
    assert {event["holder"] for event in told(hasp, "delete_refused")} == {name_of(many[0])}
    assert totals(hasp, "lock=locks")["deletes_refused"] == 5
    for connection in many:
        connection.close()


def test_holder_at_another_worker_is_told_by_its_name_and_for_how_long(start_hasp):
    """With several workers, hasp logs the line after it has asked all of them for the holder."""
    hasp = start_hasp(rule(**LONG) + guard(wait="10ms", **LONG) + verbs(**LONG), workers=2, log_level="debug")
    many = [hasp.connect() for _ in range(9)]
    for i, connection in enumerate(many):
        connection.call("CLIENT", "SETNAME", f"c{i}")
    one, *others = many
    assert one.call("SETNX", KEY, 1) == ONE and one.call("GET", STOCK) == NIL and one.call("LOCK", "job") == FENCE
    for other in others:
        assert other.call("SETNX", KEY, 2) == ZERO
        assert other.call("SET", KEY, 2).startswith(b"-LOCKED ")
        assert other.call("DEL", KEY) == ZERO
        assert other.call("LOCK", "job") == NIL
        assert other.call("GET", STOCK).startswith(b"-LOCKED ")
    for event, n in ("lock_refused", 2), ("write_refused", 1), ("delete_refused", 1), ("wait_timed_out", 1):
        lines = await_told(hasp, event, n * len(others))
        assert {line["holder"] for line in lines} == {name_of(one) + " c0"}, event
        assert all(line["held_ms"] >= 0 for line in lines)
        assert {line["by"] for line in lines} == {f"{name_of(o)} c{i}" for i, o in enumerate(others, 1)}
    hints = {line["hint"] for line in told(hasp, "delete_refused")}
    assert hints == {"if both clients are one pool, see owner = address"}
    for connection in many:
        connection.close()


def test_workers_that_a_reload_does_not_end_are_asked(start_hasp):
    hasp = start_hasp(rule(**LONG), workers=2, log_level="debug")
    hasp.reload("workers = 2", "workers = 1")
    one, *others = many = [hasp.connect() for _ in range(9)]
    one.call("SETNX", KEY, 1)
    one.call("CLIENT", "SETNAME", "one")
    for other in others:
        assert other.call("SETNX", KEY, 2) == ZERO
    lines = await_told(hasp, "lock_refused", len(others))
    assert {line["holder"] for line in lines} == {name_of(one) + " one"}
    for connection in many:
        connection.close()


def test_who_has_waited_long_is_told_without_those_who_have_the_lock_with_it(start_hasp, plain):
    """The readers that share the lock may be at the same worker or at others."""
    hasp = start_hasp(verbs(log_waited="1ms", **LONG), workers=2)
    writer, *readers = many = [hasp.connect() for _ in range(9)]
    assert writer.call("LOCK", "job", "EXCLUSIVE") == FENCE
    for reader in readers:
        reader.send(encode("LOCK", "job", "SHARED", "WAIT", 60000))
    until(lambda: plain.zcard(queue_of("job")) == len(readers), "all readers to wait")
    assert writer.call("UNLOCK", "job") == ONE
    for reader in readers:
        assert reader.read().startswith(b":")
    assert not any("holder" in line for line in await_told(hasp, "waited_long", len(readers)))
    for connection in many:
        connection.close()


def test_reader_that_another_hasp_serves_is_told(three, start_hasp, plain):
    """hasp must not mistake the field `mode`, which Redis may return first, for a reader."""
    hasp, _, other, _ = three(verbs(**LONG))
    plain.config_set("hash-max-listpack-value", 16)
    second = start_hasp(verbs(**LONG))
    for i in range(16):  # the server's hash seed decides in which of these keys `mode` is first
        with second.connect() as one:
            assert one.call("LOCK", f"k{i}", "SHARED") == FENCE
            if i < 15 and plain.hscan(f"k{i}", 0, count=1)[1].keys() != {"mode"}:
                continue
            assert other.call("UNLOCK", f"k{i}") == ZERO
            (event,) = told(hasp, "delete_refused")
            assert event["holder"] == name_of(one)
            break


def test_owner_that_another_hasp_serves_is_told(three, start_hasp):
    hasp, _, other, _ = three(rule(owner="name", **LONG))
    with start_hasp(rule(owner="name", **LONG)).connect() as one:
        assert one.call("CLIENT", "SETNAME", "shop") == OK
        assert one.call("SETNX", KEY, 1) == ONE
        assert other.call("DEL", KEY) == ZERO
        (event,) = told(hasp, "delete_refused")
        assert event["holder"] == "name:shop"


def test_value_of_a_lock_is_never_told(three):
    hasp, one, other, _ = three(rule(owner="value", **LONG) + verbs(reentrant="no"))
    one.call("SETNX", KEY, "s3cr3t")
    assert other.call("DEL", KEY) == ZERO
    other.call("SETNX", KEY, "t0psecret")
    one.call("LOCK", "job", "AS", "s3cr3t")
    assert other.call("UNLOCK", "job") == ZERO
    assert len(told(hasp, "delete_refused")) == 2
    assert "s3cr3t" not in hasp.log and "t0psecret" not in hasp.log


@covers("wait_timed_out")
def test_wait_in_vain_is_told(three):
    hasp, one, other, _ = three(rule(wait="30ms", **LONG))
    one.call("SETNX", KEY, 1)
    assert other.call("SETNX", KEY, 2) == ZERO
    (event,) = told(hasp, "wait_timed_out")
    is_between(event, other, one)
    assert event["waited_ms"] >= 30
    sums = totals(hasp, "lock=locks")
    assert (sums["waited"], sums["timed_out"], sums["handed_over"], sums["refused"]) == (1, 1, 0, 0)


def test_hand_over_is_counted(three, plain):
    hasp, one, other, _ = three(rule(wait="600s", **LONG))
    one.call("SETNX", KEY, 1)
    other.send(encode("SETNX", KEY, 2))
    until(lambda: plain.exists("hasp:queue:{" + KEY + "}"), "the queue")
    one.call("DEL", KEY)
    assert other.read() == ONE
    sums = totals(hasp, "lock=locks")
    assert (sums["acquired"], sums["waited"], sums["handed_over"], sums["timed_out"]) == (2, 1, 1, 0)
    assert not told(hasp, "waited_long")


@covers("released_at_disconnect")
def test_release_at_disconnect_is_told(three, plain):
    hasp, one, _, _ = three(rule(on_disconnect="release", **LONG))
    one.call("SETNX", KEY, 1)
    mine = name_of(one)
    one.close()
    (event,) = await_told(hasp, "released_at_disconnect")
    assert (event["key"], event["holder"]) == (KEY, mine) and event["held_ms"] >= 0
    until(lambda: not plain.exists(KEY), "the release")
    assert totals(hasp, "lock=locks")["released_at_disconnect"] == 1


def test_no_more_than_ten_lines_in_ten_seconds_and_the_rest_is_counted(three):
    hasp, one, other, _ = three(rule(**LONG) + rule("more", pattern="more:*", **LONG), log_level="debug")
    one.call("SETNX", KEY, 1)
    one.call("SETNX", "more:1", 1)
    for _ in range(40):
        other.call("SETNX", KEY, 2)
    # The second period of ten seconds may begin during the test.
    assert 10 <= len(told(hasp, "lock_refused")) <= 20
    assert totals(hasp, "lock=locks")["refused"] == 40
    other.call("SETNX", "more:1", 2)
    assert told(hasp, "lock_refused")[-1]["lock"] == "more"


def test_contention_is_one_line_a_minute_and_rule(three):
    hasp, one, other, _ = three(rule(**LONG) + rule("more", pattern="more:*", **LONG))
    for key in KEY, "more:1":
        one.call("SETNX", key, 1)
        for _ in range(5):
            other.call("SETNX", key, 2)
    assert [event["lock"] for event in told(hasp, "lock_refused")] == ["locks", "more"]
    assert totals(hasp, "lock=locks")["refused"] == 5


@covers("log_events")
def test_section_can_be_silent_and_counts_all_the_same(three):
    hasp, one, other, _ = three(rule(log_events="no", **LONG) + verbs(log_events="no"))
    one.call("SETNX", KEY, 1)
    other.call("SETNX", KEY, 2)
    other.call("DEL", KEY)
    other.call("SET", KEY, 2)
    one.call("LOCK", "job")
    other.call("LOCK", "job")
    assert totals(hasp, "lock=locks")["refused"] == 1
    assert totals(hasp, "verbs=LOCK")["refused"] == 1
    assert " event=" not in hasp.log


def test_totals_go_on_over_a_reload(three):
    hasp, one, other, _ = three(rule(**LONG))
    one.call("SETNX", KEY, 1)
    other.call("SETNX", KEY, 2)
    hasp.reload("lease = 600s", "lease = 500s")
    other.call("SETNX", KEY, 2)
    sums = totals(hasp, "lock=locks")
    assert (sums["acquired"], sums["refused"]) == (1, 2)


# --- verbs ------------------------------------------------------------------------------


@pytest.mark.parametrize("reentrant", ["count", "refresh", "no"])
def test_refusals_of_verbs_are_told(three, reentrant):
    hasp, one, other, _ = three(verbs(reentrant=reentrant, **LONG))
    one.call("LOCK", KEY)
    assert other.call("LOCK", KEY) == NIL
    (event,) = told(hasp, "lock_refused")
    assert event["verbs"] == "LOCK"
    is_between(event, other, one)
    assert other.call("UNLOCK", KEY) == ZERO
    (event,) = told(hasp, "delete_refused")
    is_between(event, other, one)
    assert other.call("LOCK", KEY, "WAIT", 30) == NIL
    (event,) = told(hasp, "wait_timed_out")
    is_between(event, other, one)
    assert one.call("UNLOCK", KEY) == ONE
    assert other.call("UNLOCK", KEY) == ZERO
    sums = totals(hasp, "verbs=LOCK")
    names = "acquired", "released", "refused", "deletes_refused", "waited", "timed_out"
    assert [sums[name] for name in names] == [1, 1, 1, 1, 1, 1]


def test_locking_again_is_no_acquisition(three):
    hasp, one, _, _ = three(verbs(**LONG))
    for _ in range(3):
        one.call("LOCK", KEY)
    assert totals(hasp, "verbs=LOCK")["acquired"] == 1


# --- holds and waits that take long -------------------------------------------------------


@covers("held_long", "log_held")
def test_lock_that_was_held_long_is_told_when_it_ends(three):
    hasp, one, other, _ = three(rule(log_held="20ms", reentrant="refresh", **LONG))
    one.call("SETNX", KEY, 1)
    assert one.call("SETNX", KEY, 1) == ONE
    one.call("CLIENT", "SETNAME", "slow")

    def is_told():
        one.call("DEL", KEY)
        one.call("SETNX", KEY, 1)
        one.call("DEBUG", "SLEEP", "0.03")
        return told(hasp, "held_long")

    until(is_told, "a lock that was held for long")
    event = told(hasp, "held_long")[0]
    assert event["key"] == KEY and event["holder"].endswith(" slow") and event["held_ms"] >= 20


@covers("log_waited", "waited_long")
def test_wait_that_was_long_is_told_when_it_ends(three, plain):
    hasp, one, other, _ = three(rule(wait="600s", log_waited="20ms", **LONG))

    def is_told():
        one.call("SETNX", KEY, 1)
        other.send(encode("SETNX", KEY, 2))
        until(lambda: plain.exists("hasp:queue:{" + KEY + "}"), "the queue")
        plain.execute_command("DEBUG", "SLEEP", "0.03")
        one.call("DEL", KEY)
        assert other.read() == ONE
        other.call("DEL", KEY)
        return told(hasp, "waited_long")

    until(is_told, "a long wait")
    event = told(hasp, "waited_long")[0]
    assert (event["key"], event["by"]) == (KEY, name_of(other)) and event["waited_ms"] >= 20


# --- guards -----------------------------------------------------------------------------------


@covers("update_refused")
def test_refused_update_is_told(three, plain):
    hasp, one, other, _ = three(guard(wait="0", lease="600s"))
    one.call("GET", STOCK)
    plain.delete("hasp:guard:{" + STOCK + "}")
    assert one.call("SET", STOCK, 1).startswith(b"-LOCKLOST ")
    (event,) = told(hasp, "update_refused")
    assert (event["guard"], event["key"], event["by"], event["suppressed"]) == ("stock", STOCK, name_of(one), 0)
    assert "holder" not in event and "held_ms" not in event
    other.call("GET", STOCK)
    assert one.call("SET", STOCK, 1).startswith(b"-LOCKED ")
    assert one.call("GET", STOCK).startswith(b"-LOCKED ")
    for name in "write_refused", "lock_refused":
        (event,) = told(hasp, name)
        assert (event["by"], event["holder"]) == (name_of(one), name_of(other)) and event["held_ms"] >= 0
    assert other.call("SET", STOCK, 1) == OK
    sums = totals(hasp, "guard=stock")
    names = "acquired", "released", "refused", "writes_refused", "updates_refused", "waited"
    assert [sums[name] for name in names] == [2, 1, 1, 1, 1, 0]


def test_refused_update_names_who_has_the_guard_now(three, plain):
    hasp, one, other, third = three(guard(wait="0", lease="600s"))
    one.call("GET", STOCK)
    plain.delete("hasp:guard:{" + STOCK + "}")
    other.call("GET", STOCK)
    third.call("GET", STOCK)  # refused, so it is not the holder, though it came last
    assert one.call("SET", STOCK, 1).startswith(b"-LOCKLOST ")
    (event,) = told(hasp, "update_refused")
    assert (event["by"], event["holder"]) == (name_of(one), name_of(other)) and event["held_ms"] >= 0


def test_refused_transaction_on_guarded_keys_is_told(three, plain):
    hasp, one, _, _ = three(guard(wait="0", lease="600s"))
    one.call("GET", STOCK)
    plain.delete("hasp:guard:{" + STOCK + "}")
    for command in ("MULTI",), ("SET", STOCK, 1):
        one.call(*command)
    assert b"LOCKLOST " in one.call("EXEC")
    (event,) = told(hasp, "update_refused")
    assert (event["key"], event["by"]) == (STOCK, name_of(one))


def test_wait_for_a_guard_in_vain_is_told(three):
    hasp, one, other, _ = three(guard(wait="300ms", lease="600s"))
    one.call("GET", STOCK)
    assert other.call("GET", STOCK).startswith(b"-LOCKED ")
    (event,) = told(hasp, "wait_timed_out")
    assert (event["key"], event["by"], event["holder"]) == (STOCK, name_of(other), name_of(one))
    assert event["waited_ms"] >= 300 and event["held_ms"] >= 0
    assert totals(hasp, "guard=stock")["timed_out"] == 1


def test_wait_for_a_guard_that_ends_before_it_can_stand_in_line_is_told(three, gates):
    """hasp subscribes for its first waiter, whose wait ends before Redis confirms."""
    hasp, one, other, _ = three(guard(wait="10ms", lease="600s"), upstream=gates.address)
    assert one.call("GET", STOCK) == NIL
    gates.shut(replies={"listening"})
    assert other.call("GET", STOCK).startswith(b"-LOCKED ")
    (event,) = told(hasp, "wait_timed_out")
    assert (event["by"], event["holder"]) == (name_of(other), name_of(one))
    assert event["waited_ms"] >= 10
    sums = totals(hasp, "guard=stock")
    assert (sums["waited"], sums["timed_out"], sums["refused"]) == (1, 1, 0)
    gates.open()


def test_guard_that_was_waited_for_is_counted(three, plain):
    hasp, one, other, _ = three(guard(wait="600s", lease="600s", log_waited="1ms"))
    one.call("GET", STOCK)
    other.send(encode("GET", STOCK))
    until(lambda: plain.exists("hasp:queue:hasp:guard:{" + STOCK + "}:"), "the queue")
    plain.execute_command("DEBUG", "SLEEP", "0.01")
    one.call("SET", STOCK, 1)
    assert other.read() == b"$1\r\n1\r\n"
    (event,) = told(hasp, "waited_long")
    assert (event["key"], event["by"]) == (STOCK, name_of(other)) and event["waited_ms"] >= 1
    sums = totals(hasp, "guard=stock")
    assert (sums["acquired"], sums["waited"], sums["handed_over"], sums["timed_out"]) == (2, 1, 1, 0)


def test_guard_that_is_released_at_disconnect_is_told(three):
    hasp, one, _, _ = three(guard(lease="600s"))
    one.call("GET", STOCK)
    mine = name_of(one)
    one.close()
    (event,) = await_told(hasp, "released_at_disconnect")
    assert (event["guard"], event["key"], event["holder"]) == ("stock", STOCK, mine) and event["held_ms"] >= 0


def test_guard_can_be_silent(three, plain):
    hasp, one, other, _ = three(guard(wait="0", lease="600s", log_events="no"))
    one.call("GET", STOCK)
    other.call("GET", STOCK)
    assert totals(hasp, "guard=stock")["refused"] == 1
    assert " event=" not in hasp.log
