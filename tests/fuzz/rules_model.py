# SPDX-License-Identifier: BSD-3-Clause
"""A model of hasp's replies, and of the keys it leaves in Redis, under rules and guards: the table of
hasp-locks(7), and hasp-guards(7), in Python.

The model decides about a command, and runs the permitted part on a Redis of its own. So replies and
values are Redis' own, and only ownership, leases and refusals are modelled. No client waits, and no
lease ends by itself: the stream says when a guard is lost.
"""

from dataclasses import dataclass

LEASE = 100_000


@dataclass(frozen=True)
class Rule:
    owner: str = "connection"
    refresh: bool = False   # reentrant = refresh
    foreign: bool = False   # foreign_del = allow
    max_lease: int = 10**12

    def section(self, prefix):
        settings = {"pattern": f"{prefix}:*", "owner": self.owner, "lease": f"{LEASE}ms",
                    "reentrant": "refresh" if self.refresh else "no",
                    "foreign_del": "allow" if self.foreign else "refuse"}
        if self.max_lease < 10**12:
            settings["max_lease"] = f"{self.max_lease}ms"
        return "\n".join([f"[lock {prefix}]", *(f"{k} = {v}" for k, v in settings.items()), ""])


RULES = {
    "c": Rule(), "r": Rule(refresh=True), "n": Rule(owner="name"), "m": Rule(max_lease=150_000),
    "v": Rule(owner="value"), "w": Rule(owner="value", foreign=True), "q": Rule(owner="value", refresh=True),
}
GUARDED = "g"
ACQUIRES = ("GET", "MGET", "HGETALL")
GUARD = f"""
[guard {GUARDED}]
pattern = {GUARDED}:*
acquire_on = {" ".join(ACQUIRES)}
wait = 0
lease = {LEASE}ms
"""
SECTIONS = "\n".join(rule.section(prefix) for prefix, rule in RULES.items()) + GUARD

NIL, OK, ZERO, ONE, ANY = b"$-1\r\n", b"+OK\r\n", b":0\r\n", b":1\r\n", object()
# Where the keys of a command are; and which it writes.
ALL, FIRST, LAST = "all", "first", "last"
KEYS = {"DEL": ALL, "UNLINK": ALL, "MGET": ALL, "EXISTS": ALL, "RENAME": ALL, "RENAMENX": ALL, "COPY": LAST,
        "SUNIONSTORE": FIRST, "WATCH": ALL, "BITOP": FIRST}
READS = {"GET", "MGET", "EXISTS", "STRLEN", "TYPE", "LRANGE", "SMEMBERS", "HGETALL"}
# No script can keep their replies, and they change no string.
PASSED = {"LPOP", "HINCRBY"}
# hasp wraps them into a transaction of its own, on guarded keys.
WRAPPED = {"INCR", "INCRBY", "DECR", "DECRBY", "LPOP", "HINCRBY", "EVAL"}
EXPIRES = {"EXPIRE": 1000, "PEXPIRE": 1}
COUNTS = {"INCRBY", "DECR", "DECRBY"}


def places(argv):
    """Returns the indices of the keys."""
    name = argv[0]
    if name in ("MSET", "MSETNX"):
        return range(1, len(argv), 2)
    if name == "BITOP":
        return range(2, len(argv))
    if name == "EVAL":
        return range(3, 3 + int(argv[2]))
    if name in ("RENAME", "RENAMENX", "COPY"):
        return (1, 2)
    return range(1, len(argv)) if name in KEYS else (1,)


def written(argv):
    """Returns the keys that the command writes."""
    keys = [argv[i] for i in places(argv)]
    return {FIRST: keys[:1], LAST: keys[-1:], ALL: keys}[KEYS.get(argv[0], ALL)]


def bulk(value):
    return b"$%d\r\n%s\r\n" % (len(value), value) if value is not None else NIL


def integer(reply):
    return int(reply[1:])


class Client:
    def __init__(self, number, name, generation=0):
        self.id, self.name = ("connection", number, generation), name
        self.stored, self.seen = {}, {}  # of rules with owner = value: key -> value
        self.reads = {}       # of guarded keys: key -> "good" or "lost"
        self.queue = None     # of MULTI: (command, what it knew of values)
        self.watched = set()

    def knows(self):
        return dict(self.stored), dict(self.seen)


class Model:
    """`connect()` opens a connection to the model's Redis."""

    def __init__(self, connect, names):
        self.connect = connect
        self.plain = connect()
        self.plain.call("FLUSHALL")
        self.clients = [Client(i, name) for i, name in enumerate(names)]
        self.watchers = [None] * len(names)  # a connection for each client that has sent WATCH
        self.owners = {}   # sidecars: key -> (owner, value)
        self.own = {}      # of these, counters that others have counted on: key -> what the owner added
        self.holders = {}  # guards: key -> client's id

    def close(self):
        for connection in [self.plain, *filter(None, self.watchers)]:
            connection.close()

    def raw(self, *argv):
        return self.plain.call(*argv)

    def string(self, key):
        reply = self.raw("GET", key)
        return None if reply.startswith(b"-") or reply == NIL else reply.split(b"\r\n", 1)[1][:-2]

    def exists(self, key):
        return self.raw("EXISTS", key) == ONE

    @staticmethod
    def rule(key):
        return RULES.get(key.partition(":")[0])

    @staticmethod
    def is_guarded(key):
        return key.startswith(GUARDED + ":")

    @staticmethod
    def owner(client, rule):
        return ("name", client.name) if rule.owner == "name" and client.name else client.id

    # --- one command ---

    def run(self, number, argv):
        """Returns the reply that hasp should give."""
        client, name = self.clients[number], argv[0]
        if client.queue is not None and name not in ("EXEC", "DISCARD"):
            client.queue.append((argv, client.knows()))
            return b"+QUEUED\r\n"
        if name in ("MULTI", "EXEC", "DISCARD", "WATCH", "UNWATCH"):
            return getattr(self, name.lower())(client, number, argv)
        if any(self.is_guarded(argv[i]) for i in places(argv)):
            return self.guarded(client, argv)
        return self.ruled(client, argv, client.knows())

    def multi(self, client, _number, _argv):
        client.queue = []
        return OK

    def discard(self, client, number, _argv):
        if client.queue is None:
            return b"-ERR DISCARD without MULTI\r\n"
        client.queue = None
        self.unwatch(client, number, _argv)
        return OK

    def watch(self, client, number, argv):
        if not self.watchers[number]:
            self.watchers[number] = self.connect()
        client.watched |= set(argv[1:])
        return self.watchers[number].call(*argv)

    def unwatch(self, client, number, _argv):
        client.watched = set()
        return self.watchers[number].call("UNWATCH") if self.watchers[number] else OK

    def exec(self, client, number, _argv):
        if client.queue is None:  # where shorten() has left MULTI out
            return b"-ERR EXEC without MULTI\r\n"
        queue, client.queue = client.queue, None
        watcher = self.watchers[number]
        unchanged = True
        if watcher:
            watcher.call("MULTI")
            unchanged = watcher.call("EXEC") == b"*0\r\n"
        replies = [self.ruled(client, argv, knew) for argv, knew in queue] if unchanged else []
        client.watched = set()
        return b"*%d\r\n" % len(queue) + b"".join(replies) if unchanged else b"*-1\r\n"

    # --- rules: the table of hasp-locks(7) ---

    def ruled(self, client, argv, knew):
        name = argv[0]
        if name in READS:
            return self.read(client, argv)
        if name == "EVAL" or name in PASSED:
            return self.raw(*argv)
        keys = [key for key in written(argv) if self.rule(key) and key not in client.watched]
        if not keys:
            return self.raw(*argv)
        command = getattr(self, f"do_{name.lower()}", None)
        return command(client, argv, keys, knew) if command else self.do_write(client, argv, keys, knew)

    def read(self, client, argv):
        reply = self.raw(*argv)
        if argv[0] in ("GET", "MGET"):
            for key in argv[1:]:
                rule = self.rule(key)
                if rule and rule.owner == "value" and not rule.foreign and not reply.startswith(b"-"):
                    client.seen.pop(key, None)
                    value = self.string(key)
                    if value is not None:
                        client.seen[key] = value
        return reply

    def whose(self, client, key, knew=None, foreign_matters=True):
        """"free" (also of another type), "mine", "another's" or "nobody's"."""
        value, rule = self.string(key), self.rule(key)
        if value is None:
            return "free"
        if rule.owner != "value":
            owner, noted = self.owners.get(key, (None, None))
            if noted != value:
                return "nobody's"
            return "mine" if owner == self.owner(client, rule) else "another's"
        stored, seen = knew
        known = seen.get(key, stored.get(key))
        if known is ANY:
            return "nobody's"
        if known is None:
            is_foreign = foreign_matters and not rule.foreign and key not in seen and key not in stored
            return "another's" if is_foreign else "nobody's"
        return "mine" if known == value else "another's"

    def took(self, client, key, value):
        rule = self.rule(key)
        if rule.owner == "value":
            client.stored[key] = value
            client.seen.pop(key, None)
        else:
            self.owners[key] = (self.owner(client, rule), value)
            self.own.pop(key, None)

    def takes_back(self, argv):
        """Is it a DECR that leaves a counter what its owner added?"""
        if argv[0] not in ("DECR", "DECRBY"):
            return False
        key, less = argv[1], int(argv[2]) if len(argv) > 2 else 1
        return less > 0 and key in self.own and int(self.string(key)) - less >= self.own[key]

    def recount(self, client, key, before, after):
        """The counter `key` of an owner has gone from `before` to `after`."""
        owner = self.owners[key][0]
        own = self.own.pop(key, before)
        if owner != client.id:
            left = min(own, after)  # several connections can be one owner
        else:
            left = own + after - before
        if own > 0 >= left:
            del self.owners[key]
            return
        self.owners[key] = (owner, b"%d" % after)
        if left != after:
            self.own[key] = left

    def limit(self, key):
        """No string is without an expiry, none has a longer one than the rule allows."""
        rule = self.rule(key)
        ttl = integer(self.raw("PTTL", key))
        want = LEASE if ttl == -1 else min(ttl, rule.max_lease)
        if want != ttl:
            self.raw("PEXPIRE", key, want)

    @staticmethod
    def locked(key):
        return b"-LOCKED '%s' is held by another owner\r\n" % key.encode()

    def do_setnx(self, client, argv, keys, knew):
        reply = self.do_set(client, ["SET", argv[1], argv[2], "NX"], keys, knew)
        return ONE if reply == OK else ZERO

    def do_msetnx(self, client, argv, keys, _knew):
        reply = self.raw(*argv)
        if reply == ONE:
            for key in keys:
                self.raw("PEXPIRE", key, LEASE)
                self.took(client, key, self.string(key))
        return reply

    def do_setex(self, client, argv, keys, knew):
        return self.do_set(client, ["SET", argv[1], argv[3], "EX", argv[2]], keys, knew)

    def do_psetex(self, client, argv, keys, knew):
        return self.do_set(client, ["SET", argv[1], argv[3], "PX", argv[2]], keys, knew)

    def do_getset(self, client, argv, keys, knew):
        return self.do_set(client, ["SET", argv[1], argv[2], "GET"], keys, knew)

    def do_set(self, client, argv, keys, knew):
        key, value, options = argv[1], argv[2].encode(), list(argv[3:])
        rule, before = self.rule(key), self.string(key)
        nx, xx, get = (option in options for option in ("NX", "XX", "GET"))
        if not {"EX", "PX", "KEEPTTL"} & set(options) or nx and "KEEPTTL" in options:
            options = [o for o in options if o != "KEEPTTL"] + ["PX", LEASE]
        if rule.owner == "value":
            mine = before is not None and before in (value, None if nx else knew[0].get(key))
            whose = "free" if before is None else "mine" if mine else "another's"
        else:
            whose = self.whose(client, key)
        if nx and rule.refresh and whose == "mine":
            options.remove("NX")
            reply = self.raw("SET", key, value, *(o for o in options if o != "GET"))
            reply = NIL if get else reply
        elif not nx and whose == "another's":
            return NIL if xx else self.locked(key)
        else:
            reply = self.raw("SET", key, value, *options)
            if reply.startswith(b"-"):
                return reply
            done = (reply == NIL if nx else reply != NIL if xx else True) if get else reply == OK
            if not done:
                return reply
        self.took(client, key, value)
        self.limit(key)
        return reply

    def do_incr(self, client, argv, _keys, _knew):
        key = argv[1]
        reply = self.raw(*argv)
        if reply.startswith(b"-"):
            return reply
        count = integer(reply)
        if count == 1:
            self.raw("PEXPIRE", key, LEASE)
            if self.rule(key).owner == "value":
                client.seen[key] = ANY
            else:
                self.took(client, key, b"1")
        elif key in self.owners and self.owners[key][1] == b"%d" % (count - 1):
            self.recount(client, key, count - 1, count)
        if self.raw("PTTL", key) == b":-1\r\n":
            self.raw("PEXPIRE", key, LEASE)
        return reply

    def do_expire(self, client, argv, _keys, knew):
        key, ms = argv[1], int(argv[2]) * EXPIRES[argv[0]]
        whose = self.whose(client, key, knew)
        if whose == "another's":
            return ZERO
        value = self.string(key)
        reply = self.raw(*argv)
        if reply == ONE and value is not None:
            if whose == "mine" and ms <= 0:
                self.owners.pop(key, None)
            if ms <= 0:  # as by DEL
                for each in self.clients:
                    each.stored.pop(key, None)
            if self.exists(key):
                self.limit(key)
        return reply

    do_pexpire = do_expire

    def do_persist(self, _client, argv, _keys, _knew):
        if self.string(argv[1]) is None:
            return self.raw(*argv)
        self.limit(argv[1])
        return ZERO

    def do_del(self, client, argv, keys, knew):
        gone = []
        for key in argv[1:]:
            if key in keys:
                if self.whose(client, key, knew) == "another's":
                    continue
                self.owners.pop(key, None)
            gone.append(key)
        reply = self.raw(argv[0], *gone) if gone else ZERO
        if integer(reply):
            # Of several keys it is not known which went. One that did is nobody's: a connection of a
            # pool may have released what another one had taken.
            for each in self.clients if len(argv) == 2 else [client]:
                for key in keys:
                    each.stored.pop(key, None)
        return reply

    do_unlink = do_del

    def do_write(self, client, argv, keys, knew):
        whose = {key: self.whose(client, key, knew, foreign_matters=argv != ["GETEX", key]) for key in keys}
        for key in keys:
            if whose[key] == "another's" and not self.takes_back(argv):
                return self.locked(key)
        before = self.string(keys[0])
        reply = self.raw(*argv)
        if reply.startswith(b"-"):
            return reply
        counted = argv[0] in COUNTS and self.owners.get(keys[0], (None, None))[1] == before is not None
        if counted:
            self.recount(client, keys[0], int(before), integer(reply))
        for key in keys:
            value = self.string(key)
            if value is not None:
                self.limit(key)
            if whose[key] == "mine" and self.rule(key).owner != "value" and not counted:
                if value is None:
                    self.owners.pop(key, None)
                else:
                    self.took(client, key, value)
            if argv[0] == "GETDEL":
                client.stored.pop(key, None)
        return reply

    # --- guards ---

    def guarded(self, client, argv):
        keys = sorted({argv[i] for i in places(argv) if self.is_guarded(argv[i])})
        if argv[0] in ACQUIRES:
            return self.guarded_read(client, argv, keys)
        return self.raw(*argv) if argv[0] in READS else self.guarded_write(client, argv, keys)

    @staticmethod
    def locked_guard(key):
        return b"-LOCKED '%s' is guarded by another owner\r\n" % key.encode()

    def guarded_read(self, client, argv, keys):
        for key in keys:
            if self.holders.get(key, client.id) != client.id:
                for each in keys:
                    client.reads.setdefault(each, "lost")
                return self.locked_guard(key)
        reply = self.raw(*argv)
        if not reply.startswith(b"-"):
            for key in keys:
                self.holders[key] = client.id
                client.reads[key] = "good"
        return reply

    def guarded_write(self, client, argv, keys):
        if client.watched and argv[0] in WRAPPED:
            return (b"-ERR hasp: hasp needs a transaction to write this guarded key, and that would "
                    b"end WATCH: send the command before WATCH or after EXEC\r\n")
        for key in keys:
            state = client.reads.get(key)
            if state == "lost" or state == "good" and self.holders.get(key) != client.id:
                del client.reads[key]
                return (b"-LOCKLOST '%s' was read under a guard that has ended: nothing was written\r\n"
                        % key.encode())
        for key in keys:
            if self.holders.get(key, client.id) != client.id:
                return self.locked_guard(key)
        reply = self.raw(*argv)
        if not reply.startswith(b"-") and argv[0] != "EVAL":
            for key in set(keys) & set(written(argv)):
                self.holders.pop(key, None)
                client.reads.pop(key, None)
        return reply

    # --- what is no command ---

    def lose(self, key):
        """The lease of a guard ends."""
        self.holders.pop(key, None)

    def reconnect(self, number):
        """Connects again. Returns the guards that are released."""
        client = self.clients[number]
        held = [key for key, holder in self.holders.items() if holder == client.id]
        for key in held:
            del self.holders[key]
        if self.watchers[number]:
            self.watchers[number].close()
            self.watchers[number] = None
        self.clients[number] = Client(number, client.name, client.id[2] + 1)
        return held


def show(argv):
    return " ".join(repr(a) if " " in a or not a else a for a in argv)
