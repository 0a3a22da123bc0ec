# SPDX-License-Identifier: BSD-3-Clause
"""Replies of Redis and hasp, as bytes."""

import re

OK, PONG, QUEUED = b"+OK\r\n", b"+PONG\r\n", b"+QUEUED\r\n"
ONE, ZERO = b":1\r\n", b":0\r\n"
NIL, NIL3 = b"$-1\r\n", b"_\r\n"  # in RESP2 and RESP3
WRONGTYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
CROSSSLOT = b"-CROSSSLOT Keys in request don't hash to the same slot\r\n"
EXECABORT = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
# Begins the error for a lost connection, when the outcome of a command is unknown.
UNKNOWN = b"-ERR hasp: upstream "
NOREPLICAS = b"-NOREPLICAS Not enough good replicas to write.\r\n"
FULL = b"-ERR max number of clients reached\r\n"


class Fence:
    """Equal to any fencing token: Redis' clock in microseconds, or more."""

    def __eq__(self, frame):
        return isinstance(frame, bytes) and re.fullmatch(rb":1[0-9]{15}\r\n", frame) is not None

    __hash__ = None

    def __repr__(self):
        return "FENCE"


FENCE = Fence()
TAKEN = (OK, ONE, FENCE)  # the replies by which any command reports that it took a lock


def bulk(value):
    """Returns `value` (bytes, text or a number) as a bulk string."""
    data = value if isinstance(value, bytes) else str(value).encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)


def fence(reply):
    """Returns the fencing token in LOCK's reply."""
    assert reply[:1] == b":", reply
    return int(reply[1:])
