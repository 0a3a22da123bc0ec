# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the tests of guards: a guard's settings, its names in Redis, its answers."""

from .line import stand
from .replies import OK
from .resp import encode
from .sections import section
from .wait import until

KEY, GUARD, QUEUE = "stock:1", "hasp:guard:{stock:1}", "hasp:queue:hasp:guard:{stock:1}:"


def guard(**settings):
    """Returns a guard's section, with a lease and a wait longer than any test, unless the test sets
    them."""
    return section("guard stock", {"pattern": "stock:*", "acquire_on": "GET, HGETALL, MGET, ZSCORE, HGET",
                                   "lease": "60s", "wait": "20s", **settings})


def stands(plain, connection, *command, guard=GUARD):
    """Sends the command, and returns when its client is in the queue of the guard."""
    stand(plain, connection, *command, queue=f"hasp:queue:{guard}:")


def is_locked(reply, key=KEY):
    return reply == f"-LOCKED '{key}' is guarded by another owner\r\n".encode()


def is_lost(reply, key=KEY):
    return reply == (f"-LOCKLOST '{key}' was read under a guard that has ended: "
                     "nothing was written\r\n").encode()


def named(hasp, name):
    connection = hasp.connect()
    assert connection.call("CLIENT", "SETNAME", name) == OK
    return connection


def held(hasp, key=KEY, *read):
    connection = hasp.connect()
    connection.call(*(read or ("GET", key)))
    return connection


def transact(connection, *commands):
    """Returns the replies to MULTI, each command, and EXEC."""
    commands = [("MULTI",), *commands, ("EXEC",)]
    connection.send(b"".join(encode(*command) for command in commands))
    return [connection.read() for _ in commands]


def overtake(plain, key=KEY, value="other"):
    """Changes the key as if the guard's lease had ended and another client had written."""
    plain.delete(f"hasp:guard:{{{key}}}")
    plain.set(key, value)


def nothing_left(plain):
    """Waits until no key of hasp's is left, for less than a guard's lease."""
    until(lambda: plain.keys("hasp:*") == [], "all of hasp's keys to be gone")
