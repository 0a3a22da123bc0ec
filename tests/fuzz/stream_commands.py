# SPDX-License-Identifier: BSD-3-Clause
"""Random commands of all kinds, valid and not, for random streams."""


def encode(args):
    out = [b"*%d\r\n" % len(args)]
    for arg in args:
        out.append(b"$%d\r\n%s\r\n" % (len(arg), arg))
    return b"".join(out)


def to_bytes(arg):
    return arg if isinstance(arg, bytes) else str(arg).encode()


class Commands:
    """Draws commands from `rng`; channels begin with `prefix`."""

    def __init__(self, rng, prefix):
        self.rng, self.prefix = rng, prefix

    def pick(self, *choices):
        return self.rng.choice(choices)

    def some(self, make, low, high):
        return [make() for _ in range(self.rng.randint(low, high))]

    def case(self, args):
        """Names of commands may be written in any case."""
        if self.rng.random() < 0.2:
            name = to_bytes(args[0])
            args = (bytes(self.rng.choice((c, ord(chr(c).swapcase()))) if chr(c).isalpha()
                          and c < 128 else c for c in name), *args[1:])
        return args

    # --- arguments

    def binary(self, size):
        return self.rng.randbytes(size)

    def value(self):
        return self.pick(b"", b"v", b"1", b"-17", b"3.25", b"hello world", b"a\r\nb",
                         b"\x00\x01\xff", b"$3\r\nabc\r\n", b"*1\r\n$4\r\nPING\r\n",
                         b'"', b"'", b"\n", b"+OK\r\n", self.binary(self.rng.randint(1, 40)),
                         b"x" * self.rng.randint(1, 3000))

    def number(self):
        return self.pick(0, 1, 2, -1, 7, 100, "x", "1.5", 9223372036854775807, "", "-0")

    def key(self, types="shlzxe"):
        if self.rng.random() < 0.12:
            return self.pick(b"", b"\x00\r\n\xff", b"k\r\nk", b"{t}k", b"hasp", b"k" * 200)
        if self.rng.random() < 0.1:
            types = "shlzxe"
        return self.rng.choice(types) + self.pick("0", "1")

    def field(self):
        return self.pick("f", "g", "h", b"", b"\r\n", "1", "2")

    def member(self):
        return self.pick("1", "2", "3", "40", "500")  # an intset has an order

    # --- commands

    def command(self):
        roll = self.rng.random()
        if roll < 0.07:
            return self.invalid()
        if roll < 0.12:
            return self.harmless()
        return self.case(self.pick(self.strings, self.strings, self.lists, self.hashes,
                                   self.sets, self.zsets, self.streams, self.keys)())

    def strings(self):
        k, v, r = self.key("s"), self.value(), self.rng
        return self.pick(
            ("SET", k, v), ("SET", k, v), ("GET", k), ("GET", k), ("SETNX", k, v),
            ("SET", k, v, self.pick("NX", "XX", "GET", "KEEPTTL", "nx", "BAD")),
            ("SET", k, v, "EX", self.pick(10000, 0, -1, "x")), ("SET", k, v, "px", 10000000, "nx"),
            ("SET", k, v, "NX", "GET"), ("SET", k, v, "EX", 10, "PX", 10),
            ("SETEX", k, 10000, v), ("PSETEX", k, 10000000, v), ("GETSET", k, v), ("GETDEL", k),
            ("GETEX", k, "PERSIST"), ("GETEX", k, "EX", 9999), ("APPEND", k, v), ("STRLEN", k),
            ("INCR", k), ("DECR", k), ("INCRBY", k, self.number()), ("INCRBYFLOAT", k, "0.5"),
            ("GETRANGE", k, r.randint(-5, 5), r.randint(-5, 50)), ("SETRANGE", k, 5, v),
            ("SETBIT", k, r.randint(0, 300), self.pick(0, 1, 2)), ("GETBIT", k, 7),
            ("BITCOUNT", k), ("BITOP", "XOR", self.key("s"), k, self.key("s")), ("BITPOS", k, 1),
            ("MGET", k, self.key(), "missing"), ("MSET", k, v, self.key("s"), self.value()),
            ("MSETNX", k, v, self.key("s"), self.value()), ("LCS", self.key("s"), self.key("s")),
            ("PFADD", "p0", v), ("PFCOUNT", "p0"), ("BITFIELD", k, "INCRBY", "u8", 0, 250),
            ("SUBSTR", k, 0, 3))

    def lists(self):
        k, v = self.key("l"), self.value()
        return self.pick(
            ("RPUSH", k, v), ("RPUSH", k, v, self.value(), self.value()), ("LPUSH", k, v),
            ("LPUSHX", k, v), ("LPOP", k), ("RPOP", k, 2), ("LRANGE", k, 0, -1), ("LLEN", k),
            ("LINDEX", k, self.rng.randint(-2, 3)), ("LSET", k, 0, v), ("LREM", k, 0, v),
            ("LINSERT", k, "BEFORE", v, "new"), ("LTRIM", k, 0, 10), ("LPOS", k, v),
            ("RPOPLPUSH", k, self.key("l")), ("LMOVE", k, self.key("l"), "LEFT", "RIGHT"),
            ("LMPOP", 2, k, self.key("l"), "LEFT", "COUNT", 2))

    def hashes(self):
        k, f, v = self.key("h"), self.field(), self.value()
        return self.pick(
            ("HSET", k, f, v), ("HSET", k, f, v, self.field(), self.value()), ("HGET", k, f),
            ("HGETALL", k), ("HDEL", k, f), ("HLEN", k), ("HEXISTS", k, f), ("HSETNX", k, f, v),
            ("HMGET", k, f, self.field()), ("HINCRBY", k, f, self.number()), ("HKEYS", k),
            ("HINCRBYFLOAT", k, f, "1.5"), ("HSTRLEN", k, f), ("HSCAN", k, 0), ("HVALS", k),
            ("HMSET", k, f, v))

    def sets(self):
        k, m = self.key("e"), self.member()
        return self.pick(
            ("SADD", k, m), ("SADD", k, m, self.member()), ("SREM", k, m), ("SISMEMBER", k, m),
            ("SMEMBERS", k), ("SCARD", k), ("SINTER", k, self.key("e")),
            ("SMISMEMBER", k, m, "9"), ("SINTERCARD", 2, k, self.key("e")),
            ("SUNIONSTORE", self.key("e"), k, self.key("e")), ("SMOVE", k, self.key("e"), m),
            ("SSCAN", k, 0))

    def zsets(self):
        k, m, n = self.key("z"), self.member(), self.rng.randint(-5, 5)
        return self.pick(
            ("ZADD", k, n, m), ("ZADD", k, "1.5", m, "inf", self.member()), ("ZREM", k, m),
            ("ZADD", k, "NX", "CH", n, m), ("ZADD", k, "XX", "INCR", n, m), ("ZSCORE", k, m),
            ("ZRANGE", k, 0, -1, "WITHSCORES"), ("ZRANGE", k, "-inf", "+inf", "BYSCORE"),
            ("ZINCRBY", k, "0.1", m), ("ZRANK", k, m), ("ZCARD", k), ("ZPOPMIN", k),
            ("ZPOPMAX", k, 2), ("ZMSCORE", k, m, "nobody"), ("ZCOUNT", k, "(1", 5),
            ("ZUNION", 2, k, self.key("z"), "WITHSCORES"), ("ZDIFF", 2, k, self.key("z")),
            ("ZRANGESTORE", self.key("z"), k, 0, -1), ("ZADD", k, "bad", m),
            ("GEOADD", "geo", "13.361389", "38.115556", "Palermo"),
            ("GEOPOS", "geo", "Palermo", "nowhere"))

    def streams(self):
        k, i = self.key("x"), f"{self.rng.randint(0, 9)}-{self.rng.randint(0, 9)}"
        return self.pick(
            ("XADD", k, i, self.field(), self.value()), ("XRANGE", k, "-", "+"), ("XLEN", k),
            ("XADD", k, "MAXLEN", 3, i, "f", "v"), ("XREAD", "COUNT", 2, "STREAMS", k, 0),
            ("XGROUP", "CREATE", k, "grp", 0, "MKSTREAM"), ("XDEL", k, i),
            ("XREADGROUP", "GROUP", "grp", "me", "STREAMS", k, ">"), ("XACK", k, "grp", i),
            ("XTRIM", k, "MAXLEN", 2), ("XREVRANGE", k, "+", "-", "COUNT", 1),
            ("XPENDING", k, "grp"), ("XGROUP", "DESTROY", k, "grp"))

    def keys(self):
        k = self.key()
        return self.pick(
            ("DEL", k), ("DEL", k, self.key(), self.key()), ("UNLINK", k), ("EXISTS", k, k),
            ("TYPE", k), ("EXPIRE", k, self.pick(10000, -1, "x")), ("PERSIST", k), ("TTL", "none"),
            ("PEXPIREAT", k, 99999999999999), ("EXPIREAT", k, 9999999999, "NX"),
            ("RENAME", k, self.key()), ("RENAMENX", k, self.key()), ("COPY", k, self.key()),
            ("TOUCH", k), ("KEYS", "s0"), ("DBSIZE",), ("SCAN", 0, "MATCH", "s0", "COUNT", 1000),
            ("OBJECT", "ENCODING", k), ("OBJECT", "REFCOUNT", k), ("OBJECT", "HELP"),
            ("SORT", k, "ALPHA"), ("SORT", k, "LIMIT", 0, 2, "STORE", self.key("l")),
            ("MEMORY", "USAGE", "missing"), ("DUMP", "missing"), ("MOVE", k, 1), ("SWAPDB", 2, 3),
            ("RESTORE", "r", 0, self.value()), ("FLUSHDB",))

    def harmless(self):
        return self.pick(
            ("PING",), ("PING", self.value()), ("ECHO", self.value()), ("SELECT", self.pick(0, 1)),
            ("COMMAND", "COUNT"), ("COMMAND", "INFO", "get", "nosuch", "SET"),
            ("COMMAND", "GETKEYS", "MSET", "a", 1, "b", 2), ("CONFIG", "GET", "maxmemory"),
            ("CLIENT", "GETNAME"), ("CLIENT", "SETNAME", "n1"), ("CLIENT", "SETINFO", "lib", "x"),
            ("ACL", "WHOAMI"), ("ACL", "CAT", "nosuch"), ("WAIT", 0, 10), ("LOLWUT", "VERSION", 9),
            ("CLIENT", "NO-EVICT", "on"), ("CLUSTER", "INFO"), ("READONLY",), ("ASKING",),
            ("FAILOVER", "ABORT"), ("CLIENT", "UNBLOCK", 0), ("OBJECT", "FREQ", "s0"),
            ("MODULE", "LIST"), ("PUBSUB", "CHANNELS", self.prefix + "*"), ("LATENCY", "HELP"),
            ("CLIENT", "KILL", "USER", "nobody"), ("CLIENT", "GETREDIR"), ("DEBUG", "HELP"),
            ("REPLCONF", "nonsense"), ("CLIENT", "TRACKINGINFO"), ("ROLE",))

    def invalid(self):
        return self.pick(
            ("NOSUCH",), ("NOSUCH", self.value(), self.value()), ("",), (b"\x00",), (b"a\r\nb", "c"),
            ("x" * 200, "y" * 200), ("GET",), ("GET", "a", "b"), ("SET", "a"), ("PING", "a", "b"),
            ("MSET", "a"), ("CLIENT",), ("CLIENT", "NOSUCH"), ("OBJECT",), ("CONFIG", "NOSUCH", "x"),
            ("SELECT", "x"), ("SELECT", 99), ("HELLO", "x"), ("BLPOP", "l0"), ("EXEC",), ("DISCARD",),
            ("EVAL", "return 1"), ("SUBSCRIBE",), ("LOCKS", "k"), ("UNLOCKED", "k"), ("LOC", "k"),
            ("GETX", b"\xff\xfe"), ("HMSET", "h0", "f"), ("ZADD", "z0", "1"), ("get|set",),
            ("config|get", "x"), ("XADD", "x0", "bad", "f", "v"), ("DEBUG", "NOSUCH"))
