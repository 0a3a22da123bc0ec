# SPDX-License-Identifier: BSD-3-Clause
"""COPY ... DB and MOVE write a key in a database that no script checks, so hasp refuses them if a
rule or guard is in force."""

import pytest
from harness.guards import guard
from harness.replies import NIL, OK, ONE, QUEUED, ZERO
from harness.sections import rule

RULED = b"-ERR hasp: the command writes a key with a [lock] rule in another database\r\n"
GUARDED = b"-ERR hasp: the command writes a guarded key in another database\r\n"
# Commands that write a key with a rule or a guard into database 1, and hasp's errors.
REFUSED = [
    (("COPY", "a", "lock:a", "DB", 1, "REPLACE"), RULED), (("COPY", "a", "lock:a", "replace", "dB", "1"), RULED),
    (("COPY", "lock:b", "lock:a", "DB", 1), RULED), (("COPY", "a", "lock:a", "DB", 0, "DB", 1, "REPLACE"), RULED),
    (("COPY", "a", "stock:1", "DB", 1, "REPLACE"), GUARDED), (("COPY", "stock:2", "stock:1", "DB", 1), GUARDED),
    (("MOVE", "stock:1", 1), GUARDED),
]


@pytest.fixture
def there(redis_server):
    with redis_server.client(db=1) as client:
        yield client


@pytest.mark.parametrize("command, refused", REFUSED, ids=[" ".join(map(str, command)) for command, _ in REFUSED])
def test_a_write_of_a_locked_key_in_another_database_is_refused(share_hasp, plain, there, command, refused):
    hasp = share_hasp(rule() + guard())
    plain.mset({"a": "theirs", "lock:b": "theirs", "stock:1": "theirs", "stock:2": "theirs"})
    with hasp.connect() as owner, hasp.connect() as other:
        assert owner.call("SELECT", 1) == OK
        assert owner.call("SET", "lock:a", "mine", "NX", "PX", 60000) == OK
        assert owner.call("GET", "stock:1") == NIL
        assert other.call(*command) == refused
        assert other.call("MULTI") == OK
        assert other.call(*command) == QUEUED
        assert other.call("EXEC") == b"*1\r\n" + refused
        assert (there.get("lock:a"), there.get("stock:1"), plain.get("stock:1")) == ("mine", None, "theirs")
        assert owner.call("SET", "stock:1", "mine") == OK
        assert owner.call("DEL", "lock:a") == ONE


def test_a_copy_is_checked_in_the_database_that_it_names(share_hasp, plain, there):
    hasp = share_hasp(rule() + guard(wait=0))
    plain.set("a", "theirs")
    with hasp.connect() as owner, hasp.connect() as other:
        assert owner.call("SET", "lock:a", "mine", "NX", "PX", 60000) == OK
        assert owner.call("GET", "stock:1") == NIL
        for names_it in ([], ["DB", 0], ["DB", 1, "DB", 0]):
            assert other.call("COPY", "a", "lock:a", "REPLACE", *names_it).startswith(b"-LOCKED ")
            assert other.call("COPY", "a", "stock:1", "REPLACE", *names_it).startswith(b"-LOCKED ")
        # COPY only reads lock:a, so another client's lock does not matter.
        assert other.call("COPY", "lock:a", "b", "DB", 1) == ONE
        assert other.call("SELECT", 1) == OK
        assert other.call("COPY", "b", "lock:a", "DB", 1) == ONE
    assert there.get("lock:a") == "mine" and there.ttl("lock:a") > 0


def test_a_lock_is_moved_by_its_owner_and_onto_none(share_hasp, plain, there):
    hasp = share_hasp(rule())
    with hasp.connect() as owner, hasp.connect() as other:
        assert owner.call("SET", "lock:a", "mine", "NX", "PX", 60000) == OK
        assert other.call("MOVE", "lock:a", 1).startswith(b"-LOCKED ")
        there.set("lock:a", "another's")
        assert owner.call("MOVE", "lock:a", 1) == ZERO
        there.delete("lock:a")
        assert owner.call("MOVE", "lock:a", 1) == ONE
    assert not plain.exists("lock:a") and there.get("lock:a") == "mine"


@pytest.mark.parametrize("command", [
    ("COPY", "a", "lock:a", "DB", "x"), ("COPY", "a", "lock:a", "DB"), ("MOVE", "stock:1", "x"), ("MOVE", "stock:1"),
    ("MOVE", "stock:1", 0)])
def test_what_redis_would_not_run_is_refused_in_its_words(share_hasp, plain, redis_server, command):
    hasp = share_hasp(rule() + guard())
    plain.set("a", "1")
    with hasp.connect() as one, redis_server.connect() as past:
        expected = past.call(*command)
        assert expected.startswith(b"-") and one.call(*command) == expected
