# SPDX-License-Identifier: BSD-3-Clause
"""Commands that hasp did not know when it started: renamed ones, and those of a module that is
loaded later. When a client first sends such a command, hasp asks Redis about it, and from then on
checks it."""

import contextlib
import os
import re
import shutil
import subprocess
import time

import pytest
from harness import TOP, RedisServer, until
from harness.cluster import Cluster
from harness.guards import guard
from harness.marks import BOTH, covers
from harness.replies import NIL, OK, ONE, PONG, QUEUED, bulk
from harness.resp import encode
from harness.sections import rule, verbs
from harness.wait import prompt

# The declarations of redismodule.h that the module needs; no package of Debian has that file.
MODULE = r"""
typedef struct ctx ctx;
typedef struct string string;
typedef struct reply reply;
static int (*create)(ctx *, const char *, int (*)(ctx *, string **, int), const char *, int, int, int);
static void (*attribs)(ctx *, const char *, int, int);
static reply *(*call)(ctx *, const char *, const char *, ...);
static int (*answer)(ctx *, reply *);
static int set(ctx *c, string **argv, int argc)
{
	return answer(c, call(c, "SET", "ss", argv[argc - 2], argv[argc - 1]));
}
int RedisModule_OnLoad(ctx *c, string **argv, int argc)
{
	int (*get)(const char *, void *) = *(int (**)(const char *, void *))c;
	(void)argv, (void)argc;
	if (get("RedisModule_SetModuleAttribs", &attribs) || get("RedisModule_CreateCommand", &create) ||
	    get("RedisModule_Call", &call) || get("RedisModule_ReplyWithCallReply", &answer))
		return 1;
	attribs(c, "late", 1, 1);
	return create(c, "late.set", set, "write", 1, 1, 1) ||
	       create(c, "late.set_with_a_name_of_more_than_24_bytes", set, "write", 1, 1, 1);
}
"""
NAMES = ["late.set", "LATE.set_with_a_name_of_more_than_24_bytes"]


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    path = tmp_path_factory.mktemp("module") / "late.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=MODULE, text=True, check=True)
    os.chmod(path, 0o755)
    return path


@pytest.fixture
def redis_server():
    with RedisServer("--enable-module-command", "local", "--rename-command", "APPEND", "other.append",
                     "--rename-command", "SETEX", "other.setex", "--rename-command", "SELECT", "other.select",
                     "--rename-command", "STRLEN", "other.strlen", "--rename-command", "INCR", "other.incr",
                     "--rename-command", "PERSIST", "other.persist") as server:
        yield server


@covers("command_learned")
@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_a_command_of_a_module_that_is_loaded_later_is_checked(start_hasp, plain, module, name):
    hasp = start_hasp(rule() + guard(wait=0)).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "mine", "NX", "PX", 60000) == OK
        assert one.call("GET", "stock:a") == NIL
        assert other.call(name, "lock:a", "theirs").startswith(b"-ERR unknown command")
        plain.module_load(str(module))
        assert other.call(name, "lock:a", "theirs").startswith(b"-LOCKED 'lock:a' ")
        assert other.call(name, "stock:a", "theirs").startswith(b"-LOCKED 'stock:a' ")
        assert f'command_learned name="{name.lower()}"' in hasp.log
        assert one.call(name, "lock:a", "still mine") == OK
        assert one.call(name, "stock:a", "mine") == OK
        assert (plain.get("lock:a"), plain.get("stock:a")) == ("still mine", "mine")
        assert plain.pttl("lock:a") > 0


@BOTH
def test_what_comes_behind_a_command_that_is_learned_keeps_its_order(share_hasp, plain):
    hasp = share_hasp(rule()).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX", "PX", 60000) == OK
        other.send(encode("SET", "a", "1"))
        for name in ["other.append", "no.such", "other.incr", "other.persist"]:
            other.send(encode(name, "lock:a", *["x"] * (name == "other.append")) + encode("other.append", "a", "2"))
        assert other.read() == OK
        assert other.read().startswith(b"-LOCKED ")
        assert other.read() == b":2\r\n"
        assert other.read().startswith(b"-ERR unknown command 'no.such'")
        assert other.read() == b":3\r\n"
        assert other.read().startswith(b"-LOCKED ")
        assert other.read() == b":4\r\n"
        assert other.read().startswith(b"-LOCKED ")
        assert other.read() == b":5\r\n"
    assert (plain.get("lock:a"), plain.get("a")) == ("1", "12222")


@BOTH
@pytest.mark.parametrize("nbytes", [20_000, 3_000_000])
def test_a_long_one_is_checked_wherever_it_is_split(share_hasp, plain, nbytes):
    hasp = share_hasp(rule()).is_up()
    request = encode("other.append", "lock:a", "x" * nbytes)
    with hasp.connect() as one:
        assert one.call("SET", "lock:a", "1", "NX", "PX", 60000) == OK
        for at in [1, 10, 30, 40, 17_000, len(request) - 1]:
            with hasp.connect() as other:
                other.send(request[:at])
                time.sleep(0.02)
                other.send(request[at:] + encode("PING"))
                assert other.read().startswith(b"-LOCKED ")
                assert other.read() == PONG
    assert plain.get("lock:a") == "1"


@BOTH
def test_one_in_a_transaction_is_checked(share_hasp, plain):
    hasp = share_hasp(rule() + guard(wait=0)).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX", "PX", 60000) == OK
        assert one.call("GET", "stock:a") == NIL
        for name, key in [("other.append", "lock:a"), ("other.setex", "stock:a")]:
            assert other.call("MULTI") == OK
            other.send(encode(name, key, *["60"] * (name == "other.setex"), "x") + encode("EXEC"))
            answers = other.read() + other.read()
            assert b"LOCKED" in answers and b"*1\r\n:" not in answers
    assert (plain.get("lock:a"), plain.get("stock:a")) == ("1", None)


@BOTH
def test_many_clients_learn_of_many_at_once(share_hasp, plain):
    """There are more names than hasp asks about in one call, and most of them are no commands."""
    hasp = share_hasp(rule()).is_up()
    with hasp.connect() as one, contextlib.ExitStack() as stack:
        assert one.call("SET", "lock:a", "1", "NX", "PX", 60000) == OK
        others = [stack.enter_context(hasp.connect()) for _ in range(100)]
        for n, other in enumerate(others):
            name = "other.append" if n % 10 == 0 else f"no.such{n}"
            other.send(encode(name, "lock:a", "x") + encode("PING"))
        for n, other in enumerate(others):
            expected = b"-LOCKED " if n % 10 == 0 else f"-ERR unknown command 'no.such{n}'".encode()
            assert other.read().startswith(expected)
            assert other.read() == PONG
    assert plain.get("lock:a") == "1"


@BOTH
def test_client_that_hangs_up_meanwhile_harms_nobody(share_hasp, plain, redis_server):
    hasp = share_hasp(rule()).is_up()
    with hasp.connect() as one:
        assert one.call("SET", "lock:a", "1", "NX", "PX", 60000) == OK
        with redis_server.frozen():
            for n in range(20):
                with hasp.connect() as other:
                    other.send(encode("other.append", "lock:a", "x"))
                    time.sleep(0.01 * (n % 3))
        with hasp.connect() as other:
            assert other.call("other.append", "lock:a", "x").startswith(b"-LOCKED ")
        assert one.call("DEL", "lock:a") == ONE


def test_client_goes_on_when_redis_goes_away_meanwhile(share_hasp, redis_server):
    hasp = share_hasp(rule()).is_up()
    with hasp.connect() as other:
        assert other.call("PING") == PONG
        redis_server.freeze()
        other.send(encode("other.append", "lock:a", "x"))
        time.sleep(0.1)  # gives hasp time to ask about the command
        redis_server.kill()
        with contextlib.suppress(EOFError):
            assert other.read().startswith(b"-ERR hasp: upstream ")
    with hasp.connect() as other:
        assert other.call("other.append", "lock:a", "x").startswith(b"-ERR hasp: upstream ")


@covers("command_renamed")
@BOTH
@pytest.mark.parametrize("name, args", [("other.append", ["x"]), ("OTHER.setex", [60, "x"]), ("other.incr", [])])
def test_a_renamed_command_is_checked(start_hasp, plain, name, args):
    hasp = start_hasp(rule() + guard(wait=0)).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX", "PX", 60000) == OK
        assert one.call("GET", "stock:a") == NIL
        assert other.call(name, "lock:a", *args).startswith(b"-LOCKED 'lock:a' ")
        assert f'command_renamed name="{name.lower()}" original={name.lower().split(".")[1]}\n' in hasp.log
        assert other.call(name, "stock:a", *args).startswith(b"-LOCKED 'stock:a' ")
        assert plain.get("lock:a") == "1"
        expected = OK if "setex" in name.lower() else b":2\r\n"
        assert one.call(name, "lock:a", *args) == expected
        assert not one.call(name, "stock:a", *args).startswith(b"-")
        assert other.call("DEL", "lock:a") == b":0\r\n"
        assert one.call("DEL", "lock:a") == ONE


def test_a_renamed_command_that_changes_its_connection_stays_private(share_hasp, plain):
    hasp = share_hasp(rule()).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("other.select", 1) == OK
        assert one.call("SET", "a", "one") == OK
        assert other.call("SET", "a", "nought") == OK
        assert one.call("GET", "a") == bulk("one")


def test_a_renamed_read_is_what_it_was(share_hasp):
    hasp = share_hasp(rule()).is_up()
    with hasp.connect() as one:
        assert one.call("SET", "lock:a", "12345") == OK
        assert one.call("other.strlen", "lock:a") == b":5\r\n"
        assert one.call("MULTI") == OK
        assert one.call("other.append", "lock:a", "6") == QUEUED
        assert one.call("EXEC") == b"*1\r\n:6\r\n"


@covers("commands_missing")
def test_commands_that_scripts_call_and_that_were_renamed_are_told_of(start_hasp):
    hasp = start_hasp(rule())
    until(lambda: 'commands_missing names="PERSIST"' in hasp.log, "hasp to log the missing command")
    checked = subprocess.run([os.environ.get("HASP", str(TOP / "hasp")), "-t", "-c", hasp.config_file],
                             capture_output=True, text=True, check=True)
    assert checked.stderr.endswith("which hasp's scripts call: PERSIST\n")


def test_names_that_redis_does_not_know_are_its_to_refuse(start_hasp):
    hasp = start_hasp(rule()).is_up()
    names = [f"no.such{i}" for i in range(100)] + ["n" * 64, "n" * 5000, "n\0o", "", "n\r\no"]
    with hasp.connect() as one:
        since = time.monotonic()
        for name in names * 2:
            assert one.call(name, "lock:a").startswith(b"-ERR unknown command")
        prompt(time.monotonic() - since, 20)
        assert one.call("SET", "lock:a", "x") == OK
    assert not re.search(" (info|warning) command_", hasp.log)


def test_nodes_that_do_not_know_hello_are_a_cluster_all_the_same(start_hasp):
    """hasp must still use keys in the lock's slot, or the nodes would refuse its scripts."""
    with Cluster("--rename-command", "HELLO", "", primaries=2, replicas=0) as cluster:
        hasp = start_hasp(verbs(), upstream=cluster.upstream).is_up(2)
        with hasp.connect() as one:
            for key in (f"job:{n}" for n in range(8)):
                assert one.call("LOCK", key).startswith(b":")
                assert one.call("UNLOCK", key) == ONE


def test_a_cluster_is_asked_at_any_node(start_hasp):
    with Cluster("--rename-command", "APPEND", "other.append", primaries=2, replicas=0) as cluster:
        hasp = start_hasp(rule(), upstream=cluster.upstream).is_up(2)
        keys = [f"lock:{n}" for n in range(8)]
        with hasp.connect() as one, hasp.connect() as other:
            for key in keys:
                assert one.call("SET", key, "1", "NX", "PX", 60000) == OK
            other.send(b"".join(encode("other.append", key, "x") for key in keys))
            assert all(other.read().startswith(b"-LOCKED ") for _ in keys)
            assert one.call("other.append", keys[0], "2") == b":2\r\n"
            assert one.call("no.such", keys[0]).startswith(b"-ERR unknown command")


@BOTH
@pytest.mark.parametrize("sections", [rule(), guard(pattern="lock:*", wait=0)], ids=["rule", "guard"])
@pytest.mark.parametrize("command", [("DELIFEQ", "lock:a", "v"), ("DELEX", "lock:a"), ("APPEND", "lock:a", "x")])
def test_a_command_that_the_server_lacks_is_unknown(start_hasp, sections, command):
    with start_hasp(sections).is_up().connect() as one:
        assert one.call(*command) == f"-ERR unknown command '{command[0]}'\r\n".encode()


@BOTH
@pytest.mark.parametrize("sections", [rule(), guard(pattern="lock:*", wait=0)], ids=["rule", "guard"])
@pytest.mark.parametrize("command", [("DELIFEQ", "lock:a", "v"), ("DELEX", "lock:a")])
def test_a_command_that_the_server_lacks_aborts_the_transaction(start_hasp, redis_server, sections, command):
    requests = (("MULTI",), ("SET", "data", "1"), command, ("EXEC",), ("EXISTS", "data"))
    with redis_server.connect() as direct, start_hasp(sections).is_up().connect() as one:
        expected = [direct.call(*request) for request in requests]
        assert [one.call(*request) for request in requests] == expected
