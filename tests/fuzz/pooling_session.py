# SPDX-License-Identifier: BSD-3-Clause
"""A session of tests/fuzz/pooling: one connection that sends, checks each reply, and leaves somehow."""

import asyncio
import collections
import socket
import struct
import time

from compare import encode
from pooling_commands import ADMIN, OWN, PASSWORD, PLAIN, PRIVATE, Commands, array, bulk

SLACK = 0.5  # seconds until this program sees what was done to Redis
FAR_BEHIND = 2**20  # a client that leaves so many bytes unread may get a link of its own
READ_AT_ONCE = 2**16  # Redis has sent so much before it looks again, and sees a half-close


class Ended(Exception):
    """The session cannot continue, for an allowed reason."""


class Wrong(Exception):
    """Something forbidden happened."""


class World:
    """The state that all sessions share."""

    def __init__(self, redis, address, has_verbs, hang):
        self.redis, self.address, self.has_verbs, self.hang = redis, address, has_verbs, hang
        self.stopping = False
        self.faults = []
        self.counts = collections.Counter()
        self.cuts = []      # [begin, end] of what was done to links
        self.restarted = 0.0  # when Redis was last restarted
        self.logs = []      # every session's Log

    def fault(self, text):
        self.faults.append(text)
        if len(self.faults) <= 10:
            print(f"FAULT {text}", flush=True)

    def was_cut(self, since):
        return any(end >= since - SLACK for _, end in self.cuts)

    async def admin(self, *commands):
        """Sends commands to Redis itself. Ended, if that was cut as well."""
        try:
            reader, writer = await asyncio.open_unix_connection(str(self.redis.unix), limit=2**22)
            try:
                commands = [("AUTH", ADMIN, PASSWORD), *commands]
                writer.write(b"".join(encode(*c) for c in commands))
                return [await read_frame(reader) for _ in commands][1:]
            finally:
                writer.close()
        except (OSError, EOFError) as e:
            raise Ended from e


async def read_frame(reader):
    line = await reader.readuntil(b"\r\n")
    kind = line[:1]
    if kind in b"$=" and line != b"$-1\r\n":
        return line + await reader.readexactly(int(line[1:]) + 2)
    if kind in b"*>~%" and line != b"*-1\r\n":
        count = int(line[1:]) * (2 if kind == b"%" else 1)
        return line + b"".join([await read_frame(reader) for _ in range(count)])
    return line


class Session(Commands):
    """One connection, and all that Redis should know of it."""

    def __init__(self, world, name, rng):
        super().__init__(world, name, rng)
        self.state = PLAIN
        self.since = 0.0    # since when a cut may be the reason of our end
        self.began = 0.0    # when the last request was sent, or the connection made
        self.may_lose = False  # Redis may drop the rest of the replies

    def burst(self):
        """Commands to be sent together. Once on a link of its own, a client is there until a
        shared one will do for what it sends while no reply is due."""
        steps = []
        for _ in range(self.rng.choice((1, 1, 1, 2, 3, 8, 30, 150))):
            state, _, command = self.rng.choices(
                self.COMMANDS, weights=[weight for _, weight, _ in self.COMMANDS])[0]
            if PRIVATE in (state, self.state):
                self.state = PRIVATE
            elif state == OWN or not steps:
                self.state = state
            steps += command(self)
        return steps

    # --- the connection -----------------------------------------------------------

    async def run(self):
        self.since = self.began = time.monotonic()
        try:
            self.reader, self.writer = await asyncio.open_connection(*self.world.address, limit=2**20)
        except OSError as e:
            raise Wrong(f"cannot connect: {e}") from e
        try:
            for _ in range(self.rng.choice((0, 1, 1, 2, 5, 20))):
                if self.world.stopping:
                    break
                roll = self.rng.random()
                if roll < 0.03:
                    await self.listen()
                elif roll < 0.06:
                    await self.block()
                else:
                    await self.exchange(self.burst())
                if self.rng.random() < 0.5:
                    await self.rest(self.rng.choice((0, 0.01, 0.1, 0.5)))
            await self.rng.choice((self.close, self.reset, self.half_close, self.quit,
                                   self.leave_in_the_middle))()
        finally:
            self.writer.close()

    async def exchange(self, steps, eof=False):
        # Its own link may have been cut when the last replies were on their way.
        self.since, self.began = self.began, time.monotonic()
        size = sum(len(expected) for _, expected, *_ in steps if isinstance(expected, bytes))
        if size > FAR_BEHIND:
            self.state = PRIVATE
        self.may_lose = eof and size > READ_AT_ONCE and self.state != PLAIN
        sending = asyncio.create_task(self.send(b"".join(data for data, *_ in steps), eof))
        try:
            for data, expected, *logs in steps:
                await self.expect(expected, data)
                for log in logs:
                    log.answered += 1
            await sending
        finally:
            sending.cancel()
        self.world.counts["replies"] += len(steps)

    async def send(self, data, eof=False):
        cuts = sorted(self.rng.randrange(len(data)) for _ in range(self.rng.choice((0, 0, 1, 3))))
        try:
            for begin, end in zip([0, *cuts], [*cuts, len(data)]):
                self.writer.write(data[begin:end])
                await self.writer.drain()
                if end < len(data):
                    await asyncio.sleep(self.rng.choice((0, 0.001, 0.01)))
            if eof:
                self.writer.write_eof()
        except OSError:
            pass  # the reader notices the closed connection

    async def expect(self, expected, request=b""):
        frame = await self.read()
        if callable(expected):
            good = expected(frame)
        elif isinstance(expected, bytes):
            good = frame == expected
        else:
            good = expected.fullmatch(frame)
        if good:
            return
        if frame.startswith((b"-ERR hasp: upstream", b"-LOADING")) and self.world.was_cut(self.since):
            raise Ended
        raise Wrong(f"{request[:100]!r} as {self.user} in {self.db} was answered by {frame[:200]!r}, "
                    f"not {expected if callable(expected) else str(expected)[:200]}")

    async def read(self):
        while True:
            try:
                return await asyncio.wait_for(read_frame(self.reader), self.world.hang)
            except asyncio.TimeoutError:
                if not self.world.was_cut(time.monotonic() - self.world.hang):
                    raise Wrong(f"no reply within {self.world.hang:.0f} s") from None
                # What was read of the frame is lost.
                raise Ended from None
            except asyncio.IncompleteReadError as e:
                self.check_end(f"with a reply due, {e.partial[:100]!r} of it there")
            except OSError as e:
                self.check_end(f"with a reply due: {e}")
            except (ValueError, asyncio.LimitOverrunError) as e:
                raise Wrong(f"not RESP: {e}") from e

    def check_end(self, how):
        if not self.may_lose and not self.world.was_cut(self.since):
            raise Wrong(f"closed {how}, and no link was cut; it {self.state}")
        self.world.counts["cut"] += 1
        raise Ended

    async def rest(self, seconds):
        """Checks that no bytes arrive unrequested."""
        try:
            data = await asyncio.wait_for(self.reader.read(100), seconds)
        except asyncio.TimeoutError:
            return
        except OSError:
            data = b""
        if data:
            raise Wrong(f"{data!r} came, and nothing was asked")
        if self.state == PLAIN:
            raise Wrong("closed at rest, though it shares a link")
        self.check_end("at rest")

    async def listen(self):
        """Waits for a message that another client publishes."""
        self.state = PRIVATE
        kind = b">" if self.proto == 3 else b"*"
        channel, token = self.key("channel").encode(), self.token().encode()
        await self.exchange([(encode("SUBSCRIBE", channel),
                              array(bulk(b"subscribe"), bulk(channel), b":1\r\n", kind=kind))])
        if await self.world.admin(("PUBLISH", channel, token)) != [b":1\r\n"]:
            self.check_end("as it listened")
        await self.expect(array(bulk(b"message"), bulk(channel), bulk(token), kind=kind))
        await self.exchange([(encode("UNSUBSCRIBE", channel), array(
            bulk(b"unsubscribe"), bulk(channel), b":0\r\n", kind=kind)), *self.echo()])

    async def block(self):
        """Waits for an element that another client pushes."""
        self.state = PRIVATE
        key, token = self.key(self.token()), self.token()
        pushing = asyncio.create_task(self.world.admin(("SELECT", self.db), ("RPUSH", key, token)))
        try:
            await self.exchange([(encode("BLPOP", key, 0), array(bulk(key.encode()), bulk(token.encode()))),
                                 *self.echo()])
        finally:
            # If it failed, so did we: it is cut only when all are.
            await asyncio.gather(pushing, return_exceptions=True)

    # --- ways to leave --------------------------------------------------------------

    async def close(self):
        pass

    async def reset(self, data=None):
        data = data or b"".join(step[0] for step in self.burst())
        self.writer.write(data)
        await asyncio.sleep(self.rng.choice((0, 0, 0.001, 0.02)))
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        self.world.counts["resets"] += 1

    async def leave_in_the_middle(self):
        data = b"".join(step[0] for step in self.burst())
        await self.reset(data[:self.rng.randint(1, len(data))])

    async def half_close(self):
        await self.exchange(self.burst(), eof=True)
        await self.expect_end()

    async def quit(self):
        self.state = PRIVATE
        await self.exchange([(encode("QUIT"), b"+OK\r\n")])
        await self.expect_end()

    async def expect_end(self):
        if await asyncio.wait_for(self.reader.read(100), self.world.hang):
            raise Wrong("something came behind the last reply")
