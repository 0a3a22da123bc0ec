# SPDX-License-Identifier: BSD-3-Clause
"""Commands that hasp did not know when it started: a module's that is loaded later, and those that
Redis has under another name. Once hasp has met one it asks Redis about it, and checks it."""

import os
import shutil
import subprocess

import pytest
from harness import TOP, RedisServer, until
from harness.guards import guard
from harness.marks import BOTH
from harness.replies import NIL, OK, ONE, QUEUED, bulk
from harness.sections import rule

# What redismodule.h makes easier, for Debian has it in no package.
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


@pytest.fixture
def pooling():
    """Tested with BOTH where it could matter."""
    return "shared"


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


def learn(hasp, name, *args):
    """The first of these passes as it came; of those before hasp has a connection it asks nothing."""
    with hasp.connect() as one:
        until(lambda: one.call(name, *args) and f'name="{name.lower()}"' in hasp.log, "hasp to learn of it")


@BOTH
@pytest.mark.parametrize("name", NAMES)
def test_a_command_of_a_module_that_is_loaded_later_is_checked(start_hasp, plain, module, name):
    hasp = start_hasp(rule() + guard(wait=0)).is_up()
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "mine", "NX", "PX", 60000) == OK
        assert one.call("GET", "stock:a") == NIL
        assert other.call(name, "lock:a", "theirs").startswith(b"-ERR unknown command")
        plain.module_load(str(module))
        learn(hasp, name, "free", "x")
        assert other.call(name, "lock:a", "theirs").startswith(b"-LOCKED 'lock:a' ")
        assert other.call(name, "stock:a", "theirs").startswith(b"-LOCKED 'stock:a' ")
        assert one.call(name, "lock:a", "still mine") == OK
        assert one.call(name, "stock:a", "mine") == OK
        assert (plain.get("lock:a"), plain.get("stock:a")) == ("still mine", "mine")
        assert plain.pttl("lock:a") > 0


@BOTH
@pytest.mark.parametrize("name, args", [("other.append", ["x"]), ("OTHER.setex", [60, "x"]), ("other.incr", [])])
def test_a_renamed_command_is_checked(start_hasp, plain, name, args):
    hasp = start_hasp(rule() + guard(wait=0))
    learn(hasp, name, "free", *args)
    assert f'command_renamed name="{name.lower()}" original={name.lower().split(".")[1]}\n' in hasp.log
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("SET", "lock:a", "1", "NX", "PX", 60000) == OK
        assert one.call("GET", "stock:a") == NIL
        assert other.call(name, "lock:a", *args).startswith(b"-LOCKED 'lock:a' ")
        assert other.call(name, "stock:a", *args).startswith(b"-LOCKED 'stock:a' ")
        assert plain.get("lock:a") == "1"
        expected = OK if "setex" in name.lower() else b":2\r\n"
        assert one.call(name, "lock:a", *args) == expected
        assert not one.call(name, "stock:a", *args).startswith(b"-")
        assert other.call("DEL", "lock:a") == b":0\r\n"
        assert one.call("DEL", "lock:a") == ONE


def test_a_renamed_command_that_changes_its_connection_stays_private(start_hasp, plain):
    hasp = start_hasp(rule())
    learn(hasp, "other.select", 0)
    with hasp.connect() as one, hasp.connect() as other:
        assert one.call("other.select", 1) == OK
        assert one.call("SET", "a", "one") == OK
        assert other.call("SET", "a", "nought") == OK
        assert one.call("GET", "a") == bulk("one")


def test_a_renamed_read_is_what_it_was(start_hasp):
    hasp = start_hasp(rule())
    learn(hasp, "other.strlen", "a")
    with hasp.connect() as one:
        assert one.call("SET", "lock:a", "12345") == OK
        assert one.call("other.strlen", "lock:a") == b":5\r\n"
        assert one.call("MULTI") == OK
        assert one.call("other.append", "lock:a", "6") == QUEUED
        assert one.call("EXEC") == b"*1\r\n:6\r\n"


def test_commands_that_scripts_call_and_that_were_renamed_are_told_of(start_hasp):
    hasp = start_hasp(rule())
    until(lambda: 'commands_missing names="PERSIST"' in hasp.log, "the error")
    checked = subprocess.run([os.environ.get("HASP", str(TOP / "hasp")), "-t", "-c", hasp.config_file],
                             capture_output=True, text=True, check=True)
    assert checked.stderr.endswith("by their own names, and hasp's scripts call them: PERSIST\n")


def test_names_that_redis_does_not_know_are_its_to_refuse(start_hasp):
    hasp = start_hasp(rule())
    names = [f"no.such{i}" for i in range(100)] + ["n" * 64, "n" * 5000, "n\0o", "", "n\r\no"]
    with hasp.connect() as one:
        for name in names * 2:
            assert one.call(name, "lock:a").startswith(b"-ERR unknown command")
        assert one.call("SET", "lock:a", "x") == OK
    assert "command_" not in hasp.log
