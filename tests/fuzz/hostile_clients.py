#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hostile clients: attacks on hasp by clients that may connect.

    tests/fuzz/hostile_clients.py --seed S --clients N --only ATTACK,... ADDRESS ...

tests/fuzz/hostile starts it as a separate process, so that it does not delay the honest clients;
SIGTERM ends it. Each client makes attacks drawn from ATTACKS, as one of the users in USERS. Prints
how often each attack was made. If a client gets another client's data, prints LEAK and exits with 1.
"""

import argparse
import asyncio
import collections
import contextlib
import random
import resource
import signal
import socket
import struct
import sys

USERS, PASSWORD = [f"m{n}" for n in range(20)], "mallory"
# Stands in what honest clients store, and only in what none of USERS may read.
SECRET = b"none-of-your-business"
ERRORS = ("MOVED {slot} {address}", "ASK {slot} {address}", "TRYAGAIN", "CLUSTERDOWN", "READONLY You can't write",
          "MASTERDOWN", "LOADING", "NOAUTH Authentication required.", "WRONGPASS", "NOPERM", "NOSCRIPT", "NOREPLICAS",
          "UNBLOCKED", "EXECABORT", "LOCKED", "LOCKLOST", "DEADLOCK", "NOQUORUM", "BUSY", "MISCONF", "+QUEUED",
          "+QUEUED 1 2 3", "+REFUSED 1 1 x", "+GRANTED", "+OK", "ERR MULTI calls can not be nested", "ERR unknown command", "NOPROTO", "NOTBUSY")
MB = 1024 * 1024
PATIENCE = 5.0       # seconds until an attack is over
PLACES = 40          # places that a client takes at the page or at the console
TARGETS = ([f"verb:{n}" for n in range(4)] + ["lock:connection:0", "lock:value:0", "mine:0:0"])
SIDES = ("hasp:owner:{{{}}}", "hasp:fence:{{{}}}", "hasp:queue:{{{}}}", "hasp:guard:{{{}}}",
         "hasp:queue:hasp:guard:{{{}}}:")


def encode(*words):
    """Encodes a command with any number of words."""
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Leak(Exception):
    """A hostile client got another client's data."""


class Mallory:
    """One hostile client."""

    def __init__(self, args, rng):
        self.addresses, self.others, self.rng = args.addresses, args.http + args.consoles, rng
        self.attacks = [getattr(self, name) for name in args.only]
        self.counts = collections.Counter()
        self.over = False
        self.siege = None  # a task, see operates()
        self.seen = b""

    async def run(self):
        while not self.over:
            attack = self.rng.choice(self.attacks)
            self.counts[attack.__name__] += 1
            self.seen, self.reader, self.writer = b"", None, None
            try:
                await asyncio.wait_for(attack(), PATIENCE)
            except (OSError, EOFError, asyncio.TimeoutError, asyncio.LimitOverrunError, ValueError):
                pass
            finally:
                if self.writer:
                    self.leave()
            await asyncio.sleep(self.rng.choice((0, 0.001, 0.05)))

    # --- a connection ---

    async def open(self, login=True, addresses=None):
        address = self.rng.choice(addresses or self.addresses)
        if isinstance(address, tuple):
            self.reader, self.writer = await asyncio.open_connection(*address, limit=MB)
        else:
            self.reader, self.writer = await asyncio.open_unix_connection(address, limit=MB)
        if login:
            self.send("AUTH", self.rng.choice(USERS), PASSWORD)
            await self.line()

    def raw(self, data):
        self.writer.write(data)

    def send(self, *command):
        self.raw(encode(*command))

    async def sent(self, data):
        self.raw(data)
        await self.writer.drain()

    def look(self, data):
        if SECRET in self.seen[-len(SECRET):] + data:
            raise Leak(data[:200])
        self.seen = data

    async def line(self):
        data = await self.reader.readuntil(b"\r\n")
        self.look(data)
        return data

    async def drink(self, seconds=0.2):
        """Reads incoming bytes for this long."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (left := end - loop.time()) > 0:
            try:
                data = await asyncio.wait_for(self.reader.read(65536), left)
            except asyncio.TimeoutError:
                return
            if not data:
                return
            self.look(data)

    def leave(self):
        """Closes the connection in any way."""
        how = self.rng.choice(("close", "reset", "half"))
        sock = self.writer.get_extra_info("socket")
        try:
            if how == "reset":
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            elif how == "half":
                self.writer.write_eof()
        except OSError:
            pass
        # Bytes that wait to be sent do not keep the connection open.
        self.writer.transport.abort()

    async def linger(self):
        await asyncio.sleep(self.rng.choice((0, 0.01, 0.1, 1)))

    # --- what it names ---

    def key(self):
        kind = self.rng.choice(("m:{}", "m:{}", "m:lock:{}", "m:guard:{}"))
        return kind.format(self.rng.randrange(100))

    def command(self):
        """Returns a correct command for one of the client's keys."""
        key, rng = self.key(), self.rng
        return rng.choice((
            ("GET", key), ("SET", key, "x" * rng.choice((1, 100, 20000)), "EX", 5), ("SETNX", key, "v"),
            ("DEL", key),
            ("INCR", key), ("LOCK", key), ("LOCK", key, "PX", 50, "WAIT", 100), ("UNLOCK", key), ("LOCK.INFO", key),
            ("EXPIRE", key, 3), ("MGET", key, self.key()), ("MSET", key, 1, self.key(), 2), ("HGETALL", key),
            ("GETSET", key, "y"), ("PING",), ("MULTI",), ("EXEC",), ("WATCH", key), ("SELECT", rng.randrange(16)),
            ("EVAL", "return redis.call('GET', KEYS[1])", 1, key), ("CLIENT", "ID"), ("RESET",),
            ("HELLO", rng.choice((2, 3))), ("BLPOP", key, "0.05"), ("SUBSCRIBE", key), ("UNSUBSCRIBE",),
            ("CLIENT", "REPLY", rng.choice(("ON", "OFF", "SKIP"))), ("CLIENT", "SETNAME", f"n{rng.randrange(30)}"),
            ("CLIENT", "TRACKING", rng.choice(("ON", "OFF"))), ("SCRIPT", "FLUSH"), ("ECHO", "e")))

    # --- attacks ---

    async def slow(self):
        """Sends a request byte by byte, which may never end."""
        await self.open(login=self.rng.random() < 0.7)
        data = encode(*self.command())
        for at in range(self.rng.randrange(len(data) + 1)):
            await self.sent(data[at:at + 1])
            await asyncio.sleep(self.rng.choice((0, 0.001, 0.02)))
        await self.linger()

    async def huge(self):
        """Sends a long request, whole or not, of a rule's key or not, with a true or false
        length."""
        await self.open(login=self.rng.random() < 0.8)
        size = self.rng.choice((MB, 4 * MB, 16 * MB))
        key = self.key().encode()
        command = self.rng.choice((b"SET", b"SETNX", b"LOCK", b"PUBLISH", b"APPEND"))
        announced = self.rng.choice((size, size, 512 * MB, 512 * MB + 1))
        await self.sent(b"*3\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$%d\r\n" % (len(command), command, len(key), key,
                                                                      announced))
        for _ in range(self.rng.randrange(1, size // 65536 + 1)):
            await self.sent(b"z" * 65536)
        await self.linger()

    async def half_sent(self):
        """Sends requests of which the last is cut off."""
        await self.open()
        data = b"".join(encode(*self.command()) for _ in range(self.rng.choice((1, 5, 50))))
        await self.sent(data[:self.rng.randrange(len(data))])
        await self.linger()

    async def never_reads(self):
        """Sends many requests and reads no reply."""
        await self.open()
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.reader._transport.pause_reading()  # pylint: disable=protected-access
        self.send("SET", "m:big", b"b" * 262144, "EX", 60)
        if self.rng.random() < 0.3:
            self.send("MULTI")
        for _ in range(self.rng.choice((20, 60, 120))):
            self.send("GET", "m:big")
        await asyncio.sleep(self.rng.choice((0.1, 1, 3)))

    async def before_login(self):
        """Sends a long pipeline before, around and after a login."""
        await self.open(login=False)
        for _ in range(self.rng.choice((10, 1000, 5000))):
            self.send(*self.command())
        self.send("AUTH", self.rng.choice(USERS), self.rng.choice((PASSWORD, "wrong")))
        for _ in range(self.rng.choice((0, 10, 500))):
            self.send(*self.command())
        await self.drink(1)

    async def logs_in(self):
        """Logs in repeatedly, as any user, with any password."""
        await self.open(login=False)
        for _ in range(self.rng.choice((10, 300))):
            user = self.rng.choice((*USERS, "honest", "admin", "nobody", "default", "x" * 10000))
            password = self.rng.choice((PASSWORD, PASSWORD, "wrong", "y" * 10000))
            self.send(*self.rng.choice((("AUTH", user, password), ("AUTH", password), ("AUTH",),
                                        ("AUTH", user, password, "z"),
                                        ("HELLO", 3, "AUTH", user, password),
                                        ("HELLO", 2, "AUTH", user, password, "SETNAME", "a"))))
            if self.rng.random() < 0.3:
                self.send(*self.command())
        await self.drink(1)

    async def connects(self):
        """Opens connections without end."""
        writers = []
        try:
            for _ in range(self.rng.choice((20, 100))):
                await self.open(login=False)
                writers.append(self.writer)
                if self.rng.random() < 0.5:
                    self.send("PING")
            await self.linger()
        finally:
            for self.writer in writers:
                self.leave()
            self.writer = None

    async def operates(self):
        """Takes many places of the page or of the console. Others' attacks go on beside that."""
        if self.others:
            self.siege = self.siege or asyncio.create_task(self.occupy(self.rng.choice(self.others)))
            await self.linger()

    async def occupy(self, address):
        """Sends slowly, and takes the place again when it is closed."""
        places = []
        while True:
            places = [(reader, writer) for reader, writer in places if not reader.at_eof() and not writer.is_closing()]
            with contextlib.suppress(OSError):
                while len(places) < PLACES:
                    places.append(await asyncio.open_connection(*address))
                    places[-1][1].write(self.rng.choice((
                        b"", *[b"GET / HTTP/1.1\r\nX: "] * 4, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
                        b"POST / HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", encode("PING"),
                        b"*2\r\n$4\r\nAUTH\r\n$99\r\n")))
            for _, writer in places:
                writer.write(self.rng.choice((b"", b"x")))
            await asyncio.sleep(0.5)

    async def lies(self):
        """Returns errors by a script, which hasp must not take for its server's."""
        await self.open()
        for _ in range(self.rng.choice((1, 20))):
            error = self.rng.choice(ERRORS).format(slot=self.rng.randrange(16384), address="127.0.0.1:1")
            self.send("EVAL", "return {ok=ARGV[2]}" if error[0] == "+" else "return redis.error_reply(ARGV[2])",
                      1, self.key(), b"x" * self.rng.choice((0, 0, 20000)), error.lstrip("+"))
            if self.rng.random() < 0.5:
                self.send(*self.command())
        await self.drink()

    async def garbage(self):
        """Sends bytes that are no RESP, or nearly RESP."""
        await self.open(login=self.rng.random() < 0.5)
        count = self.rng.choice((-1, 0, 1, 3, 1024 * 1024, 1024 * 1024 + 1, 2**31 - 1, 2**31, 2**63, 10**30))
        await self.sent(self.rng.choice((
            self.rng.randbytes(self.rng.choice((1, 100, 70000))), b"*%d\r\n" % count, b"*3\r\n$%d\r\n" % count,
            b"*2\r\n$3\r\nGET\r\n$1\r\nabc\r\n", b"*1\r\n*1\r\n*1\r\n", b"$5\r\nhello\r\n", b"*1\n$4\nPING\n",
            b"\0" * 1000,
            b"\r\n" * 5000, b"PING\r\n" * 500, b"x" * 70000, b"GET 'a\r\n", b"*1\r\n$4\r\nPI",
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"*2\r\n$4\r\nLOCK\r\n$-1\r\n", b"*0\r\n" * 10000)))
        await self.drink()

    async def counts_high(self):
        """Requests with very many words. No WATCH: of 100,000 keys it keeps Redis busy for a minute."""
        await self.open()
        n = self.rng.choice((1000, 20000, 100000))
        words = [f"m:lock:{i}" for i in range(n)] if self.rng.random() < 0.5 else [self.key()] * n
        command = self.rng.choice((("DEL",), ("MGET",), ("EXISTS",), ("LOCK", "m:1"), ("EVAL", "return 1", n),
                                   ("MSET",),
                                   ("EVAL", "return 1", 2**62), ("SUBSCRIBE",), ("UNLOCK", "m:1")))
        await self.sent(encode(*command, *words))
        await self.drink(1)

    async def hoards(self):
        """Collects ever more locks, guards, read keys, queued commands, watched keys, channels and
        names."""
        await self.open()
        n = self.rng.choice((100, 3000, 10000))
        kind = self.rng.choice((("LOCK", "m:h:{}", "PX", 2000), ("SET", "m:lock:h{}", "v", "NX", "PX", 2000),
                                ("GET", "m:guard:h{}"),
                                ("WATCH", "m:{}"), ("SUBSCRIBE", "m:{}"), ("LOCK", "m:1", "AS", "o{}"),
                                ("SETNX", "m:lock:{}", "v")))
        if self.rng.random() < 0.3:
            self.send("MULTI")
        for i in range(n):
            self.send(*(word.format(i) if isinstance(word, str) else word for word in kind))
        await self.drink(1)
        await self.linger()

    async def waits(self):
        """Opens many connections that wait for one lock, and closes them in any way."""
        writers = []
        try:
            for _ in range(self.rng.choice((5, 30))):
                await self.open()
                writers.append(self.writer)
                self.send(*self.rng.choice((("LOCK", "m:1", "PX", 100, "WAIT", 3000),
                                            ("SET", "m:lock:1", "v", "NX", "PX", 100),
                                            ("GET", "m:guard:1"))))
            await self.drink(0.5)
        finally:
            for self.writer in writers:
                self.leave()
            self.writer = None

    async def long_names(self, *lengths):
        """Sends owners, keys, names and values that are far too long."""
        await self.open()
        long = b"l" * self.rng.choice(lengths or (1000, 10000, 100000))
        for _ in range(self.rng.choice((1, 10))):
            self.send(*self.rng.choice((("LOCK", b"m:" + long), ("LOCK", "m:1", "AS", long),
                                        ("CLIENT", "SETNAME", long),
                                        ("SETNX", b"m:lock:" + long, "v"), ("SETNX", "m:lock:2", long),
                                        ("GET", b"m:guard:" + long),
                                        ("LOCK", "m:1", "PX", long), ("UNLOCK", "m:1", "AS", long), (long, "m:1"),
                                        ("SUBSCRIBE", b"m:" + long),
                                        ("LOCK", "m:2", "PX", 100, "WAIT", 50, "AS", long))))
        await self.drink(0.5)

    async def longest_names(self):
        """Sends names of which hasp has several in each call of a script."""
        await self.long_names(MB)

    async def babbles(self):
        """Sends correct commands in any order, pipelined to any depth, cut anywhere."""
        await self.open()
        for _ in range(self.rng.choice((3, 30))):
            data = b"".join(encode(*self.command()) for _ in range(self.rng.choice((1, 3, 100))))
            cut = self.rng.randrange(len(data))
            await self.sent(data[:cut])
            if self.rng.random() < 0.1:
                return
            await self.sent(data[cut:])
            await self.drink(0.01)

    async def steals(self):
        """Attacks the locks and guards of others, by every command that there is."""
        await self.open()
        for _ in range(20):
            key = self.rng.choice(TARGETS)
            self.send(*self.rng.choice((
                ("LOCK", key), ("UNLOCK", key), ("DEL", key), ("SET", key, "mallory"),
                ("UNLOCK", key, "AS", "crowd"), ("GET", key),
                ("LOCK.EXTEND", key, "PX", 1), ("EVAL", "return redis.call('DEL', KEYS[1])", 1, key),
                ("RENAME", key, "m:1"),
                ("EVAL", "return redis.call('DEL', ARGV[1])", 0, key), ("PEXPIRE", key, 1),
                ("COPY", key, "m:1"), ("APPEND", key, "x"),
                ("GET", f"honest:t{self.rng.randrange(8)}:{self.rng.randrange(5)}"), ("MULTI",), ("EXEC",),
                ("WATCH", key), ("UNLOCK", key, "AS", f"c{self.rng.randrange(20)}.0"))))
        await self.drink()

    async def forges(self):
        """Writes keys that hasp keeps beside locks, and publishes what hasps send each other, as
        far as the ACL permits."""
        await self.open()
        key = self.rng.choice(TARGETS)
        side = self.rng.choice(SIDES).format(key)
        self.send("ZRANGE", f"hasp:queue:{{{key}}}", 0, -1)
        self.send("GET", f"hasp:fence:{{{key}}}")
        words = (await self.line() + await self.line()).split()
        worker = f"{self.rng.randrange(2**32):08x}"
        for _ in range(10):
            ticket = f"{worker}-{self.rng.randrange(1000)}"
            self.send(*self.rng.choice((
                ("SET", side, f"mallory {self.rng.choice(('x', '-', '1'))} {ticket}", "PX", 3000),
                ("DEL", side), ("HSET", side, "mallory", 1),
                ("ZADD", side, 1, f"{ticket} {worker} v 1 1 mallory "), ("PEXPIRE", side, 1),
                ("SET", "hasp:fence", 1), ("DEL", "hasp:fence"),
                ("PUBLISH", f"hasp:worker:{worker}", f"{ticket} {2**53} 1"),
                ("PUBLISH", "hasp:worker:", "x" * 100000),
                ("PUBLISH", f"redisson_lock__channel:{{{key}}}", "0"), ("SUBSCRIBE", f"hasp:worker:{worker}"),
                ("EVAL", "return redis.call('SET', KEYS[1], ARGV[1])", 1, side, b" ".join(words)))))
        await self.drink()


ATTACKS = ("slow", "huge", "half_sent", "never_reads", "before_login", "logs_in", "connects", "garbage", "counts_high",
           "hoards", "waits", "long_names", "longest_names", "babbles", "steals", "forges", "lies", "operates")


def acl(user):
    """Returns the permissions that hasp.ini(5) gives the users of locks, and keys of the user's
    own."""
    return ["--user", user, "on", f">{PASSWORD}", "~m:*", "~hasp:*", "&m:*", "&hasp:*",
    "&redisson_lock__channel:*", "+@all",
            "-@dangerous", "-@admin"]


async def besiege(args):
    rng = random.Random(args.seed)
    loop = asyncio.get_running_loop()
    clients = [Mallory(args, random.Random(rng.random())) for _ in range(args.clients)]
    tasks = [asyncio.create_task(client.run()) for client in clients]

    def end():
        for client, task in zip(clients, tasks):
            client.over = True
            task.cancel()

    loop.add_signal_handler(signal.SIGTERM, end)
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    faults = [task.exception() for task in done if not task.cancelled() and task.exception()]
    counts = sum((client.counts for client in clients), collections.Counter())
    print(", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    for fault in faults:
        if not isinstance(fault, Leak):
            raise fault
        print(f"LEAK {fault}")
    return 1 if faults else 0


def address(text):
    host, colon, port = text.rpartition(":")
    return text if text.startswith("/") else (host, int(port)) if colon else text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--only", type=lambda text: text.split(","), default=ATTACKS)
    parser.add_argument("--http", type=address, nargs="*", default=[])
    parser.add_argument("--consoles", type=address, nargs="*", default=[])
    parser.add_argument("addresses", type=address, nargs="+")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sys.exit(asyncio.run(besiege(parser.parse_args())))


if __name__ == "__main__":
    main()
