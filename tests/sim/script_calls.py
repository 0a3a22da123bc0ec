# SPDX-License-Identifier: BSD-3-Clause
"""Random calls of each of hasp's Lua scripts, with KEYS and ARGV as hasp sends them, or nearly so.

The heads of proxy/lock/scripts/commands/*.lua say what KEYS and ARGV are. Owners, locks and workers
are few, so that calls meet what other calls have written.
"""

import hashlib

LOCKS = ("j1", "j2", "{t}j3")
TOKENS = ("10.0.0.1:1/0/aa", "10.0.0.2:2/0/bb", "u:me/1")
VALUES = ("v", "two words", "5", "")
# The first one listens at times. The second one knows several servers; see await_worker().
WORKERS = ("00aa", "n0bb", "00cc")
SECRET = "secret"
LEASES = (1, 400, 1000, 5000, 30000)
KINDS = "hslmxrvg"


def sha1(text):
    return hashlib.sha1(text.encode()).hexdigest()


class ScriptCalls:
    """Draws calls from `rng`. Remembers places, tickets and fencing tokens that replies told."""

    def __init__(self, rng):
        self.rng = rng
        self.serial = 0
        self.places = [""]
        self.fences = [1]
        self.tickets = [f"{WORKERS[0]}-0"]
        self.now_us = 0  # Redis' clock

    def pick(self, *choices):
        return self.rng.choice(choices)

    def learn(self, reply):
        """What a reply tells, hasp would send in later calls."""
        if reply.startswith(b"+QUEUED "):
            self.places.append(reply.split()[1].decode())
        elif reply.startswith(b":") and reply[1:-2].isdigit():
            self.fences.append(int(reply[1:-2]))

    # --- words

    def token(self):
        return self.pick(*TOKENS)

    def lease(self):
        return self.pick(*LEASES)

    def value(self):
        return self.pick(*VALUES)

    def wait(self):
        return self.pick(0, 1, 900, 5000)

    def place(self):
        return self.pick("", "", self.pick(*self.places[-6:]))

    def fence(self):
        return self.pick(*self.fences[-6:])

    def kind(self):
        return self.rng.choice(KINDS)

    def ticket(self):
        """Returns a new ticket, or that of an earlier try."""
        if self.rng.random() < 0.6:
            self.serial += 1
            self.tickets.append(f"{self.pick(*WORKERS)}-{self.serial:x}")
        return self.pick(self.tickets[-1], *self.tickets[-4:])

    def own(self):
        return [self.token() for _ in range(self.pick(0, 0, 0, 1, 2))]

    def option(self):
        return self.pick(("PX", self.lease()), ("PX", self.lease()), ("EXAT", self.now_us // 1000000 + 7),
                         ("PXAT", self.now_us // 1000 + self.pick(-5, 700, 9000)))

    # --- keys

    def lock(self):
        return self.pick(*LOCKS, LOCKS[0])

    @staticmethod
    def braced(lock):
        return lock if "{" in lock else "{%s}" % lock

    def side(self, lock):
        return "hasp:owner:" + self.braced(lock)

    def record(self, lock):
        return "hasp:fence:" + self.braced(lock)

    def queue(self, lock):
        return "hasp:queue:" + self.braced(lock)

    def guard(self, key):
        return "hasp:guard:" + self.braced(key)

    COUNTER = "hasp:fence"

    def four(self, lock, side=None):
        return [lock, self.record(lock), self.queue(lock), side or self.side(lock)]

    def five(self, lock, side=None):
        *keys, side = self.four(lock, side)
        return [*keys, self.COUNTER, side]

    def of_kind(self):
        """KEYS of a lock of any kind, and the kind."""
        lock, kind = self.lock(), self.kind()
        if kind == "g":
            return [*([self.guard(lock)] * 2), self.queue(self.guard(lock)), self.guard(lock)], kind
        return self.four(lock, lock if kind == "v" else None), kind

    def side_of_rule(self, lock):
        return self.pick(self.side(lock), self.side(lock), lock)

    def locks(self):
        return self.rng.sample(LOCKS, self.pick(1, 1, 2, 3))

    def guarded(self):
        """KEYS and the terms in ARGV of guarded keys."""
        keys, args = [], []
        for key in sorted(self.locks()):
            keys += [self.guard(key), self.queue(self.guard(key)), key]
            args += [self.token(), self.lease(), self.pick("-", "-", "m", "mk")]
        return keys, args

    # --- what clients run under a lock or guard

    def read(self):
        key = self.lock()
        return self.pick(["GET", key], ["HGETALL", key], ["MGET", *LOCKS], ["TTL", key], ["GET", key, key])

    def write(self):
        key = self.lock()
        return self.pick(["SET", key, self.value()], ["APPEND", key, "1"], ["INCRBY", key, "3"],
                         ["DECR", key], ["HSET", key, "f", "v"], ["LPUSH", key, "x"], ["GETDEL", key],
                         ["RENAME", key, self.lock()], ["SET", key], ["MSET", key, "1", "other", "2"],
                         ["INCRBY", key, "x"], ["DECRBY", key, "2"], ["GETEX", key, "PERSIST"])

    # --- one method for each script: KEYS, ARGV

    def check_write(self):
        keys = self.locks()
        digests = [self.pick("", "-", *map(sha1, VALUES)) for _ in keys]
        return keys, [SECRET, len(keys), *digests, *self.pick([], self.write())]

    def del_(self):
        keys, args, counter = [], [], []
        for lock in self.locks():
            waits = self.pick("wait", "")
            keys += [lock, self.side_of_rule(lock), self.record(lock), *([self.queue(lock)] if waits else [])]
            args += [self.token(), waits, self.pick("foreign", "")]
            counter = [self.COUNTER] if waits or counter else []
        return ([*keys, *counter, *self.pick([], ["other"], ["other", "more"])],
                [SECRET, self.pick("DEL", "UNLINK", "del"), len(args) // 3, *args, *self.pick([], ["tell"])])

    def dequeue(self):
        (*keys, side), kind = self.of_kind()
        return [*keys, self.COUNTER, side], [SECRET, self.ticket(), self.pick("", "0", self.place()), kind, self.token(),
                                       self.value(), self.pick("undo", "tell"), self.pick(0, 5000, 100000)]

    def error(self):
        return [], [self.pick("ERR no", "LOCKED 'k' is held", "-ODD one", "odd", "-odd", "with\r\nline", "")]

    def expire(self):
        lock = self.lock()
        command, number = self.pick(("EXPIRE", "7"), ("PEXPIRE", "700"), ("pexpire", "90000"), ("EXPIRE", "-1"),
                                    ("PEXPIREAT", self.now_us // 1000 + 800), ("EXPIREAT", "1"), ("PEXPIRE", "x"))
        return ([lock, self.side_of_rule(lock), self.record(lock)],
                [self.token(), self.lease(), self.lease(), self.pick("cut", ""), self.pick("foreign", ""),
                 command, number, *self.pick([], [], ["NX"], ["GT"], ["BAD"])])

    def extend(self):
        lock = self.lock()
        return ([lock, self.record(lock), self.side(lock)],
                [self.token(), self.pick("hash", "string"), self.lease()])

    def force(self):
        (*keys, side), kind = self.of_kind()
        return [*keys, self.COUNTER, side], [SECRET, self.pick("verb", "verb", kind)]

    def guard_finish(self):
        key = self.lock()
        return ([self.guard(key), self.queue(self.guard(key)), key],
                [SECRET, self.token(), self.lease(), *self.write()])

    def guard_command(self, command):
        keys, args = self.guarded()
        return keys, [SECRET, len(args) // 3, self.pick("", self.ticket()), self.wait(), self.place(), *args, *command]

    def guard_read(self):
        return self.guard_command(self.pick([], self.read(), self.read()))

    def guard_write(self):
        return self.guard_command(self.pick([], self.write(), self.write()))

    def guard_release(self):
        key = self.guard(self.lock())
        return [key, self.queue(key)], [SECRET, self.token()]

    def incr(self):
        lock = self.lock()
        return ([lock, self.side_of_rule(lock), self.record(lock)],
                [self.token(), self.lease(), self.ticket(), self.pick("shared", ""), *self.pick(["INCR"], ["INCRBY", 1])])

    def info(self):
        keys, kind = self.of_kind()
        return keys, [self.pick(2, 3), kind]

    def acquire(self, *option):
        """A short call, or a full one."""
        keys, more = self.five(self.lock()), [self.token(), self.lease(), self.ticket(), *option]
        if self.rng.random() < 0.4:
            return keys[:self.pick(4, 5)], more
        return keys, [SECRET, *more, *([] if option else [""]), self.wait(), self.place(), *self.own()]

    def acquire_count(self):
        return self.acquire()

    def acquire_limit(self):
        return self.acquire(self.pick(1, 2, 3))

    def acquire_rw(self):
        return self.acquire(self.pick("m", "m", "x"))

    def acquire_token(self):
        return self.acquire(self.pick("refresh", "no"))

    def mlock(self):
        keys = [key for lock in self.locks() for key in self.four(lock)]
        return ([*keys, self.COUNTER],
                [SECRET, self.token(), self.lease(), self.ticket(), self.pick(-1, self.wait()), self.place(),
                 self.pick("count", "refresh", "no"), self.rng.randint(0, len(keys) // 4), self.lease(), *self.own()])

    def msetnx(self):
        locks = self.locks()
        keys = [key for lock in locks for key in (lock, self.side_of_rule(lock), self.record(lock))]
        args = [arg for _ in locks for arg in (self.token(), self.lease(), self.lease())]
        pairs = [word for lock in locks for word in (lock, self.value())]
        return [*keys, "other"], [len(locks), self.ticket(), *args, "MSETNX", *pairs, *self.pick([], ["other", "1"], ["x"])]

    def munlock(self):
        keys = [key for lock in self.locks() for key in self.four(lock)]
        return [*keys, self.COUNTER], [SECRET, self.token(), self.pick("hash", "string")]

    def owners(self):
        keys, _ = self.of_kind()
        return keys, [self.pick(1, 2, 64), self.pick("record", "sidecar", "value")]

    def persist(self):
        lock = self.lock()
        return [lock, self.side_of_rule(lock), self.record(lock)], [self.lease()]

    def poll(self):
        (*keys, side), kind = self.of_kind()
        return [*keys, self.COUNTER, side], [SECRET, self.pick("", self.ticket()), self.place(), kind, self.token(), self.value(),
                                       self.pick("", self.lease())]

    def quorum_confirm(self):
        return [self.lock(), self.COUNTER], [self.value(), self.fence(), self.pick(10, 2 ** 52)]

    def quorum_extend(self):
        return [self.lock()], [self.value(), self.lease()]

    def quorum_read(self):
        return [self.lock()], []

    def quorum_release(self):
        return [self.lock()], [self.value()]

    def quorum_take(self):
        return [self.lock(), self.COUNTER], [self.value(), self.lease()]

    def recheck(self):
        locks = self.locks()
        return [*locks, *map(self.queue, locks)], [self.pick(*self.places) for _ in locks]

    def release(self):
        lock = self.lock()
        side = self.side_of_rule(lock)
        return self.five(lock, side), [SECRET, self.pick(self.token(), self.value()), self.ticket(), self.pick(0, 500, 90000)]

    def renew(self):
        locks = self.locks()
        return ([key for lock in locks for key in (lock, self.side_of_rule(lock))],
                [arg for _ in locks for arg in (self.lease(), self.pick(self.token(), self.value()))])

    def renew_verb(self):
        locks = self.locks()
        return ([key for lock in locks for key in (lock, self.record(lock), self.side(lock))],
                [arg for _ in locks for arg in (self.lease(), self.token(), self.fence(),
                                                self.pick("hash", "string", "m", "x"))])

    def set(self):
        lock = self.lock()
        option, number = self.pick(self.option(), ("KEEPTTL", ""))
        return ([lock, self.side_of_rule(lock), self.record(lock)],
                [self.token(), self.value(), option, number, self.pick("SET", "XX", "GET", "XXGET", "GETSET"),
                 self.lease(), self.lease(), self.ticket()])

    def take(self):
        lock = self.lock()
        return ([lock, self.side_of_rule(lock), self.record(lock)],
                [self.token(), self.value(), *self.option(), self.pick("SETNX", "SET", "GET"), self.pick("refresh", "no"),
                 self.lease(), self.lease(), self.ticket()])

    def take_wait(self):
        lock = self.lock()
        return (self.five(lock, self.side_of_rule(lock)),
                [SECRET, self.token(), self.lease(), self.ticket(), self.wait(), self.place(), self.value(),
                 self.pick(0, 0, self.now_us // 1000 + 900), self.pick("SETNX", "SET"), self.pick("refresh", "no"),
                 *self.own()])

    def unlock(self):
        """A short call, or a full one."""
        keys = self.five(self.lock())
        if self.rng.random() < 0.4:
            return keys[:self.pick(3, 4, 5)], [self.token(), *self.pick([], ["hash"], ["string"], ["zset"], ["m"], ["x"])]
        return keys, [SECRET, self.token(), self.pick("hash", "string", "zset", ""), self.pick("", self.ticket()),
                      *self.pick([], ["tell"])]

    def write_(self):
        locks = self.locks()
        args = [arg for _ in locks for arg in (self.token(), self.lease(), self.lease(), self.pick("", "shared", "foreign"))]
        return ([key for lock in locks for key in (lock, self.side_of_rule(lock), self.record(lock))],
                [len(locks), self.pick(2, 2, 3), *args, *self.write()])

    def call(self, name):
        """(KEYS, ARGV) of a call of this script."""
        return getattr(self, {"del": "del_", "write": "write_"}.get(name, name))()

    # --- and nearly so

    def odd(self, keys, argv):
        """The same call with something wrong."""
        for _ in range(self.pick(1, 1, 2)):
            words = self.pick(keys, argv, argv)
            at = self.rng.randrange(len(words) + 1)
            what = self.rng.random()
            if what < 0.2:
                words.insert(at, self.odd_word())
            elif at < len(words):
                if what < 0.4:
                    del words[at]
                elif what < 0.6:
                    other = self.rng.randrange(len(words))
                    words[at], words[other] = words[other], words[at]
                else:
                    words[at] = self.odd_word()
        return keys, argv

    def odd_word(self):
        return self.pick("", "x", "0", "-1", "1.5", "nan", "inf", "99999999999999999999", "9223372036854775807", "1e3",
                         " 7 ", "0x10", "a b", b"\x00", b"\xff\r\n", "%d", "mode", *LOCKS, *TOKENS, self.queue(LOCKS[0]),
                         "h0", "s0", "l0", "z0", "e0")
