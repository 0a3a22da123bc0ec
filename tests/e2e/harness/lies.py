# SPDX-License-Identifier: BSD-3-Clause
"""ANSWERS: malformed or wrong replies of a server that claims to be a sentinel or a node."""


def bulks(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def naming(host, port):
    """Returns the answers of a sentinel that knows of no failover and no other sentinels."""
    return bulks(str(host).encode(), str(port).encode()) + b"*0\r\n" * 2


ANSWERS = [
    b"\0\xff no RESP", b"+OK\r\n" * 3, b"-ERR\r\n" * 3, b"*-1\r\n" * 3, b"*-7\r\n", b"$99999999999999999999\r\n",
    b"*1000000000\r\n", b"*1\r\n" * 10_000, b"*2\r\n$-1\r\n:1\r\n" * 3, b"$400000000\r\n",
    naming("", 6379), naming("127.0.0.1", 0), naming("127.0.0.1", 99999), naming("127.0.0.1", "6379x"),
    naming("x" * 5000, 1), naming("a b\r\n", 1), naming("\0", 1),
    bulks(b"127.0.0.1") * 3, bulks(b"127.0.0.1", b"1", b"2") * 3,
]
