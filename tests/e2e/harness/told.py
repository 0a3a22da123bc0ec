# SPDX-License-Identifier: BSD-3-Clause
"""What LOCK.INFO and LOCK.LIST tell, as dicts: None for nil, numbers as int."""

# The first fields of LOCK.INFO, which it tells in a transaction, too.
REDIS_TELLS = ("owner", "holds", "ttl", "fence", "waiters")


def told(connection, key, verb="LOCK.INFO"):
    """Of a RESP2 connection; None: the lock is free."""
    frame = connection.call(verb, key)
    if frame in (b"*-1\r\n", b"$-1\r\n"):
        return None
    return _pairs(iter(frame.split(b"\r\n")))


def rows(frame):
    """Of LOCK.LIST, in RESP2."""
    lines = iter(frame.split(b"\r\n"))
    return [_pairs(lines) for _ in range(int(next(lines)[1:]))]


def _pairs(lines):
    """Of a flat array."""
    values = [_value(next(lines), lines) for _ in range(int(next(lines)[1:]))]
    return dict(zip(values[::2], values[1::2]))


def _value(line, lines):
    if line[:1] == b":":
        return int(line[1:])
    return None if line == b"$-1" else next(lines).decode()
