# SPDX-License-Identifier: BSD-3-Clause
"""Properties of all scripts: calls, keys, errors."""

import re

import pytest
from harness import TOP, Connection, encode
from harness.script_forms import all_commands
from harness.script_queue import (DEAF, LAYOUTS, OTHERS, Workers, ask, expire_now, give_back, own_token, place_in,
                                  value_of)
from harness.scripts import calls  # noqa: F401: a fixture for all tests here
from harness.scripts import FENCE, KEY, LEASE, ME, NIL, OTHER, STATES, WORKER, each, load_scripts, locked, to_hex


def act_out_all_of_waiting(world, server):
    """Takes every path through hand_off.lua and its includes, with waiters to notify."""
    workers = Workers(server, WORKER)
    for kind in "hsrvl":
        for last in (give_back, lambda w, k, t: w.release(k, KEY, own_token(k, t))):
            world.db.flushall()
            ask(world, kind, ME, ticket=f"{WORKER}-1")
            place = place_in(ask(world, kind, OTHERS[0], ticket=f"{WORKER}-2"))
            ask(world, kind, OTHERS[1], ticket=f"{DEAF}-3")
            ask(world, kind, OTHERS[2], ticket=f"{WORKER}-4")
            world.verb("INFO", KEY, layout=LAYOUTS.get(kind, "no"))
            last(world, kind, ME)
            args = kind, own_token(kind, OTHERS[0]), f"{WORKER}-2", place
            assert world.poll(*args, value_of(OTHERS[0]), lease=LEASE)[0] == "granted"
            assert world.dequeue(*args, "undo", value_of(OTHERS[0]))[0] == "undone"
            assert world.dequeue(*args, "undo", value_of(OTHERS[0]))[0] == "gone"
            expire_now(world)
            ask(world, kind, OTHERS[3], ticket=f"{WORKER}-5")
            ask(world, kind, OTHERS[4], ticket=f"{WORKER}-6")
            world.dequeue(kind, own_token(kind, OTHERS[4]), f"{WORKER}-6", -1, "tell",
                        value_of(OTHERS[4]))
            last(world, kind, OTHERS[3])
    workers.c.close()


def calls_of(world, what):
    """Returns how many commands Redis ran for a script, which the function `what` calls."""
    world.db.config_resetstat()
    what()
    stats = world.db.info("commandstats")
    outside = {"cmdstat_config|resetstat", "cmdstat_info", "cmdstat_eval", "cmdstat_evalsha",
               *("cmdstat_keys", "cmdstat_dump", "cmdstat_pexpiretime")}  # commands of World.dump()
    return sum(s["calls"] for name, s in stats.items() if name not in outside)


FULL = pytest.mark.parametrize("calls", ["full"], indirect=True)
SHORT = pytest.mark.parametrize("calls", ["short"], indirect=True)


@FULL
@each("state, argv, most", [
    ("free", ["SETNX", KEY, "v"], 3), ("free", ["SET", KEY, "v", "NX", "PX", 9000], 3),
    ("another's", ["SETNX", KEY, "v"], 1), ("mine", ["SET", KEY, "v", "NX", "GET"], 1),
    ("mine", ["DEL", KEY], 3), ("another's", ["DEL", KEY], 2), ("free", ["DEL", KEY], 2),
    ("free", ["SET", KEY, "v"], 4), ("mine", ["SET", KEY, "v"], 5),
    ("another's", ["SET", KEY, "v"], 2), ("free", ["INCR", KEY], 4),
    ("mine", ["EXPIRE", KEY, 10], 5), ("mine", ["PERSIST", KEY], 2),
    ("mine", ["APPEND", KEY, "x"], 7), ("another's", ["APPEND", KEY, "x"], 2),
    ("wrong type", ["RPUSH", KEY, "x"], 3),
])
def test_no_script_calls_more_than_it_must(world, state, argv, most):
    token = world.put(state)
    assert calls_of(world, lambda: world.run(*argv, token=token)) == most


@FULL
@each("layout, verb, args, most", [
    ("count", "LOCK", [], 6), ("count", "UNLOCK", [], 4), ("no", "LOCK", [], 5),
    ("no", "UNLOCK", [], 3), ("count", "EXTEND", ["PX", 9], 3)])
def test_no_verb_calls_more_than_it_must(world, layout, verb, args, most):
    if verb != "LOCK":
        world.verb("LOCK", KEY, layout=layout)
    assert calls_of(world, lambda: world.verb(verb, KEY, *args, layout=layout)) == most


@SHORT
@each("layout, verb, most", [
    ("count", "LOCK", 6), ("count", "UNLOCK", 4), ("no", "LOCK", 5), ("no", "UNLOCK", 3)])
def test_no_short_verb_calls_more_than_it_must(world, layout, verb, most):
    if verb != "LOCK":
        world.verb("LOCK", KEY, layout=layout)
    assert calls_of(world, lambda: world.verb(verb, KEY, layout=layout)) == most
    assert world.last.is_short


@SHORT
@each("state, wait, most", [("mine", 0, 3), ("mine", 4000, 4), ("free", 0, 2), ("free", 4000, 3)])
def test_no_short_delete_calls_more_than_it_must(world, state, wait, most):
    token = world.put(state)
    assert calls_of(world, lambda: world.run("DEL", KEY, token=token, wait=wait)) == most
    assert world.last.is_short


@FULL
@pytest.mark.parametrize("kind, free, taken, behind, given_back, handed_over", [
    ("h", 6, 8, 6, 4, 12), ("s", 5, 8, 6, 3, 11), ("r", 4, 9, 6, 5, 12), ("v", 3, 9, 6, 4, 10),
    ("l", 7, 13, 21, 12, 27)])
def test_no_script_that_waits_calls_more_than_it_must(world, workers, kind, free, taken, behind,
                                                      given_back, handed_over):
    assert calls_of(world, lambda: ask(world, kind, ME)) == free
    assert calls_of(world, lambda: give_back(world, kind, ME)) == given_back
    ask(world, kind, ME)
    assert calls_of(world, lambda: ask(world, kind, OTHER, ticket=f"{WORKER}-1")) == taken
    assert calls_of(world, lambda: ask(world, kind, OTHERS[0], ticket=f"{WORKER}-2")) == behind
    assert calls_of(world, lambda: give_back(world, kind, ME)) == handed_over
    assert len(workers.told()) == 1


@each(argv=all_commands(), wait=[0, 4000])
def test_an_address_a_name_or_a_user_leads_to_the_calls_of_a_connection(world, argv, wait):
    """hasp tells counting scripts whether other connections may have the owner's token."""
    call, *others = [world.tool.lock(argv, owner=owner, wait=wait, ticket="w-1").wire
                     for owner in ("connection", "address", "name", "user")]
    assert [other.replace(b"$6\r\nshared\r\n", b"$0\r\n\r\n") for other in others] == [call] * 3


def test_each_script_is_the_same_inline(world):
    """In MULTI, hasp sends EVAL with the script's text instead of EVALSHA."""
    world.db.script_flush()
    assert world.run("APPEND", KEY, "v").startswith(b"-NOSCRIPT")
    assert world.run("SET", KEY, "v", "NX", inline=True) == b"+OK\r\n"
    assert world.run("APPEND", KEY, "v", inline=True) == b":2\r\n"
    assert world.verb("LOCK", "job", inline=True) == world.fenced()
    assert world.run("APPEND", KEY, "v", token=OTHER) == locked(KEY)  # EVAL has loaded the script
    load_scripts(world.tool, world.db)


def test_every_key_a_script_touches_is_declared(world, tool, server):
    """MONITOR shows the commands that a script runs."""
    with Connection(server.unix) as monitor:
        monitor.call("MONITOR")
        for state in STATES:
            for argv in all_commands():
                token = world.put(state)
                world.run(*argv, token=token)
                world.run(*argv, token=token, reentrant="refresh", longest=LEASE)
        for verb in ("LOCK", "INFO", "UNLOCK"):
            world.verb(verb, KEY)
            world.verb(verb, KEY, layout="no")
        world.renew(("r", KEY, ME, LEASE, 0), ("v", "other", ME, LEASE, 0))
        world.renew(("h", KEY, ME, LEASE, 0), ("s", "other", ME, LEASE, 0))
        world.release("h", KEY, ME)
        world.db.delete(KEY, FENCE)
        world.verb("LOCK", KEY, "LIMIT", 2)
        world.verb("EXTEND", KEY, "PX", 5000)
        assert world.renew(("l", KEY, ME, LEASE, world.fence())) == [1]
        world.release("l", KEY, ME)
        act_out_all_of_waiting(world, server)
        world.db.ping()
        declared, checked = set(), 0
        while True:
            line = monitor.read().decode("latin1")
            words = [w.encode().decode("unicode_escape")
                     for w in re.findall(r'"((?:[^"\\]|\\.)*)"', line)]
            name = words[0].upper()
            if name == "PING":
                break
            if name == "EVALSHA":
                declared = set(words[3:3 + int(words[2])])
            elif " lua] " in line and name not in ("PUBLISH", "PUBSUB", "TIME"):
                keys = tool.ask("keys", *map(to_hex, words))[2:]
                touched = {words[int(i)] for i in keys} or {words[1]}
                assert touched <= declared, line
                checked += 1
        assert checked > 1000


def test_a_replica_refuses_as_redis_does(world):
    world.db.execute_command("REPLICAOF", "127.0.0.1", 1)
    try:
        for argv in (["SETNX", KEY, "v"], ["SET", KEY, "v"], ["INCR", KEY], ["DEL", KEY],
                     ["EXPIRE", KEY, 1], ["APPEND", KEY, "v"], ["SET", KEY, "v", "NX", "GET"]):
            assert world.run(*argv) == world.plain(*argv)
        assert world.verb("LOCK", KEY) == world.plain("SET", KEY, "v")
    finally:
        world.db.execute_command("REPLICAOF", "NO", "ONE")


@each("told, meant", [
    ("@user_script: 7: -READONLY You can't write against a read only replica.\r\n",
     "READONLY You can't write against a read only replica."),
    ("@user_script: 7: Wrong number of args calling Redis command From Lua script",
     "ERR wrong number of arguments for 'expire' command"),
    ("ERR Wrong number of args calling Redis command from script",
     "ERR wrong number of arguments for 'expire' command"),
    ("WRONGTYPE Operation", "WRONGTYPE Operation")])
def test_errors_of_older_servers_lose_their_line_number(world, told, meant):
    """Redis 6 puts the script's line number before the error (luaPushError())."""
    text = (TOP / "proxy/lock/scripts/includes/errors.lua").read_text()
    world.ours[2].send(encode(
        "EVAL", text + "return client_error({err = ARGV[1]}, 'EXPIRE')", 0, told))
    assert world.ours[2].read() == f"-{meant}\r\n".encode()


def test_out_of_memory_is_told_as_redis_does(world):
    world.put("mine")
    for layout in ("count", "no"):
        world.verb("LOCK", f"job:{layout}", layout=layout)
    world.db.config_set("maxmemory", 1)
    try:
        for argv in (["SETNX", "lock:x", "v"], ["SET", KEY, "v"], ["INCR", "lock:y"],
                     ["APPEND", KEY, "v"], ["GETSET", KEY, "v"]):
            reply = world.run(*argv)
            assert reply == world.plain(*argv) and reply.startswith(b"-OOM")
        assert world.verb("LOCK", "job").startswith(b"-OOM")
        assert world.run("EXPIRE", KEY, 100) == b":1\r\n"
        world.assert_lock("held", 100000)
        for layout in ("count", "no"):
            assert world.verb("UNLOCK", f"job:{layout}", layout=layout) == b":1\r\n"
        assert world.run("DEL", KEY) == b":1\r\n"
    finally:
        world.db.config_set("maxmemory", 0)


@each("kind, args", [("h", ()), ("m", ["SHARED"]), ("x", ["EXCLUSIVE"]), ("l", ["LIMIT", 2])])
def test_holders_keep_and_give_back_their_locks_when_the_memory_is_full(world, kind, args):
    """Redis refuses a script's HINCRBY and ZADD if the script has written nothing before."""
    tickets = [f"{WORKER}-{n}" for n in "123"]
    for ticket in tickets:
        world.verb("LOCK", KEY, *args, ticket=ticket)
    world.db.config_set("maxmemory", 1)
    try:
        assert world.renew((kind, KEY, ME, 40000, world.fence())) == [1]
        assert world.is_left(world.db.pttl(KEY), 40000)
        assert world.verb("EXTEND", KEY, "PX", 50000) == b":1\r\n"
        assert world.is_left(world.db.pttl(KEY), 50000)
        if kind != "l":  # an owner has one place
            assert world.verb("UNLOCK", KEY, ticket=tickets[0]) == b":1\r\n"
            assert world.verb("MUNLOCK", 1, KEY, ticket=tickets[1]) == b":1\r\n"
            assert world.dequeue(kind, ME, tickets[2], 0) == ["undone", 0, 0]
        else:
            assert world.verb("UNLOCK", KEY) == b":1\r\n"
        assert not world.db.exists(KEY)
    finally:
        world.db.config_set("maxmemory", 0)


def test_mlock_whose_time_is_over_gives_its_locks_back_when_the_memory_is_full(world):
    keys = "{k}a", "{k}b"
    world.verb("LOCK", keys[1], token=OTHER)
    assert world.verb("MLOCK", 2, *keys, "WAIT", 1000, ticket=f"{WORKER}-1", may_wait=1000).startswith(b"+QUEUED")
    assert world.db.exists(keys[0])
    world.db.config_set("maxmemory", 1)
    try:
        assert world.verb("MLOCK", 2, *keys, ticket=f"{WORKER}-1") == NIL[2]
        assert not world.db.exists(keys[0])
    finally:
        world.db.config_set("maxmemory", 0)


def test_a_lock_that_cannot_be_read_is_not_taken_for_free(world, server):
    world.db.acl_setuser("blind", enabled=True, nopass=True, keys=["*"],
                         commands=["+@all", "-get"])
    world.run("SET", KEY, "v", "NX", token=OTHER)
    with Connection(server.unix) as c:
        c.call("AUTH", "blind", "x")
        for argv in (["SET", KEY, "mine"], ["DEL", KEY], ["APPEND", KEY, "x"]):
            call = world.tool.lock(argv)
            c.send(call.wire)
            assert c.read().startswith(b"-")
    world.assert_lock("v", LEASE, owner=OTHER)
