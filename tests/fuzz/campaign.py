# SPDX-License-Identifier: BSD-3-Clause
"""What the campaigns against two hasps and their Redis share: connections that know when each reply
came, hasps that keep their port, and what goes wrong, one thing after the other.
"""

import asyncio
import collections
import os
import signal
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from compare import encode
from delays import threads_of
from harness import Hasp
from harness.processes import BUG
from lockchecker import HASP, KILLED, LINKS, REDIS, SUBSCRIPTION, Troubles

HASPS, WORKERS = 2, 2
BACK, BACK_TURNS = 60.0, 2400  # until every worker has its subscription back, on an idle machine
BEAT = 0.005

now = time.monotonic

# A child goes with the thread that started it: this one stays.
STARTER = ThreadPoolExecutor(1)


async def aside(function, *args):
    """Runs what takes its time beside the loop."""
    return await asyncio.get_running_loop().run_in_executor(STARTER, function, *args)


class Wire(asyncio.Protocol):
    """A connection that knows when each reply came."""

    def __init__(self):
        self.buffer = b""
        self.due = collections.deque()
        self.closed = None  # when

    @classmethod
    async def to(cls, address, number=None):
        loop = asyncio.get_running_loop()
        if isinstance(address, tuple):
            # Its own local address for each hasp: then a token tells by its port whose it is.
            local = (f"127.0.0.{2 + number}", 0)
            _, wire = await loop.create_connection(cls, *address, local_addr=local)
        else:
            _, wire = await loop.create_unix_connection(cls, str(address))
        return wire

    def connection_made(self, transport):
        self.transport = transport
        name = transport.get_extra_info("sockname")
        self.name = f"connection:{name[0]}:{name[1]}" if isinstance(name, tuple) else ""

    def data_received(self, data):
        at = now()
        self.buffer += data
        while self.buffer:
            frame, end = parse(self.buffer, 0)
            if not end:
                return
            self.buffer = self.buffer[end:]
            if not self.due:
                raise ValueError(f"a reply that nobody asked for: {frame}")
            future = self.due.popleft()
            if not future.done():
                future.set_result((at, frame))

    def eof_received(self):
        return False

    def connection_lost(self, _):
        self.closed = self.closed or now()
        while self.due:
            future = self.due.popleft()
            if not future.done():
                future.set_result((now(), None))

    def ask(self, *args):
        """A future of (when it was answered, the reply); None: the connection is lost."""
        future = asyncio.get_running_loop().create_future()
        if self.closed:
            future.set_result((now(), None))
            return future
        self.due.append(future)
        self.transport.write(encode(*args))
        return future

    def close(self):
        self.closed = self.closed or now()
        self.transport.close()

    def half_close(self):
        self.closed = self.closed or now()
        self.transport.write_eof()

    def reset(self):
        self.closed = self.closed or now()
        sock = self.transport.get_extra_info("socket")
        if sock.fileno() < 0:
            return  # the peer was faster
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()


class Error(bytes):
    """An error reply."""


NIL = object()  # unlike None, an answer


def parse(data, at):
    """(reply, where it ends) of the frame at `at`; the end is 0 when it is not whole."""
    end = data.find(b"\r\n", at)
    if end < 0:
        return None, 0
    kind, rest = data[at:at + 1], data[at + 1:end]
    end += 2
    if kind == b"+":
        return rest, end
    if kind == b"-":
        return Error(rest), end
    if kind == b":":
        return int(rest), end
    if kind == b"$":
        size = int(rest)
        if size < 0:
            return NIL, end
        if len(data) < end + size + 2:
            return None, 0
        return data[end:end + size], end + size + 2
    if kind != b"*":
        raise ValueError(f"not RESP2: {data[at:at + 100]!r}")
    items = []
    for _ in range(int(rest)):
        item, end = parse(data, end)
        if not end:
            return None, 0
        items.append(item)
    return items, end


class World:
    """What all clients share. The campaign that makes one adds fault(), which is told of faults."""

    def __init__(self, redis, subjects):
        self.redis, self.subjects = redis, subjects
        self.troubles = Troubles()
        self.stopping = False
        self.faults = []
        self.counts = collections.Counter()
        self.channels = (0.0, 0)  # when they were last counted, how many workers listen
        self.aside = None

    async def past(self, *args):
        """(when it was asked, when answered, Redis' own answer); None when it does not answer."""
        try:
            if not self.aside or self.aside.closed:
                self.aside = await Wire.to(self.redis.unix)
        except OSError:
            return now(), now(), None
        asked = now()
        answered, reply = await self.aside.ask(*args)
        return asked, answered, None if isinstance(reply, Error) else reply


class Subject:
    """A hasp on a port that it keeps when it is started again."""

    def __init__(self, number, config):
        self.number, self.config = number, config
        self.start()
        self.address = self.hasp.address

    def start(self):
        self.hasp = Hasp(self.config)

    def end(self, how):
        """Ends it by `how`; returns what was wrong with it, or None."""
        fault = None
        if not self.hasp.running():
            fault = f"hasp left on its own with status {self.hasp.child.returncode}"
        elif how == "kill":
            self.hasp.kill()
            fault = "hasp reported a bug" if BUG.search(self.hasp.log) else None
        else:
            fault = self.hasp.stop()
        fault = f"{fault}\n{self.hasp.log[-4000:]}" if fault else None
        self.hasp.remove()
        return fault


class Chaos:
    """What goes wrong, one thing after the other."""

    def __init__(self, world, rng, lease):
        self.world, self.rng, self.lease = world, rng, lease
        self.events = (self.stop_redis, self.kill_redis, self.stop_hasp, self.stop_hasp_for_long,
                       self.kill_hasp, self.forget_scripts, self.cut_all, self.cut_one, self.cut_one,
                       self.cut_subscribers, self.cut_one_subscriber)

    async def run(self, end):
        todo = self.rng.sample(self.events, len(self.events))
        while now() < end:
            await asyncio.sleep(self.rng.uniform(0.2, 1.2))
            event = todo.pop() if todo else self.rng.choice(self.events)
            self.world.counts[event.__name__.replace("_", " ")] += 1
            await event()

    async def stop_redis(self):
        trouble = self.world.troubles.add(REDIS, None, now())
        self.world.redis.signal(signal.SIGSTOP)
        await asyncio.sleep(self.rng.choice((0.02, 0.1, 0.3, 1.0)))
        self.world.redis.signal(signal.SIGCONT)
        trouble[3] = now()

    async def kill_redis(self):
        trouble = self.world.troubles.add(REDIS, None, now())
        listening = self.world.troubles.add(SUBSCRIPTION, None, now())
        links = self.world.troubles.add(LINKS, None, now())
        await aside(self.world.redis.kill)
        await asyncio.sleep(self.rng.choice((0, 0.05, 0.3)))
        await aside(self.world.redis.start)
        trouble[3] = links[3] = now()
        await self.until_back(listening)

    async def stop_hasp(self, choices=(0.02, 0.1, 0.3, 1.0)):
        subject = self.rng.choice(self.world.subjects)
        trouble = self.world.troubles.add(HASP, subject.number, now())
        subject.hasp.signal(signal.SIGSTOP)
        await asyncio.sleep(self.rng.choice(choices))
        subject.hasp.signal(signal.SIGCONT)
        trouble[3] = now()

    async def stop_hasp_for_long(self):
        """Longer than any lease."""
        await self.stop_hasp((2 * self.lease,))

    async def kill_hasp(self):
        subject = self.rng.choice(self.world.subjects)
        trouble = self.world.troubles.add(HASP, subject.number, now())
        killed = self.world.troubles.add(KILLED, subject.number, now())
        fault = await aside(subject.end, "kill")
        if fault:
            self.world.fault(fault)
        await aside(subject.start)
        trouble[3] = killed[3] = now()

    async def forget_scripts(self):
        await self.world.past("SCRIPT", "FLUSH")

    async def cut_all(self):
        await self.cut("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")

    async def cut_one(self):
        """Of a client's, of many clients', or hasp's own."""
        ids = await self.ids(listens=False)
        if ids:
            await self.cut("CLIENT", "KILL", "ID", self.rng.choice(ids))

    async def cut_subscribers(self):
        await self.cut_listening("CLIENT", "KILL", "TYPE", "pubsub")

    async def cut_one_subscriber(self):
        ids = await self.ids(listens=True)
        if ids:
            await self.cut_listening("CLIENT", "KILL", "ID", self.rng.choice(ids))

    async def ids(self, listens):
        """Of the connections that have subscribed to something, or have not."""
        _, _, clients = await self.world.past("CLIENT", "LIST")
        return subscribed(clients or b"", listens)

    async def cut(self, *command):
        trouble = self.world.troubles.add(LINKS, None, now())
        await self.world.past(*command)
        trouble[3] = now()

    async def cut_listening(self, *command):
        trouble = self.world.troubles.add(SUBSCRIPTION, None, now())
        await self.world.past(*command)
        await self.until_back(trouble)

    async def until_back(self, trouble):
        """Every worker has its subscription again."""
        # Redis has ended the old ones by now, so that a client that was counted since listens anew.
        since = now()
        # (A worker listens from its first client that waits on: on a busy machine that may be long after it
        # began.) Each turn is as much longer than it should be as hasp has to wait for its turn.
        for _ in range(BACK_TURNS):
            at, n = self.world.channels
            if at > since and n >= HASPS * WORKERS:
                break
            await asyncio.sleep(BACK / BACK_TURNS)
        else:
            self.world.fault(f"only {self.world.channels[1]} workers listen {now() - since:.0f} s after trouble")
        trouble[3] = now()


def subscribed(clients, listens):
    """The ids of those in the answer of CLIENT LIST that listen to a channel, or do not; but for
    the client that asks."""
    ids = []
    for line in clients.splitlines():
        fields = dict(field.split(b"=", 1) for field in line.split(b" "))
        if fields[b"cmd"] != b"client|list" and (fields[b"sub"] != b"0") == listens:
            ids.append(fields[b"id"])
    return ids


async def beat(world):
    """Measures how late everything here is."""
    while True:
        due = now() + BEAT
        await asyncio.sleep(BEAT)
        world.delays.beat(now(), now() - due)


async def feel(world, processes):
    """How long threads wait for a processor: processes() tells [(whose, Process)] of now."""
    while True:
        await asyncio.sleep(0.02)
        for who, process in processes():
            for thread, _, waited in threads_of(process):
                world.starving.sample(now(), who, thread, waited)


async def come_to_their_end(world, clients, watching, timeout):
    """The tasks of the clients, which are stopping; then those that watched them are ended."""
    await asyncio.wait(clients, timeout=timeout)
    for task in clients:
        if not task.done():
            world.fault("a client did not come to its end")
        elif task.exception():
            raise task.exception()
    for task in watching:
        task.cancel()
    for task in watching:
        await asyncio.wait((task,))
        if not task.cancelled() and task.exception():
            raise task.exception()
