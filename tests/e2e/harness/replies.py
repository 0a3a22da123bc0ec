# SPDX-License-Identifier: BSD-3-Clause
"""Frames that Redis and hasp answer, as bytes."""

OK, PONG, QUEUED = b"+OK\r\n", b"+PONG\r\n", b"+QUEUED\r\n"
ONE, ZERO = b":1\r\n", b":0\r\n"
NIL, NIL3 = b"$-1\r\n", b"_\r\n"  # in RESP2 and RESP3
WRONGTYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
EXECABORT = b"-EXECABORT Transaction discarded because of previous errors.\r\n"
UNKNOWN = b"-ERR hasp: upstream "  # the beginning: the connection was lost with a reply due
FULL = b"-ERR max number of clients reached\r\n"


def bulk(text):
    data = text.encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)
