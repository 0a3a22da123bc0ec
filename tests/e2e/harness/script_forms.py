# SPDX-License-Identifier: BSD-3-Clause
"""Commands on a key with a rule, in all forms, and the values that such a key may have."""

from .scripts import KEY, LEASE, at

# {name: (function that returns the command, lease in ms)}
TAKES = {
    "SETNX": (lambda: ["SETNX", KEY, "v"], LEASE),
    "setnx": (lambda: ["setnx", KEY, "v"], LEASE),
    "NX": (lambda: ["SET", KEY, "v", "NX"], LEASE),
    "nx px": (lambda: ["set", KEY, "v", "nx", "px", 7000], 7000),
    "PX NX": (lambda: ["SET", KEY, "v", "PX", 7000, "NX"], 7000),
    "EX NX": (lambda: ["SET", KEY, "v", "Ex", 7, "nX"], 7000),
    "EXAT NX": (lambda: ["SET", KEY, "v", "EXAT", at(60), "NX"], 60000),
    "NX PXAT": (lambda: ["SET", KEY, "v", "NX", "PXAT", at(60) * 1000], 60000),
    "NX KEEPTTL": (lambda: ["SET", KEY, "v", "NX", "KEEPTTL"], LEASE),
    "GET NX": (lambda: ["SET", KEY, "v", "GET", "NX"], LEASE),
    "NX GET EX": (lambda: ["SET", KEY, "v", "NX", "GET", "EX", 7], 7000),
    "EX twice": (lambda: ["SET", KEY, "v", "EX", 3, "NX", "EX", 7], 7000),
}

SETS = {
    "SET": (lambda: ["SET", KEY, "v"], LEASE),
    "set px": (lambda: ["set", KEY, "v", "px", 7000], 7000),
    "EX": (lambda: ["SET", KEY, "v", "EX", 7], 7000),
    "EXAT": (lambda: ["SET", KEY, "v", "EXAT", at(60)], 60000),
    "PXAT": (lambda: ["SET", KEY, "v", "PXAT", at(60) * 1000], 60000),
    "KEEPTTL": (lambda: ["SET", KEY, "v", "KEEPTTL"], 20000),
    "XX": (lambda: ["SET", KEY, "v", "XX"], LEASE),
    "PX XX": (lambda: ["SET", KEY, "v", "PX", 7000, "XX"], 7000),
    "XX KEEPTTL": (lambda: ["SET", KEY, "v", "XX", "KEEPTTL"], 20000),
    "GET": (lambda: ["SET", KEY, "v", "GET"], LEASE),
    "XX GET": (lambda: ["SET", KEY, "v", "XX", "GET", "EX", 7], 7000),
    "GET KEEPTTL": (lambda: ["SET", KEY, "v", "get", "keepttl"], 20000),
    "SETEX": (lambda: ["SETEX", KEY, 7, "v"], 7000),
    "psetex": (lambda: ["psetex", KEY, 7000, "v"], 7000),
    "GETSET": (lambda: ["GETSET", KEY, "v"], LEASE),
}

WRITES = [["APPEND", KEY, "x"], ["SETRANGE", KEY, 1, "xy"], ["SETBIT", KEY, 3, 1], ["GETDEL", KEY],
          ["GETEX", KEY], ["GETEX", KEY, "PERSIST"], ["GETEX", KEY, "EX", 100], ["INCRBY", KEY, 2],
          ["DECR", KEY], ["MSET", KEY, "new", "b", "1"],
          ["BITFIELD", KEY, "SET", "u8", 0, 65], ["RENAME", KEY, "b"], ["MOVE", KEY, 5],
          ["HSET", KEY, "f", "v"], ["LPUSH", KEY, "x"], ["ZPOPMIN", KEY], ["SADD", KEY, "x"],
          ["PFADD", KEY, "x"], ["SUNIONSTORE", KEY, "b"], ["BITOP", "NOT", KEY, "b"],
          ["COPY", "b", KEY, "REPLACE"], ["SORT", "b", "STORE", KEY]]


def all_commands():
    """Returns the commands above, and one for each other script."""
    return [*(make() for make, _ in [*TAKES.values(), *SETS.values()]), *WRITES,
            ["INCR", KEY], ["MSETNX", "b", "1", KEY, "new"], ["EXPIRE", KEY, 5], ["PERSIST", KEY], ["DEL", KEY, "b"]]


# {name: commands that create the value}
CONTENTS = {
    "nothing": [],
    "string": [("SET", KEY, 5)],
    "hash": [("HSET", KEY, "f", 1)],
    "list": [("RPUSH", KEY, "a", "b", "c")],
    "set": [("SADD", KEY, "a")],
    "zset": [("ZADD", KEY, 1.25, "m", 3, "n")],
    "hll": [("PFADD", KEY, "z")],
    "stream": [("XADD", KEY, "0-1", "f", "v"), ("XGROUP", "CREATE", KEY, "g", 0)],
}

VALUES = [b"", b" ", b"a b", b"\0", b"\r\n", bytes(range(256)), b"x" * 100000, b" lead", b"%d%s"]
