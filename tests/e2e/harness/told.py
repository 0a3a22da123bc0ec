# SPDX-License-Identifier: BSD-3-Clause
"""What LOCK.INFO tells, as a dict: None for nil, numbers as int."""

# Its first fields, which it tells in a transaction, too.
REDIS_TELLS = ("owner", "holds", "ttl", "fence", "waiters")


def told(connection, key, verb="LOCK.INFO"):
    """Of a RESP2 connection; None: the lock is free."""
    values = _values(connection.call(verb, key))
    return values and dict(zip(values[::2], values[1::2]))


def _values(frame):
    """Of a flat array."""
    lines = iter(frame.split(b"\r\n"))
    head = next(lines)
    if head in (b"*-1", b"$-1"):
        return None
    return [_value(next(lines), lines) for _ in range(int(head[1:]))]


def _value(line, lines):
    if line[:1] == b":":
        return int(line[1:])
    return None if line == b"$-1" else next(lines).decode()
