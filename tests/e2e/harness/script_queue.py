# SPDX-License-Identifier: BSD-3-Clause
"""Attempts of several owners at one lock, made by the scripts alone, and messages to workers."""

import hashlib

import pytest

from .resp import Connection, encode
from .scripts import KEY, LEASE, WORKER, parse

OTHERS = [f"10.0.0.{n}:4711/0/beef{n}" for n in range(3, 9)]
QUEUE = "hasp:queue:{lock:1}"
DEAF = "00000000000000dd"  # a worker that has not subscribed
SECOND = "00000000000000bb"  # another worker that subscribes
RULES = {"r": {"owner": "connection"}, "v": {"owner": "value"}}
LAYOUTS = {"h": "count", "s": "no", "l": "count"}

kinds = pytest.mark.parametrize("kind", "hsrvl")


class Workers:
    """Subscribes to the channels of these workers, and returns their messages in order."""

    def __init__(self, server, *numbers):
        self.c = Connection(server.unix)
        for number in numbers:
            self.c.call("SUBSCRIBE", f"hasp:worker:{number}")

    def told(self):
        """Returns [(ticket, fencing token or -)], the messages since the last call."""
        grants = []
        self.c.send(encode("PING", "all"))
        while (frame := parse(self.c.read()))[0] == "message":
            assert frame[1] == "hasp:worker:" + frame[2].split("-")[0]
            ticket, fence, *_ = frame[2].split(" ")
            grants.append((ticket, fence))
        return grants


@pytest.fixture
def workers(server):
    workers = Workers(server, WORKER, SECOND)
    yield workers
    workers.c.close()


def proof(what, text, key=KEY, secret="secret"):
    """Returns the signature that sign() makes in Lua."""
    return hashlib.sha1(f"{secret}{what} {len(key)} {key}{text}{secret}".encode()).hexdigest()


def entry(ticket, terms, woken=0, **signed):
    """Returns an entry of the queue; see hand_off.lua. `terms`: its words from the deadline on."""
    return f"{ticket} {proof('entry', f'{ticket} {terms}', **signed)} {woken} {terms}"


def value_of(token):
    """Returns the owner's value under a rule; with owner = value, it identifies the owner."""
    return f"value of {token}"


def ask(world, kind, token, wait=5000, key=KEY, lease=None, argv=None, **options):
    """Makes one attempt; `ticket` and `place` are options. Returns the parsed reply."""
    if kind in LAYOUTS:
        options.setdefault("layout", LAYOUTS[kind])
        args = (["PX", lease] if lease else []) + ["WAIT", wait] + (["LIMIT", 1] if kind == "l" else [])
        return parse(world.verb("LOCK", key, *args, token=token, may_wait=wait, **options))
    argv = argv or ["SET", key, value_of(token), "NX", *(["PX", lease] if lease else [])]
    return parse(world.run(*argv, token=token, wait=max(wait, 1), may_wait=wait, **RULES[kind],
                           **options))


def entry_value(kind, token):
    """Returns the value in the owner's entry of the queue."""
    return value_of(token) if kind in RULES else "1" if kind == "l" else ""


def shorten(world, kind, token, ms):
    """Makes the lease end in `ms`."""
    if kind == "l":
        seconds, micros = world.db.time()
        world.db.zadd(KEY, {token: seconds * 1000 + micros // 1000 + ms})
    for key in world.db.keys(f"*{KEY}*"):
        world.db.pexpire(key, ms)


def place_in(reply):
    """Returns the place in the reply `QUEUED place now held`."""
    word, place, now, _ = reply.split(" ")
    assert word == "QUEUED" and int(now) > 1e12
    return int(place)


def give_back(world, kind, token, key=KEY):
    if kind in LAYOUTS:
        return parse(world.verb("UNLOCK", key, layout=LAYOUTS[kind], token=token))
    identity = value_of(token) if kind == "v" else token
    return parse(world.run("DEL", key, token=identity, wait=1, **RULES[kind]))


def own_token(kind, token):
    """Returns the owner's token in hasp's tables."""
    return value_of(token) if kind == "v" else token


def assert_holder(world, kind, token, lease=LEASE, key=KEY):
    if kind == "h":
        assert world.db.hgetall(key) == {token.encode(): b"1"}
    elif kind == "l":
        assert world.db.zrange(key, 0, -1) == [token.encode()]
        assert world.db.zscore(key, token) == world.db.pexpiretime(key)
    else:
        assert world.db.get(key) == (token if kind == "s" else value_of(token)).encode()
    if kind == "r":
        assert world.db.get(f"hasp:owner:{{{key}}}") == f"{token} {value_of(token)}".encode()
        assert world.is_left(world.db.pttl(f"hasp:owner:{{{key}}}"), lease)
    assert world.is_left(world.db.pttl(key), lease)


def decoded(fields):
    return [(name.decode(), value.decode()) for name, value in fields.items()]


def assert_record(world, kind, token, ticket, key=KEY):
    if kind == "l":
        notes = world.db.hgetall(f"hasp:fence:{{{key}}}")
        (owner, fence, first), = [f"{owner} {note}".split(" ") for owner, note in decoded(notes)]
    else:
        owner, fence, first = world.db.get(f"hasp:fence:{{{key}}}").decode().split(" ")
    assert (owner, first) == ("-" if kind == "v" else token, ticket)
    assert fence == ("-" if kind in RULES else str(world.fence()))
    world.assert_end_together(key, f"hasp:fence:{{{key}}}")


def assert_joined(world, *tickets, key=KEY):
    """Checks that the attempts with these tickets share their owner's lock and its last token."""
    side, fence = f"hasp:owner:{{{key}}}", world.fence()
    assert world.db.zrange(side, 0, -1) == [f"{fence} {ticket}".encode() for ticket in tickets]
    assert 59000 < world.db.pexpiretime(side) - world.db.pexpiretime(key) < 61000


def assert_nothing_left(world):
    """Checks that no key but the fence counter is left."""
    assert set(world.db.keys()) <= {b"hasp:fence"}


def until_redis_time(world, ms):
    """Waits until Redis' clock has passed `ms`, a date in milliseconds."""
    while (lambda t: t[0] * 1000 + t[1] // 1000)(world.db.time()) <= ms:
        pass


def expire_now(world, key=KEY):
    """Ends the holder's lease: deletes its keys, and runs no script."""
    world.db.delete(key, f"hasp:owner:{{{key}}}", f"hasp:fence:{{{key}}}")
