# SPDX-License-Identifier: BSD-3-Clause
"""The commands of tests/fuzz/pooling: what to send, what to expect, and on which link they may go."""

import functools
import re
import time

from compare import encode

DATABASES = 4
USERS = ("default", "alice", "bob", "carol")
PASSWORD, ADMIN = "wonder", "admin"
PLAIN, OWN, PRIVATE = "shares a link", "has its own for now", "has its own for good"


def bulk(data):
    return b"$%d\r\n%s\r\n" % (len(data), data)


def array(*frames, kind=b"*"):
    return kind + b"%d\r\n" % len(frames) + b"".join(frames)


class Log:
    """A list that a session appends to: which shows what was carried out."""

    def __init__(self, key, db):
        self.key, self.db = key, db
        self.sent = self.answered = 0
        self.began = time.monotonic()


class Commands:
    """A connection as its commands know it: each returns
    [(what to send, what to expect, the log that it extends)]."""

    def __init__(self, world, name, rng):
        self.world, self.id, self.rng = world, name, rng
        self.user, self.db, self.proto, self.name = "default", 0, 2, b""
        self.store = {}     # key -> value, as Redis has it when all is answered
        self.logs = {}      # key -> Log
        self.ids = set()    # ids of the connection since RESET
        self.serial = 0

    def key(self, suffix):
        return f"{self.user}:{self.id}:db{self.db}:{suffix}"

    def any_key(self):
        return self.key(f"k{self.rng.randrange(4)}")

    def token(self):
        self.serial += 1
        return f"{self.id}#{self.serial}"

    def nil(self):
        return b"_\r\n" if self.proto == 3 else b"$-1\r\n"

    def nil_array(self):
        return b"_\r\n" if self.proto == 3 else b"*-1\r\n"

    def stored(self, key):
        return bulk(self.store[key]) if key in self.store else self.nil()

    def echo(self):
        token = self.token()
        return [(encode("ECHO", token), bulk(token.encode()))]

    def inline(self):
        token = self.token()
        return [(f"echo {token}\r\n".encode(), bulk(token.encode()))]

    def set(self, padding=None):
        key = self.any_key()
        if padding is None:
            padding = self.rng.choice((0, 0, 0, 10, 300, 5000, 20000))
        value = f"{key}={self.token()}{'.' * padding}".encode()
        self.store[key] = value
        return [(encode("SET", key, value), b"+OK\r\n")]

    def get(self):
        key = self.any_key()
        return [(encode("GET", key), self.stored(key))]

    def mget(self):
        keys = [self.any_key() for _ in range(3)]
        return [(encode("MGET", *keys), array(*map(self.stored, keys)))]

    def delete(self):
        key = self.any_key()
        return [(encode("DEL", key), b":%d\r\n" % (self.store.pop(key, None) is not None))]

    def append_to_log(self):
        key = self.key("log")
        log = self.logs.get(key)
        if not log:
            log = self.logs[key] = Log(key, self.db)
            self.world.logs.append(log)
        log.sent += 1
        return [(encode("RPUSH", key, log.sent), b":%d\r\n" % log.sent, log)]

    def script(self):
        key = self.any_key()
        token = self.token()
        return [(encode("EVAL", "return {redis.call('GET', KEYS[1]), ARGV[1]}", 1, key, token),
                 array(bulk(self.store[key]) if key in self.store else b"$-1\r\n" if self.proto == 2
                       else b"_\r\n", bulk(token.encode())))]

    def whoami(self):
        return [(encode("ACL", "WHOAMI"), bulk(self.user.encode()))]

    def wrong_arity(self):
        return [(encode("GET"), b"-ERR wrong number of arguments for 'get' command\r\n")]

    def lock(self):
        key, value = self.key(f"lock:{self.rng.randrange(2)}"), self.token()
        return [(encode("SETNX", key, value), b":1\r\n"), (encode("SETNX", key, "x"), b":0\r\n"),
                (encode("GET", key), bulk(value.encode())), (encode("DEL", key), b":1\r\n")]

    def verbs(self):
        if not self.world.has_verbs:
            return self.lock()
        key = self.key("verb")
        return [(encode("LOCK", key), re.compile(rb":[1-9]\d*\r\n")), *self.echo(),
                (encode("UNLOCK", key), b":1\r\n")]

    def select(self):
        self.db = self.rng.randrange(DATABASES)
        return [(encode("SELECT", self.db), b"+OK\r\n")]

    def auth(self):
        self.user = self.rng.choice(USERS)
        return [(encode("AUTH", self.user, PASSWORD), b"+OK\r\n")]

    def wrong_password(self):
        return [(encode("AUTH", "alice", "guess"), b"-WRONGPASS invalid username-password "
                 b"pair or user is disabled.\r\n")]

    def hello(self):
        self.proto = self.rng.choice((2, 3, 3))
        args = ["HELLO", self.proto]
        if self.rng.random() < 0.5:
            self.user = self.rng.choice(USERS)
            args += ["AUTH", self.user, PASSWORD]
        if self.rng.random() < 0.5:
            self.name = self.token().encode()
            args += ["SETNAME", self.name]
        return [(encode(*args), re.compile(rb"[*%%].*\$5\r\nproto\r\n:%d\r\n.*" % self.proto, re.S))]

    def set_name(self):
        self.name = self.token().encode()
        return [(encode("CLIENT", "SETNAME", self.name), b"+OK\r\n"), *self.get_name()]

    def get_name(self):
        return [(encode("CLIENT", "GETNAME"), bulk(self.name) if self.name else self.nil())]

    def transaction(self):
        inner = [c for _ in range(self.rng.randint(1, 4))
                 for c in self.rng.choice((self.set, self.get, self.echo, self.append_to_log))()]
        return [(encode("MULTI"), b"+OK\r\n"),
                *((data, b"+QUEUED\r\n") for data, *_ in inner),
                (encode("EXEC"), array(*(expected for _, expected, *_ in inner)),
                 *(log for _, _, *logs in inner for log in logs))]

    def discarded(self):
        return [(encode("MULTI"), b"+OK\r\n"), (encode("DEL", self.any_key()), b"+QUEUED\r\n"),
                (encode("DISCARD"), b"+OK\r\n")]

    def watched(self):
        key = self.key("watched")
        return [(encode("WATCH", key), b"+OK\r\n"),
                (encode("SET", key, "mine"), b"+OK\r\n"), (encode("MULTI"), b"+OK\r\n"),
                (encode("GET", key), b"+QUEUED\r\n"), (encode("EXEC"), self.nil_array())]

    def unknown(self):
        name = f"NOSUCH{self.serial}"
        return [(encode(name, self.id), f"-ERR unknown command '{name}', with args beginning with: "
                 f"'{self.id}' \r\n".encode())]

    def wait(self):
        return [(encode("WAIT", 0, 0), b":0\r\n")]

    def long(self):
        return self.set(self.rng.choice((60_000, 70_000, 200_000))) + self.get()

    def ask_id(self):
        return [(encode("CLIENT", "ID"), functools.partial(self.same_id, self.ids))]

    def start_over(self):
        self.user, self.db, self.proto, self.name, self.ids = "default", 0, 2, b"", set()
        return [(encode("RESET"), b"+RESET\r\n")]

    def same_id(self, ids, frame):
        ids.add(frame)
        return len(ids) == 1 and frame[:1] == b":"

    COMMANDS = (
        (PLAIN, 30, echo), (PLAIN, 4, inline), (PLAIN, 20, set), (PLAIN, 30, get), (PLAIN, 8, mget),
        (PLAIN, 5, delete), (PLAIN, 25, append_to_log), (PLAIN, 5, script), (PLAIN, 8, whoami),
        (PLAIN, 2, wrong_arity), (PLAIN, 6, lock), (PLAIN, 3, verbs), (OWN, 3, select),
        (OWN, 3, auth), (OWN, 1, wrong_password), (OWN, 2, hello), (OWN, 2, set_name),
        (OWN, 2, get_name), (OWN, 3, transaction), (OWN, 1, discarded),
        (OWN, 1, watched), (PRIVATE, 0.3, unknown), (PRIVATE, 0.3, wait),
        (PRIVATE, 0.5, long), (PRIVATE, 0.3, ask_id), (OWN, 0.5, start_over),
    )
