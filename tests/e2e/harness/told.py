# SPDX-License-Identifier: BSD-3-Clause
"""The replies to LOCK.INFO and LOCK.LIST as dicts, with None for nil, and numbers as int."""

# The first fields of LOCK.INFO's reply, which in a transaction are the only ones.
REDIS_TELLS = ("owner", "holds", "ttl", "fence", "waiters")


def told(connection, key, verb="LOCK.INFO"):
    """Returns LOCK.INFO's reply as a dict, or None if the lock is free."""
    frame = connection.call(verb, key)
    if frame in (b"*-1\r\n", b"$-1\r\n"):
        return None
    return _pairs(iter(frame.split(b"\r\n")))


def rows(frame):
    """Returns LOCK.LIST's reply as a list of dicts."""
    lines = iter(frame.split(b"\r\n"))
    return [_pairs(lines) for _ in range(int(next(lines)[1:]))]


def _pairs(lines):
    """Returns a flat array of names and values as a dict."""
    values = [_value(next(lines), lines) for _ in range(int(next(lines)[1:]))]
    return dict(zip(values[::2], values[1::2]))


def _value(line, lines):
    if line[:1] == b":":
        return int(line[1:])
    return None if line == b"$-1" else next(lines).decode()
