# SPDX-License-Identifier: BSD-3-Clause
"""The owner of a lock under a rule: `owner` = connection, address, name, user, value."""

import os
import re

import pytest
from harness.marks import covers
from harness.replies import NIL, OK, ONE, ZERO, bulk
from harness.resp import pipeline
from harness.sections import rule

KEY = "lock:1"


def owner_of(plain, key=KEY):
    return plain.get("hasp:owner:{%s}" % key).split(" ")[0]


def test_owner_connection_is_named_by_its_peer(pair, plain):
    one, _ = pair()
    one.call("SETNX", KEY, "v")
    host, port = one.sock.getsockname()
    assert re.fullmatch(rf"connection:{host}:{port}/0/[0-9a-f]{{32}}", owner_of(plain))


@covers("owner")
def test_owner_address_is_shared_by_connections_of_a_host(pair, plain):
    one, other = pair(rule(owner="address"))
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "address:127.0.0.1"
    assert other.call("SETNX", KEY, "v") == ZERO
    assert other.call("DEL", KEY) == ONE


def test_owner_address_of_a_unix_socket_is_the_uid(share_hasp, redis_server, plain, tmp_path):
    hasp = share_hasp(rule(owner="address"), listen=f"unix:{tmp_path}/s 127.0.0.1:0")
    with hasp.connect() as one, hasp.connect() as other:
        one.call("SETNX", KEY, "v")
        assert owner_of(plain) == f"address:uid:{os.getuid()}"
        assert other.call("DEL", KEY) == ONE


def test_owner_name_is_shared_by_connections_of_that_name(pair, plain):
    one, other = pair(rule(owner="name"))
    assert one.call("CLIENT", "SETNAME", "shop") == OK
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "name:shop"
    assert other.call("DEL", KEY) == ZERO
    assert other.call("HELLO", 3, "SETNAME", "shop").startswith(b"%")
    assert other.call("DEL", KEY) == ONE


def test_owner_name_is_the_connection_until_there_is_one(pair, plain):
    one, other = pair(rule(owner="name"))
    one.call("SETNX", KEY, "v")
    assert owner_of(plain).startswith("connection:")
    assert other.call("DEL", KEY) == ZERO


def test_owner_name_that_redis_refuses_is_none(pair, plain):
    one, _ = pair(rule(owner="name"))
    assert one.call("CLIENT", "SETNAME", "a b").startswith(b"-ERR")
    one.call("SETNX", KEY, "v")
    assert owner_of(plain).startswith("connection:")


def test_owner_name_set_ahead_in_the_same_write_counts(pair, plain):
    one, _ = pair(rule(owner="name"))
    assert pipeline(one, ("CLIENT", "SETNAME", "shop"), ("SETNX", KEY, "v")) == [OK, ONE]
    assert owner_of(plain) == "name:shop"


def test_owner_name_ends_with_reset(pair, plain):
    one, _ = pair(rule(owner="name"))
    one.call("CLIENT", "SETNAME", "shop")
    one.call("RESET")
    one.call("SETNX", KEY, "v")
    assert owner_of(plain).startswith("connection:")


def test_owner_user_is_the_user_that_logged_in(pair, plain):
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">pa", "~*", "&*", "+@all")
    one, other = pair(rule(owner="user"))
    assert one.call("AUTH", "alice", "pa") == OK
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "user:alice"
    assert other.call("AUTH", "alice", "wrong").startswith(b"-WRONGPASS")
    assert other.call("DEL", KEY) == ZERO
    assert other.call("HELLO", 2, "AUTH", "alice", "pa").startswith(b"*")
    assert other.call("DEL", KEY) == ONE


def test_owner_in_a_transaction_is_the_name_and_user_before_multi(pair, plain):
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">pa", "~*", "&*", "+@all")
    one, _ = pair(rule(owner="user") + rule("shops", pattern="shop:*", owner="name"))
    assert one.call("CLIENT", "SETNAME", "before") == OK
    pipeline(one, ("MULTI",), ("AUTH", "alice", "pa"), ("CLIENT", "SETNAME", "after"), ("SETNX", KEY, "v"),
             ("SETNX", "shop:1", "v"), ("EXEC",))
    assert owner_of(plain) == "user:default"
    assert owner_of(plain, "shop:1") == "name:before"
    assert one.call("DEL", KEY, "shop:1") == ZERO


def test_owner_user_is_default_without_a_login(pair, plain):
    one, other = pair(rule(owner="user"))
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "user:default"
    assert other.call("DEL", KEY) == ONE


@pytest.mark.parametrize("option", [b"auth\0", b"AUTH\0x"])
def test_owner_user_is_the_user_that_logged_in_by_an_option_that_ends_at_a_nul(pair, plain, option):
    """Redis reads HELLO's options as C strings, up to the first NUL."""
    plain.execute_command("ACL", "SETUSER", "alice", "on", ">pa", "~*", "&*", "+@all")
    one, _ = pair(rule(owner="user"))
    assert one.call("HELLO", 2, option, "alice", "pa", b"setname\0", "me").startswith(b"*")
    assert one.call("ACL", "WHOAMI") == bulk("alice")
    one.call("SETNX", KEY, "v")
    assert owner_of(plain) == "user:alice"


def test_owner_user_with_a_name_too_long_to_keep_is_the_connection(pair, plain):
    plain.execute_command("ACL", "SETUSER", "u" * 513, "on", ">pa", "~*", "&*", "+@all")
    one, _ = pair(rule(owner="user"))
    assert one.call("AUTH", "u" * 513, "pa") == OK
    one.call("SETNX", KEY, "v")
    assert owner_of(plain).startswith("connection:")


def test_owner_value_needs_no_sidecar(pair, plain):
    one, other = pair(rule(owner="value"))
    assert one.call("SET", KEY, "a", "NX", "PX", 30000) == OK
    assert sorted(plain.keys("*")) == ["hasp:fence:{lock:1}", KEY]
    assert other.call("SET", KEY, "b", "NX", "PX", 30000) == NIL
    assert other.call("SET", KEY, "b").startswith(b"-LOCKED")
    assert other.call("SET", KEY, "a", "XX", "PX", 60000) == OK


def test_owner_value_deletes_only_what_it_stored(pair, plain):
    """The owner's lock expired and another client took it before the owner's DEL arrives."""
    one, other = pair(rule(owner="value"))
    assert one.call("SET", KEY, "a", "NX", "PX", 30000) == OK
    plain.delete(KEY)
    assert other.call("SET", KEY, "b", "NX", "PX", 30000) == OK
    assert one.call("DEL", KEY) == ZERO
    assert other.call("DEL", KEY) == ONE
