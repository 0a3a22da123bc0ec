#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Hostile servers: a sentinel and a cluster's node that lie to hasp.

    tests/fuzz/hostile_servers.py --seed S --node SOCKET

Started by tests/fuzz/hostile, as a process of its own. First it prints two addresses. Behind the
first is the sentinel: it names other primaries and other sentinels, all of which are itself, with
any epoch, or answers what no sentinel does. It prints a line with STOLEN when hasp sends it a
password. Behind the second is a node of a cluster of one, whose real server listens on SOCKET. It
passes everything on, but between the lines `war` and `peace` on its input it poisons the map of
the slots, redirects, spoils replies, answers without end, or not at all.
"""

import argparse
import asyncio
import contextlib
import random
import subprocess
import sys

import compare  # compare.py adds the harness to the path
from breaking_proxy import split
from harness.announcer import NAME, Announcer
from harness.cluster import SLOTS, Cluster
from harness.lies import ANSWERS

MB = 1024 * 1024
ENDLESS = 64 * MB     # bytes after which an endless reply ends, or the campaign would do nothing else
EPOCHS = (0, 1, -1, 2, 10**6, 10**15, 10**15, 10**15, 2**63 - 1, 2**63, 10**30, "x", "")
HOSTS = ("127.0.0.1", "127.0.0.1", "127.1.2.3", "", "x" * 300, "no such host", "\x1b[1m", "::1", "/tmp/s", "?")
REDIRECTIONS = ("MOVED {slot} {address}", "ASK {slot} {address}", "MOVED {slot} :{port}", "MOVED 99999 {address}",
                "MOVED", "ASK x y", "TRYAGAIN", "CLUSTERDOWN", "MOVED {slot} x:y", "LOADING", "MASTERDOWN", "READONLY",
                "NOAUTH", "NOSCRIPT", "NOPERM")


class Hostile:
    """A hostile server, which chooses at random how to treat each connection."""

    def __init__(self, rng):
        self.rng, self.open = rng, {}  # writer -> its task: asyncio keeps no reference

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.host, self.port = self.server.sockets[0].getsockname()
        self.address = f"{self.host}:{self.port}"

    async def serve(self, reader, writer):
        self.open[writer] = asyncio.current_task()
        try:
            with contextlib.suppress(OSError, EOFError):
                await self.treat(reader, writer)
        finally:
            del self.open[writer]
            writer.transport.abort()

    async def requests(self, reader):
        """Yields the words of each request."""
        buffer = b""
        while data := await reader.read(65536):
            buffer += data
            while found := split(buffer):
                words, end = found
                buffer = buffer[end:]
                yield [word.decode("latin1") for word in words] or ["PING"]  # a line

    async def garbage(self, reader, writer):
        async for _ in self.requests(reader):
            writer.write(self.rng.choice(ANSWERS))
            await writer.drain()

    async def endless(self, reader, writer):
        await reader.read(1)
        writer.write(self.rng.choice((b"", b"$400000000\r\n", b"*400000000\r\n", b"*2\r\n$300000000\r\n", b"+")))
        filler = self.rng.choice((b"x" * 65536, b"+x\r\n" * 16384, b"*1\r\n" * 16384))
        for _ in range(ENDLESS // len(filler)):
            writer.write(filler)
            await writer.drain()

    async def silent(self, reader, _):
        while await reader.read(65536):
            pass

    async def close(self, reader, _):
        if self.rng.random() < 0.7:
            await reader.read(1)


class Sentinel(Hostile):
    """The hostile sentinel, and all sentinels that it names."""

    async def treat(self, reader, writer):
        await self.rng.choice((*[self.lie] * 8, self.garbage, self.endless, self.silent, self.close))(
            reader, writer)

    async def lie(self, reader, writer):
        async for words in self.requests(reader):
            if words[:1] in (["AUTH"], ["HELLO"]):
                print("STOLEN", words[0], flush=True)
            writer.write(self.answer(words))
            await writer.drain()

    def answer(self, words):
        host, port = self.rng.choice(((self.host, self.port), (self.host, self.port), (self.host, 1),
                                      (self.rng.choice(HOSTS), self.port)))
        if words[0] == "SUBSCRIBE":
            text = f"mymaster 127.0.0.1 1 {self.host} {self.port}"
            return b"*3\r\n" + compare.encode("subscribe", words[1])[4:] + b":1\r\n" + compare.encode(
                "message", self.rng.choice(words[1:]), text) * self.rng.choice((0, 1, 1000))
        what = words[1] if len(words) > 1 else words[0]
        if what == "GET-MASTER-ADDR-BY-NAME":
            return compare.encode(host, port)
        if what == "MASTER":
            return compare.encode("name", "mymaster", "config-epoch", self.rng.choice(EPOCHS))
        if what == "SENTINELS":
            others = [compare.encode("name", "x", "ip", host, "port", port + n)
                      for n in range(self.rng.choice((0, 2, 5000)))]
            return b"*%d\r\n" % len(others) + b"".join(others)
        return self.rng.choice((b"+PONG\r\n", compare.encode("master", 1, "x"), b"-ERR\r\n"))


class Node(Hostile):
    def __init__(self, rng, socket):
        super().__init__(rng)
        self.socket, self.at_war = socket, False

    async def listen(self):
        """To the campaign."""
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self.at_war = line == b"war\n"
            for writer in list(self.open):
                if not self.at_war or self.rng.random() < 0.5:
                    writer.transport.abort()

    async def treat(self, reader, writer):
        how = self.relay
        if self.at_war:
            how = self.rng.choice((self.poison, self.poison, self.poison, self.redirect, self.spoil, self.garbage,
                                   self.endless, self.silent, self.close))
        await how(reader, writer)

    async def relay(self, reader, writer, change=lambda data: data):
        server, to_server = await asyncio.open_unix_connection(self.socket)
        back = asyncio.create_task(self.copy(server, writer, change))
        try:
            await self.copy(reader, to_server)
            await back
        finally:
            back.cancel()
            to_server.transport.abort()

    @staticmethod
    async def copy(reader, writer, change=lambda data: data):
        while data := await reader.read(65536):
            writer.write(change(data))
            await writer.drain()
        writer.write_eof()

    async def spoil(self, reader, writer):
        def change(data):
            at = self.rng.randrange(len(data))
            new = self.rng.choice((b"", b"\r\n", b"x", b"0", b"9", b"$", b"*", b"-", b":", b"+", data))
            return data if self.rng.random() < 0.5 else data[:at] + new + data[at + 1:]

        await self.relay(reader, writer, change)

    async def redirect(self, reader, writer):
        async for words in self.requests(reader):
            error = self.rng.choice(REDIRECTIONS).format(slot=self.rng.randrange(SLOTS), port=self.port, address=(
                self.rng.choice((self.address, self.address, "127.0.0.1:1", "127.9.9.9:1"))))
            writer.write(self.map(words) if words[0] == "CLUSTER" else b"-%s\r\n" % error.encode())
            await writer.drain()

    async def poison(self, reader, writer):
        """Lies only about the slot map; the real server answers the rest."""
        server, to_server = await asyncio.open_unix_connection(self.socket)
        back = asyncio.create_task(self.copy(server, writer))
        try:
            async for words in self.requests(reader):
                if back.done():
                    break
                if words[:1] == ["CLUSTER"]:
                    writer.write(self.map(words))
                else:
                    to_server.write(compare.encode(*(word.encode("latin1") for word in words)))
                await asyncio.gather(writer.drain(), to_server.drain())
        finally:
            back.cancel()
            to_server.transport.abort()

    # --- what it says of the cluster

    def map(self, words):
        what = words[1].upper() if len(words) > 1 else ""
        if what == "SLOTS":
            return self.slots()
        if what in ("INFO", "NODES"):
            text = self.info() if what == "INFO" else self.nodes()
            return b"$%d\r\n%s\r\n" % (len(text), text)
        return self.rng.choice(ANSWERS)

    def info(self):
        return "cluster_state:{}\r\ncluster_current_epoch:{}\r\n".format(
            self.rng.choice(("ok", "ok", "fail", "")), self.rng.choice(EPOCHS)).encode()

    def slots(self):
        rng = self.rng
        many = rng.choice((1, 2, 3, 500, 500, 2000, SLOTS))
        kind = rng.choice(("dead", "self", "overlap", "odd", "garbage"))
        if kind == "garbage":
            return rng.choice(ANSWERS)
        if kind == "overlap":
            ranges = [(0, SLOTS - 1, f"127.0.0.{n % 250 + 1}", rng.choice((1, self.port))) for n in range(many)]
        elif kind == "odd":
            ranges = [(rng.choice((0, -1, n)), rng.choice((n, SLOTS, SLOTS - 1, 2**63 - 1)), rng.choice(HOSTS),
                       rng.choice((0, 1, -1, self.port, 65536, 2**63 - 1))) for n in range(many)]
        else:
            step = SLOTS // many
            ranges = [(n * step, n * step + step - 1, f"127.{n >> 8 & 255}.{n & 255}.1" if kind == "dead" else self.host,
                       1 if kind == "dead" else self.port) for n in range(many)]
        return b"*%d\r\n" % len(ranges) + b"".join(
            b"*3\r\n:%d\r\n:%d\r\n*3\r\n$%d\r\n%s\r\n:%d\r\n$2\r\nid\r\n" % (first, last, len(host), host.encode(), port)
            for first, last, host, port in ranges)

    def nodes(self):
        """Slots that are given away to many others."""
        n = self.rng.choice((1, 10, 500, 2000))
        moving = " ".join(f"[{self.rng.choice((slot, -1, 99999))}-{self.rng.choice('<>>>')}-{slot % n:040x}]"
                          for slot in range(self.rng.choice((1, 100, SLOTS))))
        lines = [f"{'f' * 40} {self.address}@1 myself,master - 0 0 1 connected 0-{SLOTS - 1} {moving}"]
        lines += [f"{i:040x} 127.{i >> 8 & 255}.{i & 255}.2:1@1 master - 0 0 1 connected" for i in range(n)]
        return ("\n".join(lines) + "\n").encode()


class Neighbours:
    """These servers, and honest ones beside them: two sentinels, and the node's real server, which
    gets `options`."""

    def __init__(self, redis, options, args):
        self.cluster = Cluster(*options, primaries=1, replicas=0)
        (self.node,) = self.cluster.nodes
        self.sentinels = [Announcer(redis) for _ in range(2)]
        self.child = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", __file__, "--seed", args.seed, "--node", self.node.unix],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.breaks = args.breaks
        self.liar, address = self.child.stdout.readline().split()
        self.port = self.liar.rpartition(":")[2]
        self.node.ask("CONFIG", "SET", "cluster-announce-port", address.rpartition(":")[2])
        self.node.ask("CONFIG", "SET", "cluster-announce-ip", "127.0.0.1")
        self.upstreams = (f"sentinels = {' '.join([*(s.address for s in self.sentinels), self.liar])}\nmaster = {NAME}",
                          f"cluster = {address}")

    def say(self, word):
        self.child.stdin.write(f"{'war' if self.breaks == 'war' else word}\n")
        self.child.stdin.flush()
        if self.breaks == "sentinels":
            for sentinel in self.sentinels:
                sentinel.primary, sentinel.epoch = self, 10**6

    def stop(self):
        """Stops the servers. Returns a line for each stolen password."""
        output, _ = self.child.communicate()
        if self.child.returncode:
            raise RuntimeError("the hostile servers failed themselves")
        for sentinel in self.sentinels:
            sentinel.server.shutdown()
            sentinel.server.server_close()
        self.cluster.stop()
        return output.splitlines()


async def run(args):
    sentinel, node = Sentinel(random.Random(args.seed)), Node(random.Random(f"{args.seed} node"), args.node)
    await sentinel.start()
    await node.start()
    print(sentinel.address, node.address, flush=True)
    await node.listen()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", default="1")
    parser.add_argument("--node", required=True)
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
