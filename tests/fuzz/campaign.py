# SPDX-License-Identifier: BSD-3-Clause
"""What campaigns share: connections that know when each reply came, and the hasp under test."""

import asyncio
import collections
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

from compare import encode
from delays import threads_of
from harness import Hasp

HASPS, WORKERS = 2, 2
BEAT = 0.005

now = time.monotonic

# A child ends with the thread that started it, so this thread stays.
STARTER = ThreadPoolExecutor(1)


async def aside(function, *args):
    """Runs a slow function beside the loop."""
    return await asyncio.get_running_loop().run_in_executor(STARTER, function, *args)


class Wire(asyncio.Protocol):
    """A connection that knows when each reply arrived."""

    def __init__(self):
        self.buffer = b""
        self.due = collections.deque()
        self.closed = None  # when the connection was closed

    @classmethod
    async def to(cls, address, number=None):
        loop = asyncio.get_running_loop()
        if isinstance(address, tuple):
            # Each hasp gets a local address of its own: so the port in a token identifies the
            # client.
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
        """Returns a future of (time of the answer, reply); None: the connection is lost."""
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


NIL = object()  # the reply nil; None: there is no reply


def parse(data, at):
    """Returns (reply, where it ends) of the frame at `at`; the end is 0 if the frame is
    incomplete."""
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


class Past:
    """A direct connection to Redis."""

    def __init__(self, redis):
        self.redis, self.wire = redis, None

    async def ask(self, *args):
        """Returns the reply; None if Redis does not answer, or answers with an error."""
        try:
            if not self.wire or self.wire.closed:
                self.wire = await Wire.to(self.redis.unix)
        except OSError:
            return None
        _, reply = await self.wire.ask(*args)
        return None if isinstance(reply, Error) else reply


class Subject:
    """The hasp under test."""

    def __init__(self, number, config):
        self.number, self.config = number, config
        self.start()
        self.address = self.hasp.address

    def start(self):
        self.hasp = Hasp(self.config)

    def end(self):
        """Returns hasp's fault, or None."""
        if self.hasp.running():
            fault = self.hasp.stop()
        else:
            fault = f"hasp left on its own with status {self.hasp.child.returncode}"
        fault = f"{fault}\n{self.hasp.log[-4000:]}" if fault else None
        self.hasp.remove()
        return fault


async def beat(world):
    """Measures how late this process runs."""
    while True:
        due = now() + BEAT
        await asyncio.sleep(BEAT)
        world.delays.beat(now(), now() - due)


async def feel(world, processes):
    """Measures how long threads wait for a processor: processes() returns the present [(whose,
    Process)]."""
    while True:
        await asyncio.sleep(0.02)
        for who, process in processes():
            for thread, _, waited in threads_of(process):
                world.starving.sample(now(), who, thread, waited)


async def come_to_their_end(world, clients, watching, timeout):
    """Waits for the tasks of clients, which are stopping; then cancels the tasks that watched
    them."""
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
