# SPDX-License-Identifier: BSD-3-Clause
"""SETNX, SET and INCR: how locks of rules are taken and stored."""

import itertools

import pytest
from harness.script_forms import SETS, TAKES
from harness.scripts import calls  # noqa: F401: a fixture for all tests here
from harness.scripts import FENCE, HELD, KEY, LEASE, ME, NIL, OTHER, OWNERS, OWNERS_RESPS, RESPS, SIDE, STATES, each, locked


# ---- SETNX and SET NX

@each("owner, resp", OWNERS_RESPS, form=TAKES, state=STATES)
def test_taking_answers_as_redis_and_records_the_owner(world, form, state, owner, resp):
    make, ttl = TAKES[form]
    token = world.put(state, owner=owner)
    argv = make()
    before = world.dump()
    reply = world.run(*argv, resp=resp, owner=owner, token=token)
    assert reply == world.plain(*argv, resp=resp)
    free = state in ("free", "left over")
    assert world.last.effect == "takes" and world.last.value == b"v"
    assert world.last.succeeded(reply) == free
    if not free:
        assert world.dump() == before
    elif owner == "value":
        world.assert_lock("v", ttl, owner=None)
        assert state == "left over" or not world.db.exists(SIDE)
    else:
        world.assert_lock("v", ttl)


@each(form=TAKES, state=["mine", "mine unending"], owner=OWNERS)
def test_taking_again_refreshes_when_the_rule_says_so(world, form, state, owner):
    make, ttl = TAKES[form]
    token = world.put(state, owner=owner)
    argv = make()
    if owner == "value":
        argv[2] = "held"  # the value that the lock has
    reply = world.run(*argv, owner=owner, token=token, reentrant="refresh")
    assert world.last.succeeded(reply)
    if argv[0].upper() == "SETNX":
        assert reply == b":1\r\n"
    else:
        assert reply == (b"$-1\r\n" if "GET" in argv else b"+OK\r\n")
    world.assert_lock(argv[2], ttl, owner=None if owner == "value" else ME)


@each(state=["another's", "nobody's", "stale", "wrong type", "unending"], owner=OWNERS)
def test_reentrance_is_for_the_owner_only(world, state, owner):
    token = world.put(state, owner=owner)
    before = world.dump()
    assert world.run("SET", KEY, "v", "NX", owner=owner, token=token,
                     reentrant="refresh") == b"$-1\r\n"
    assert world.run("SETNX", KEY, "v", owner=owner, token=token,
                     reentrant="refresh") == b":0\r\n"
    assert world.dump() == before


# ---- SET, SETEX, PSETEX, GETSET

@each("owner, resp", OWNERS_RESPS, form=SETS, state=STATES)
def test_setting_is_refused_to_others_only(world, form, state, owner, resp):
    make, ttl = SETS[form]
    argv = make()
    words = [str(a).upper() for a in argv]
    token = world.put(state, owner=owner)
    before = world.dump()
    if owner == "value" and state in ("nobody's", "stale", "unending"):
        state = "another's"  # the value is neither the one that the owner stored nor the new one
    reply = world.run(*argv, resp=resp, owner=owner, token=token)
    if state == "another's":
        # The error hides the holder's value: in the timestamp idiom, a client has the lock if
        # GETSET returns the value that its GET returned before.
        assert reply == (NIL[resp] if "XX" in words else locked(KEY))
        assert world.dump() == before
        assert world.last.effect == "none" or not world.last.succeeded(reply)
        return
    assert reply == world.plain(*argv, resp=resp)
    absent = state in ("free", "left over")
    if (absent and "XX" in words) or reply.startswith(b"-"):
        assert world.dump() == before
        return
    if absent or state in ("wrong type", "unending", "mine unending"):
        ttl = min(ttl, LEASE) if "KEEPTTL" not in words else LEASE
        ttl = 60000 if form in ("EXAT", "PXAT") else ttl
    world.assert_lock("v", ttl, owner=None if owner == "value" else ME)


def test_set_of_the_value_that_is_there_is_the_owners_with_owner_value(world):
    world.put("nobody's", owner="value")
    assert world.run("SET", KEY, "held", "XX", "PX", 7000, owner="value", token="") == b"+OK\r\n"
    world.assert_lock("held", 7000, owner=None)


@each(options=[["PXAT", 1], ["EXAT", 1], ["PXAT", 1, "NX"]])
def test_an_expiry_in_the_past_leaves_no_lock(world, options):
    argv = ["SET", KEY, "v", *options]
    assert world.run(*argv) == world.plain(*argv) == b"+OK\r\n"
    assert world.db.get(KEY) is None
    assert world.db.get(SIDE) is None


OPTIONS = [["NX"], ["XX"], ["GET"], ["KEEPTTL"], ["EX", "10"], ["px", "9000"], ["EX"], ["PX", "0"],
           ["EX", "-1"], ["PX", "abc"], ["EX", "9223372036854775807"],
           ["PX", "9223372036854775807"], ["EXAT", "99999999999"], ["PXAT", "0"], ["EX", " 10"],
           ["EX", "+10"], ["EX", "010"], ["NX\0y"], ["PERSIST"], [""], ["FOO"]]


def answers_as_redis(world, state, options):
    """Checks that reply and value are the same as Redis', and that the key has an expiry."""
    argv = ["SET", KEY, "v", *itertools.chain(*options)]
    token = world.put(state)
    assert world.run(*argv, token=token) == world.plain(*argv)
    if world.db.type(KEY) == b"string":
        assert world.db.get(KEY) == world.other_db.get(KEY)
        if world.db.get(KEY) == b"v":
            assert world.db.pttl(KEY) > 0


FREE_OR_NOT = ["free", "nobody's", "mine", "wrong type", "unending"]


@each(state=FREE_OR_NOT, options=[options for n in range(3) for options in itertools.product(OPTIONS, repeat=n)])
def test_up_to_two_options_of_set_answer_as_redis(world, state, options):
    answers_as_redis(world, state, options)


@pytest.mark.nightly
@each(state=FREE_OR_NOT, options=list(itertools.product(OPTIONS, repeat=3)))
def test_three_options_of_set_answer_as_redis(world, state, options):
    answers_as_redis(world, state, options)


@each(state=["free", "nobody's", "mine", "wrong type"], resp=RESPS, argv=[
    ["SET"], ["SET", KEY], ["SETNX", KEY], ["SETNX", KEY, "a", "b"], ["SETEX", KEY, "10"],
    ["SETEX", KEY, "0", "v"], ["SETEX", KEY, "-5", "v"], ["SETEX", KEY, "x", "v"],
    ["SETEX", KEY, "9223372036854775807", "v"], ["PSETEX", KEY, "9223372036854775807", "v"],
    ["PSETEX", KEY, "0", "v"], ["SETEX", KEY, "1", "v", "w"], ["GETSET", KEY], ["INCR"],
    ["INCR", KEY, "1"], ["EXPIRE", KEY], ["EXPIRE", KEY, "x"], ["EXPIRE", KEY, "10", "FOO"],
    ["EXPIRE", KEY, "10", "NX", "XX"], ["EXPIRE", KEY, "10", "GT", "LT"],
    ["EXPIRE", KEY, "10", "NX", "LT"], ["EXPIRE", KEY, "9223372036854775807"],
    ["EXPIRE", KEY, "-9223372036854775808"], ["PEXPIRE", KEY, "9223372036854775807"],
    ["EXPIREAT", KEY, "9223372036854775807"], ["PEXPIREAT", KEY, "99999999999999999999"],
    ["EXPIRE", KEY, "1.5"], ["PERSIST", KEY, "1"], ["DEL"], ["UNLINK"], ["APPEND", KEY],
    ["GETEX", KEY, "EX"], ["GETEX", KEY, "EX", "0"], ["GETEX", KEY, "EX", "1", "PERSIST"],
    ["INCRBY", KEY, "x"], ["INCRBYFLOAT", KEY, "x"], ["SETRANGE", KEY, "-1", "x"],
    ["SETBIT", KEY, "x", "1"], ["MSET", KEY], ["MSET", KEY, "1", "x"], ["GETDEL", KEY, "x"],
    ["BITFIELD", KEY, "INCRBY"], ["RENAME", KEY], ["COPY", KEY], ["RESTORE", KEY, "0", "junk"],
    ["LPUSH", KEY], ["ZADD", KEY, "x", "y"], ["ZADD", KEY, "NX", "XX", "1", "y"],
    ["SORT", KEY, "STORE"], ["HSET", KEY, "a"], ["SPOP", KEY, "-1"], ["XADD", KEY, "1", "a", "b"],
    ["LMPOP", "x", KEY, "LEFT"], ["ZUNIONSTORE", KEY, "0", "a"], ["BITOP", "FOO", KEY, "a"],
])
def test_errors_are_redis_own(world, argv, state, resp):
    token = world.put(state)
    before = world.dump()
    reply = world.run(*argv, resp=resp, token=token)
    assert reply == world.plain(*argv, resp=resp)
    if reply.startswith(b"-"):
        assert world.dump() == before


# ---- tickets: how hasp confirms or undoes a take

UNDOABLE = {**TAKES, **{form: make for form, make in SETS.items() if "XX" not in form}}


def named(owner, value="v"):
    """Returns the kind of the lock, and the token of its owner."""
    return ("v", value) if owner == "value" else ("r", ME)


@each(form=UNDOABLE, state=["free", "left over"], owner=OWNERS)
def test_try_that_took_a_lock_is_undone_by_its_ticket(world, form, state, owner):
    token = world.put(state, owner=owner)
    world.run(*UNDOABLE[form][0](), owner=owner, token=token, ticket="w-1")
    before = world.dump()
    assert world.dequeue(*named(owner), "w-2", 0) == ["gone", 0, 0]
    assert world.poll(*named(owner), "w-2", 0)[0] == "gone"
    assert world.dump() == before
    assert world.poll(*named(owner), "w-1", 0)[0] == "granted"
    assert world.dequeue(*named(owner), "w-1", 0) == ["undone", 0, 0]
    assert not world.db.exists(KEY, FENCE)
    assert world.dequeue(*named(owner), "w-1", 0) == ["gone", 0, 0]


@each(form=[*TAKES, *SETS], owner=OWNERS)
def test_try_that_refreshed_a_lock_is_known_by_its_ticket_and_not_undone(world, form, owner):
    token, argv = world.put("mine", owner=owner), {**TAKES, **SETS}[form][0]()
    if owner == "value" and form in TAKES:
        argv[2] = "held"
    world.run(*argv, owner=owner, token=token, reentrant="refresh", ticket="w-1")
    kind, own = named(owner, world.db.get(KEY).decode())
    before = world.dump()
    assert world.dequeue(kind, own, "w-1", 0, value=own) == ["gone", 0, 0]
    assert world.poll(kind, own, "w-1", 0, value=own)[0] == "granted"
    assert world.dump() == before


def test_undoing_a_count_leaves_what_others_have_counted(world):
    world.run("INCR", KEY, ticket="w-1")
    assert world.run("INCR", KEY, token=OTHER, ticket="w-2") == b":2\r\n"
    assert world.dequeue("r", OTHER, "w-2", 0) == ["gone", 0, 0]
    assert world.dequeue("r", ME, "w-1", 0) == ["undone", 0, 0]
    world.assert_lock("1", LEASE, owner=None)
    assert world.db.keys() == [KEY.encode()]


@each(owner=OWNERS)
def test_late_undo_leaves_the_lock_that_another_has_taken_since(world, owner):
    """The undo names the first lock's ticket, so it leaves a later lock of the same owner alone."""
    world.run("SET", KEY, "v", "NX", owner=owner, ticket="w-1")
    world.run("DEL", KEY, owner=owner, token="v" if owner == "value" else ME)
    world.run("SET", KEY, "v", "NX", owner=owner, ticket="w-2")
    before = world.dump()
    assert world.dequeue(*named(owner), "w-1", 0) == ["gone", 0, 0]
    assert world.dump() == before


# ---- MSETNX

@each("owner, resp", OWNERS_RESPS, state=STATES)
def test_msetnx_takes_all_locks_or_none(world, state, owner, resp):
    token = world.put(state, owner=owner)
    argv = ["MSETNX", "b", "1", "lock:2", "w", KEY, "v"]
    before = world.dump()
    reply = world.run(*argv, resp=resp, owner=owner, token=token, ticket="w-1")
    assert reply == world.plain(*argv, resp=resp) == (b":0\r\n" if state in HELD else b":1\r\n")
    assert world.last.effect == "takes" and world.last.succeeded(reply) == (state not in HELD)
    if state in HELD:
        assert world.dump() == before
        return
    named_owner = None if owner == "value" else ME
    world.assert_lock("v", LEASE, owner=named_owner)
    world.assert_lock("w", LEASE, owner=named_owner, key="lock:2", side="hasp:owner:{lock:2}")
    assert (world.db.get("b"), world.db.pttl("b")) == (b"1", -1)
    assert world.dequeue(*named(owner), "w-2", 0) == ["gone", 0, 0]
    assert world.dequeue(*named(owner), "w-1", 0) == ["undone", 0, 0]
    assert not world.db.exists(KEY, FENCE) and world.db.exists("lock:2")


def test_msetnx_gives_a_key_that_it_names_twice_its_last_value(world):
    assert world.run("MSETNX", KEY, "v", KEY, "w") == b":1\r\n"
    world.assert_lock("w", LEASE)


@each(argv=[["MSETNX", KEY], ["MSETNX", KEY, "v", "b"]])
def test_msetnx_without_a_value_fails_as_redis(world, argv):
    assert world.run(*argv) == world.plain(*argv)
    assert world.last.passed and not world.db.keys()


# ---- INCR, and INCRBY by 1

COUNTS = [("INCR", KEY), ("INCRBY", KEY, "1")]


@each("owner, resp", OWNERS_RESPS, count=COUNTS)
def test_counting_to_one_takes_the_lock(world, owner, count, resp):
    token = world.put("free", owner=owner)
    reply = world.run(*count, owner=owner, token=token, resp=resp)
    assert reply == b":1\r\n"
    world.assert_lock("1", LEASE, owner=None if owner == "value" else ME)
    assert world.last.effect == ("counts" if owner == "value" else "takes")
    assert world.last.value == b"1" and world.last.succeeded(reply)


@each(count=COUNTS, token=[ME, OTHER], owner=["connection", "address"])
def test_counting_on_leaves_the_owner_and_the_expiry(world, token, count, owner):
    world.run(*count, lease=9000, owner=owner)
    for n in range(2, 12):
        assert world.run(*count, token=token, owner=owner) == b":%d\r\n" % n
        assert not world.last.succeeded(b":%d\r\n" % n)
        alone = token == ME and owner == "connection"
        world.assert_lock(n, 9000, note=None if alone else f"~1 {n}")
    assert world.run("DEL", KEY, token=OTHER, owner=owner) == b":0\r\n"
    assert world.run("DEL", KEY, token=ME, owner=owner) == b":1\r\n"


DOWN = [("DECR", KEY), ("DECRBY", KEY, 1), ("decrby", KEY, "1")]


@each(down=DOWN, owner=["connection", "address"])
def test_others_take_back_what_they_have_counted_and_no_more(world, down, owner):
    world.run("INCR", KEY, owner=owner)
    for _ in range(2):
        world.run("INCR", KEY, token=OTHER, owner=owner)
    before = world.dump()
    for refused in (["DECRBY", KEY, 3], ["DECRBY", KEY, 0], ["DECRBY", KEY, -1], ["INCRBY", KEY, -1],
                    ["INCRBY", KEY, 2], ["APPEND", KEY, 1]):
        assert world.run(*refused, token=OTHER, owner=owner) == locked(KEY)
    assert world.run("DECRBY", KEY, "x", token=OTHER, owner=owner) == locked(KEY)
    assert world.dump() == before
    assert world.run(*down, token=OTHER, owner=owner) == b":2\r\n"
    world.assert_lock("2", LEASE, note="~1 2")
    assert world.run(*down, token=OTHER, owner=owner) == b":1\r\n"
    world.assert_lock("1", LEASE)
    assert world.run(*down, token=OTHER, owner=owner) == locked(KEY)


@each(down=DOWN)
def test_owner_that_takes_back_all_of_its_counts_has_the_lock_no_more(world, down):
    world.run("INCR", KEY)
    world.run("INCR", KEY, token=OTHER)
    world.run("INCR", KEY)
    world.assert_lock("3", LEASE, note="~2 3")
    assert world.run(*down) == b":2\r\n"
    world.assert_lock("2", LEASE, note="~1 2")
    assert world.run(*down) == b":1\r\n"
    world.assert_lock("1", LEASE, owner=None)
    assert world.run(*down, token=OTHER) == b":0\r\n"
    world.assert_lock("0", LEASE, owner=None)


def test_connections_of_one_owner_take_back_what_the_others_added_first(world):
    """Scripts cannot tell the connections apart, so a DECR first undoes what others added."""
    for _ in range(2):
        world.run("INCR", KEY, owner="address")
    world.assert_lock("2", LEASE, note="~1 2")
    assert world.run("DECR", KEY, owner="address") == b":1\r\n"
    world.assert_lock("1", LEASE)
    assert world.run("DECR", KEY, owner="address") == b":0\r\n"
    world.assert_lock("0", LEASE, owner=None)


def test_owner_that_overwrites_what_others_have_counted_has_it_alone(world):
    for write in (["SET", KEY, 7], ["SETNX", KEY, 7], ["APPEND", KEY, "x"], ["GETSET", KEY, 7]):
        world.run("DEL", KEY)
        world.run("INCR", KEY)
        world.run("INCR", KEY, token=OTHER)
        world.run(*write, reentrant="refresh")
        world.assert_lock(world.db.get(KEY), LEASE)


def test_renewal_and_expiry_leave_what_others_have_counted(world):
    world.run("INCR", KEY, lease=9000)
    world.run("INCR", KEY, token=OTHER)
    assert world.renew(("r", KEY, ME, 20000, 0)) == [1]
    assert world.renew(("r", KEY, OTHER, 30000, 0)) == [-2]
    world.assert_lock("2", 20000, note="~1 2")
    assert world.run("EXPIRE", KEY, 12) == b":1\r\n"
    assert world.run("EXPIRE", KEY, 10, "GT") == b":0\r\n"
    world.assert_lock("2", 12000, note="~1 2")


@each(owner=["connection", "address"])
def test_releasing_takes_back_what_the_owner_has_counted(world, owner):
    world.run("INCR", KEY, owner=owner)
    world.run("INCR", KEY, token=OTHER, owner=owner)
    assert world.release("r", KEY, OTHER) == 0
    assert world.release("r", KEY, ME) == 1
    world.assert_lock("1", LEASE, owner=None)
    assert world.release("r", KEY, ME) == 0
    assert world.db.keys() == [KEY.encode()]


def test_counting_again_from_zero_takes_the_lock_anew(world):
    world.run("INCR", KEY, lease=9000)
    world.run("DECR", KEY)
    assert world.run("INCR", KEY, token=OTHER) == b":1\r\n"
    world.assert_lock("1", LEASE, owner=OTHER)


def test_a_count_past_hasp_makes_the_sidecar_stale_for_good(world):
    world.run("INCR", KEY)
    world.db.incr(KEY)
    note = world.db.get(SIDE)
    assert world.run("INCR", KEY) == b":3\r\n"
    assert world.db.get(SIDE) == note
    assert world.run("DEL", KEY, token=OTHER) == b":1\r\n"  # the lock counts as nobody's


@each(owner=OWNERS)
def test_a_count_without_an_end_gets_the_lease(world, owner):
    world.db.set(KEY, "5")
    assert world.run("INCR", KEY, owner=owner) == b":6\r\n"
    world.assert_lock("6", LEASE, owner=None)


def test_counting_by_more_takes_no_lock_and_is_the_owner_s_alone(world):
    assert world.run("INCRBY", KEY, "2") == b":2\r\n"
    world.assert_lock("2", LEASE, owner=None)
    world.db.delete(KEY)
    world.run("INCRBY", KEY, "1")
    assert world.run("INCRBY", KEY, "2", token=OTHER).startswith(b"-LOCKED ")


@each(count=COUNTS, state=STATES, resp=RESPS)
def test_incr_of_what_is_no_count_fails_as_redis(world, state, count, resp):
    token = world.put(state)
    before = world.dump()
    reply = world.run(*count, token=token, resp=resp)
    assert reply == world.plain(*count, resp=resp)
    if state in HELD:
        assert reply.startswith(b"-") and world.dump() == before
