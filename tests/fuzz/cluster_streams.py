# SPDX-License-Identifier: BSD-3-Clause
"""Random streams for a Redis Cluster behind hasp, which must answer as a single Redis does.

All keys get the same tag, so they are in one slot. Only in streams of the kind `anywhere`, MGET, MSET,
DEL, UNLINK, EXISTS, TOUCH and commands of one key take keys of all slots.

These streams leave out what hasp answers in another way in front of a cluster:

    HELLO               names the mode, cluster: the comparison replaces that by a single Redis' mode
    another database    SELECT, SWAPDB, MOVE: a cluster has only one
    MONITOR, CLIENT TRACKING, and replies of CONFIG, DEBUG, INFO, ROLE, MEMORY, WAIT: about one node
    AUTH and users      streams of the kind `login` need a server with a password
    SYNC, PSYNC         a whole cluster cannot feed a replica
    scripts             those that touch keys which they do not name
    the kind `jumble`   to a subscriber, hasp names a refused command without its subcommand
    in MULTI            commands for all nodes (DBSIZE, FLUSHALL, SCRIPT ...), SUBSCRIBE, CLIENT REPLY,
                        SELECT, HELLO, AUTH, CLUSTER: hasp refuses these

what depends on the hash seed of a server:

    PSUBSCRIBE          of several patterns that match one channel: messages come in any order
    UNSUBSCRIBE and the like without names: acknowledgements come in any order
    hashes              with values over 64 bytes: fields come in any order

and what differs with three primaries:

    PUBLISH, PUBSUB     count the subscribers at one node
    keyspace events     come from the node that the client listens at
    SCAN, KEYS          return the keys of one node after the other
    RANDOMKEY           chooses a node first
    EVALSHA, SCRIPT EXISTS  depend on which node has cached the script of an EVAL
"""

from stream_commands import encode, to_bytes
from streams import Generator

TAG = b"{t}"
LITERALS = {b"%s%d" % (kind, n) for kind in (b"s", b"h", b"l", b"z", b"x", b"e") for n in (0, 1)}
LITERALS |= {b"p0", b"geo", b"missing", b"none", b"r", b"lx"}

ALWAYS_OUT = {b"SELECT", b"SWAPDB", b"MOVE", b"MONITOR", b"CONFIG", b"DEBUG", b"ROLE", b"MEMORY", b"WAIT", b"INFO",
              b"READONLY", b"ASKING", b"FAILOVER", b"REPLCONF", b"LATENCY", b"MODULE", b"LOLWUT"}
OUT_OF_THREE = {b"PUBLISH", b"PUBSUB", b"SCAN", b"KEYS", b"RANDOMKEY", b"SPUBLISH", b"EVALSHA",
                b"EVALSHA_RO"}
NOT_IN_MULTI = {b"DBSIZE", b"KEYS", b"SCAN", b"FLUSHALL", b"FLUSHDB", b"SCRIPT", b"FUNCTION", b"RANDOMKEY", b"SUBSCRIBE",
                b"PSUBSCRIBE", b"SSUBSCRIBE", b"HELLO", b"AUTH", b"RESET", b"CLIENT", b"ACL", b"CLUSTER"}
UNSUBSCRIBING = {b"UNSUBSCRIBE", b"PUNSUBSCRIBE", b"SUNSUBSCRIBE"}
# Of CLIENT, too: what is tracked, and how.
OUT_OF_CLIENT = {b"TRACKING", b"CACHING", b"GETREDIR", b"TRACKINGINFO", b"KILL", b"UNBLOCK"}


class ClusterGenerator(Generator):
    """Makes streams that a cluster of this many primaries can answer."""

    KINDS = tuple((kind, weight) for kind, weight in Generator.KINDS
                  if kind not in ("login", "tracking", "monitor", "jumble")) + (("anywhere", 30),)

    def __init__(self, seed, index, kinds=None, primaries=1):
        super().__init__(seed, index, kinds)
        self.prefix = TAG.decode() + self.prefix
        self.primaries = primaries
        self.inside = False  # the generator makes the commands of a MULTI
        self.short = False   # values must be short: they are fields of a hash
        if primaries > 1:
            self.kinds = [(kind, weight) for kind, weight in self.kinds if kind != "pubsub"] or self.kinds

    def key(self, types="shlzxe"):
        return TAG + to_bytes(super().key(types))

    def send(self, conn, *atoms, mode=None):
        if not self.inside:
            atoms = [atom for atom in atoms if atom != encode([b"MULTI"])]
        super().send(conn, *(atom if isinstance(atom, bytes) else self.fit(atom) for atom in atoms), mode=mode)

    def transaction(self):
        self.inside = True
        super().transaction()
        self.inside = False

    def hashes(self):
        self.short = True
        command = super().hashes()
        self.short = False
        return command

    def value(self):
        return super().value()[:60] if self.short else super().value()

    def fit(self, args):
        """Returns the command with its keys tagged, or another command if a cluster cannot answer
        it."""
        words = [to_bytes(arg) for arg in args]
        name = words[0].upper()
        if name in NOT_IN_MULTI if self.inside else name == b"MULTI":
            return (b"ECHO", b"left out")
        out = ALWAYS_OUT | (OUT_OF_THREE if self.primaries > 1 else set())
        if self.primaries > 1 and [word.upper() for word in words[:2]] == [b"SCRIPT", b"EXISTS"]:
            return (b"ECHO", b"left out")
        if name in out or (name == b"CLIENT" and len(words) > 1 and words[1].upper() in OUT_OF_CLIENT):
            return (b"ECHO", b"left out")
        if name in UNSUBSCRIBING and len(words) == 1:
            return (b"ECHO", b"left out")
        if name == b"PSUBSCRIBE":
            return (name, words[1] if words[1].startswith(b"__") else self.prefix.encode() + b"*")
        if any(b"redis.call('get','s0')" in word for word in words):
            return (b"ECHO", b"left out")
        return tuple(TAG + word if word in LITERALS else word for word in words)

    def anywhere(self):
        """Uses keys of all slots: hasp splits commands on several keys, and merges the replies."""
        self.hello()

        def key():
            return f"{self.pick('s', 's', 's', 'l', 'h')}:{self.rng.randrange(12)}"

        def keys():
            return [key() for _ in range(self.pick(1, 2, 3, 10, 40))]

        def pairs():
            return [word for k in keys() for word in (k, self.value())]

        def atom():
            return self.case(self.pick(
                ("MGET", *keys()), ("MGET", *keys()), ("MSET", *pairs()), ("DEL", *keys()), ("UNLINK", *keys()),
                ("EXISTS", *keys()), ("TOUCH", *keys()), ("SET", key(), self.value()), ("GET", key()),
                ("INCR", key()), ("APPEND", key(), self.value()), ("LPUSH", "l:1", self.value()), ("HSET", "h:2", "f", "v"),
                ("STRLEN", key()), ("TYPE", key()), ("DBSIZE",), ("PING",), ("ECHO", self.value()), ("MSET", key()),
                ("MGET",), ("DEL",), ("MSET", key(), 1, key()), ("LRANGE", "l:1", 0, -1), ("NOSUCH", key())))

        for _ in range(self.rng.randint(1, 5)):
            self.send("a", *self.some(atom, 1, self.pick(3, 10, 40)))
            if self.rng.random() < 0.5:
                self.sync()
        if self.rng.random() < 0.1:
            self.send("a", ("FLUSHALL",), ("DBSIZE",), ("SET", key(), "v"), ("DBSIZE",))
