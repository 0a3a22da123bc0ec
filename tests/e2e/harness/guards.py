# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of guards share: a guard's settings, its names in Redis, its answers."""

import signal

from .line import stand
from .resp import encode
from .wait import until

KEY, GUARD, QUEUE = "stock:1", "hasp:guard:{stock:1}", "hasp:queue:hasp:guard:{stock:1}:"
OK, ONE, ZERO, NIL, QUEUED = b"+OK\r\n", b":1\r\n", b":0\r\n", b"$-1\r\n", b"+QUEUED\r\n"
WRONGTYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"


def guard(**settings):
    settings = {"pattern": "stock:*", "acquire_on": "GET, HGETALL, MGET, ZSCORE, HGET", **settings}
    return "\n".join(["[guard stock]", *(f"{option} = {value}" for option, value in settings.items()), ""])


def bulk(text):
    return f"${len(text)}\r\n{text}\r\n".encode()


def stands(plain, connection, *command, guard=GUARD):
    """Sends it, and returns when it stands in line for the guard."""
    stand(plain, connection, *command, queue=f"hasp:queue:{guard}:")


def is_locked(reply, key=KEY):
    return reply == f"-LOCKED '{key}' is guarded by another owner\r\n".encode()


def is_lost(reply, key=KEY):
    return reply == (f"-LOCKLOST '{key}' was read under a guard that is over: "
                     "nothing was written\r\n").encode()


def held(hasp, key=KEY, *read):
    connection = hasp.connect()
    connection.call(*(read or ("GET", key)))
    return connection


def transact(connection, *commands):
    """The replies: of MULTI, of each command, of EXEC."""
    commands = [("MULTI",), *commands, ("EXEC",)]
    connection.send(b"".join(encode(*command) for command in commands))
    return [connection.read() for _ in commands]


def overtake(plain, key=KEY, value="other"):
    """The lease ends, and another one has read and written the key."""
    plain.delete(f"hasp:guard:{{{key}}}")
    plain.set(key, value)


def nothing_left(plain, timeout=4):
    """No guard, no line and no reader is left behind: sooner than a guard's lease of 5 s would end."""
    until(lambda: plain.keys("hasp:*") == [], "nothing to be left behind", timeout=timeout)


def reload(hasp, old, new):
    """Edits hasp's file, and returns when it is in force."""
    before, text = hasp.log.count("reloaded"), hasp.config_file.read_text()
    assert old in text
    hasp.configure(text.replace(old, new))
    hasp.signal(signal.SIGHUP)
    until(lambda: hasp.log.count("reloaded") > before, "the reload")
    hasp.take_turn()
