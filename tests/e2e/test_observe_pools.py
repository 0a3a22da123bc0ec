# SPDX-License-Identifier: BSD-3-Clause
"""mode = observe, and a pool that takes a lock on one connection and releases it on another. hasp
does not report theft, but proposes an `owner`. The pool works with that owner."""

import pytest
from harness.marks import covers
from harness.observed import events, observed, report
from harness.replies import OK, ONE, ZERO
from harness.sections import rule

LOCK = "lock:1"


def use(hasp, plain, rounds=20, read=False, names=(None, None)):
    """Two connections take the lock in turn, and the other one releases it. Returns how often that
    works."""
    pool = [hasp.connect(), hasp.connect()]
    for connection, name in zip(pool, names):
        if name:
            assert connection.call("CLIENT", "SETNAME", name) == OK
    released = 0
    for n in range(rounds):
        taker, releaser = pool[n % 2], pool[(n + 1) % 2]
        assert taker.call("SET", LOCK, f"uuid-{n}", "NX", "EX", 60) == OK
        assert taker.call("EXPIRE", LOCK, 50) == ONE
        if read:
            releaser.call("GET", LOCK)
        released += releaser.call("DEL", LOCK) == ONE
        plain.delete(LOCK)
    for connection in pool:
        connection.close()
    return released


def verdict(hasp):
    (line,) = [line for line in report(hasp) if "verdict=" in line]
    return line


@covers("released_in_pool")
@pytest.mark.parametrize("read, names, owner", [
    (False, (None, None), "address"), (False, ("app", "app"), "name"), (False, ("one", "two"), "address"),
    (True, (None, None), "value"), (True, ("app", "app"), "value")])
def test_owner_that_fits_is_named_and_breaks_nothing(start_hasp, plain, read, names, owner):
    hasp = start_hasp(rule(mode="observe"))
    assert use(hasp, plain, read=read, names=names) == 20
    total = observed(hasp, "lock=locks")
    assert (total["released_in_pool"], total["deleted_by_others"], total["changed_by_others"]) == (20, 0, 0)
    assert events(hasp, "lock_of_another_deleted") == []
    assert f"first set owner = {owner};" in verdict(hasp)
    # With the old rule the pool cannot release its locks; with the proposed owner it can.
    assert use(start_hasp(rule()), plain, read=read, names=names) == 0
    assert use(start_hasp(rule(owner=owner)), plain, read=read, names=names) == 20


def test_value_that_nobody_reads_needs_foreign_del(start_hasp, plain):
    hasp = start_hasp(rule(mode="observe", owner="value"))
    assert use(hasp, plain) == 20
    assert "enforcing needs foreign_del = allow" in verdict(hasp)
    assert use(start_hasp(rule(owner="value")), plain) == 0
    assert use(start_hasp(rule(owner="value", foreign_del="allow")), plain) == 20


def test_value_that_is_read_needs_nothing(start_hasp, plain):
    hasp = start_hasp(rule(mode="observe", owner="value"))
    assert use(hasp, plain, read=True) == 20
    assert "as owner = value needs" in verdict(hasp)
    assert use(start_hasp(rule(owner="value")), plain, read=True) == 20


def test_late_release_is_still_theft(start_hasp, plain):
    """The connection that releases has had the lock before, so hasp counts this as theft."""
    hasp = start_hasp(rule(mode="observe"))
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", LOCK, 1, "NX", "EX", 60) == OK
        plain.delete(LOCK)
        assert other.call("SET", LOCK, 2, "NX", "EX", 60) == OK
        assert one.call("DEL", LOCK) == ONE
    assert observed(hasp, "lock=locks")["deleted_by_others"] == 1


def test_application_that_deletes_what_it_did_not_get_is_no_pool(start_hasp):
    hasp = start_hasp(rule(mode="observe"))
    with hasp.connect() as one, hasp.connect() as other:
        for _ in range(5):
            assert one.call("SETNX", LOCK, 1) == ONE
            assert other.call("SETNX", LOCK, 2) == ZERO
            assert other.call("DEL", LOCK) == ONE
            assert one.call("DEL", LOCK) == ZERO
    assert observed(hasp, "lock=locks")["deleted_by_others"] == 5
    assert "if that is a pool" not in verdict(hasp)


def test_release_by_one_that_had_tried_may_be_a_pool_s(start_hasp):
    hasp = start_hasp(rule(mode="observe"))
    with hasp.connect() as one, hasp.connect() as other:
        for _ in range(5):
            assert one.call("SET", LOCK, 1, "NX", "EX", 60) == OK
            assert other.call("SETNX", LOCK, 2) == ZERO
            assert other.call("DEL", LOCK) == ONE
    assert "5 deletions came from a connection like the holder's: if these connections are one pool" in verdict(hasp)
