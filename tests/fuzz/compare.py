# SPDX-License-Identifier: BSD-3-Clause
"""Sends a stream of commands to Redis and to a proxy, and compares all that comes back.

    stream --> Redis                  reference: the snapshot at each `sync`
    stream --> proxy --> same Redis   must reach the same snapshot, and stay there

A snapshot has the bytes that each connection received, whether it was closed, how many clients are
blocked in Redis, and the digest of the data set. Redis is emptied before each run.

With Redis itself, no time-out decides that nothing more will come: another connection, the gauge, sends
PING until four answers in a row brought nothing new on any connection. Redis has one thread, so by then
it has accepted a new connection (in the turn of its loop that answers the first PING), read the bytes
sent there (the second), and written its replies (the third). Then the proxy may take some time to reach
the same snapshot. A wrong byte fails at once; a missing byte fails after a time-out, which does not count
the time in which a thread of the proxy or of a server ran or waited for a processor.

Some bytes differ between runs, so they are normalised: the `id` in HELLO's reply; time and address in
MONITOR's lines. Lines about the gauge's commands, and about hasp's questions about unknown commands, are
removed. HELLO's mode is replaced, because it shows whether a cluster is behind hasp.
"""

import fcntl
import hashlib
import pathlib
import random
import re
import socket
import struct
import sys
import termios
import time
from dataclasses import dataclass

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests" / "e2e"))

from delays import threads_of  # noqa: E402
from harness import encode  # noqa: E402
from harness.wait import ready  # noqa: E402

TIMEOUT = 4.0           # seconds in which the proxy must bring the next bytes of a reply
BLOCKED_TIMEOUT = 2.0   # for blocking commands to run out
SIOCOUTQ = termios.TIOCOUTQ

HELLO_ID = re.compile(rb"\$2\r\nid\r\n:\d+\r\n")
MODE = b"$4\r\nmode\r\n"
MONITOR_LINE = re.compile(rb"\+\d+\.\d{6} \[(\d+) [^\]]*\]")
MONITOR_GAUGE = re.compile(rb"\+T \[\d+\] (\"PING\" \"\^gauge\^\"|\"INFO\" \"(clients|replication)\""
                           rb"|\"DEBUG\" \"DIGEST\"|\"COMMAND\" \"INFO\" [^\r\n]*)\r\n")


def normalise(data):
    if b"id\r\n:" in data:
        data = HELLO_ID.sub(b"$2\r\nid\r\n:N\r\n", data).replace(MODE + b"$7\r\ncluster\r\n",
                                                                MODE + b"$10\r\nstandalone\r\n")
    if b"] \"" in data:
        data = MONITOR_LINE.sub(rb"+T [\1]", data)
        data = MONITOR_GAUGE.sub(b"", data)
    return data


@dataclass
class Snapshot:
    received: dict   # connection's name -> bytes, normalised
    closed: dict     # connection's name -> bool
    blocked: int     # clients blocked in Redis
    digest: bytes    # of the whole data set

    def difference(self, other):
        """Returns the difference of `other` as one line, or None."""
        for name, mine in self.received.items():
            theirs = other.received[name]
            if mine != theirs:
                at = first_difference(mine, theirs)
                return (f"connection {name}, byte {at} of {len(mine)}/{len(theirs)}:"
                        f" expected {excerpt(mine, at)} got {excerpt(theirs, at)}")
            if self.closed[name] != other.closed[name]:
                return f"connection {name}: " + (
                    "Redis closed it, the proxy did not" if self.closed[name]
                    else "the proxy closed it, Redis did not")
        if self.blocked != other.blocked:
            return f"{self.blocked} blocked in Redis, {other.blocked} through the proxy"
        if self.digest != other.digest:
            return "the data sets differ"
        return None

    def ruled_out_by(self, other):
        """Returns true if waiting cannot make `other` the same (except for half a HELLO)."""
        return any(not mine.startswith(other.received[name])
                   or (other.closed[name] and not self.closed[name])
                   for name, mine in self.received.items())


def first_difference(a, b):
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(i for i in range(n) if a[i] != b[i])


def excerpt(data, at, before=24, after=72):
    return repr(data[max(at - before, 0):at + after])[1:]


class Gauge:
    """The campaign's own, direct connection to Redis."""

    def __init__(self, server):
        self.connection = server.connect()
        self.connection.sock.settimeout(30)

    def ping(self):
        self.connection.call("PING", "^gauge^")

    def blocked(self):
        return self._info(b"blocked_clients")

    def digest(self):
        return self.connection.call("DEBUG", "DIGEST")

    def reset(self):
        """Empties the server, and waits until the clients of the last run have left. If they stay,
        closes their connections, and returns a text that says so."""
        for args in (("FLUSHALL",), ("SCRIPT", "FLUSH"), ("FUNCTION", "FLUSH")):
            self.connection.call(*args)
        deadline = time.monotonic() + TIMEOUT
        while self._leftovers():
            if time.monotonic() > deadline:
                for kind in ("normal", "pubsub"):
                    self.connection.call("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
                return "a client that hung up is still blocked, tracked or subscribed in Redis"
            time.sleep(0.002)
        return None

    def _leftovers(self):
        """What clients that are not gone do to others."""
        return (self.blocked() or self._info(b"tracking_clients") or
                any(self._info(b"pubsub%s" % what, b"stats")
                    for what in (b"_channels", b"_patterns", b"shard_channels")))

    def _info(self, field, section=b"clients"):
        reply = self.connection.call("INFO", section)
        return int(re.search(rb"\b%s:(\d+)" % field, reply)[1])


class Gauges:
    """The same for a cluster's nodes, each of which has a part of the data."""

    # What a node with keys mixes into its digest besides them: the number of the database.
    DATABASE = hashlib.sha1(hashlib.sha1(bytes(4)).digest()).digest()

    def __init__(self, nodes):
        self.parts = [Gauge(node) for node in nodes]

    def ping(self):
        for part in self.parts:
            part.ping()

    def blocked(self):
        return sum(part.blocked() for part in self.parts)

    def digest(self):
        """Returns the digest of a single server with all keys: each key's digest is combined by
        exclusive or."""
        whole = bytes(20)
        for part in self.parts:
            digest = bytes.fromhex(part.digest()[1:-2].decode())
            if any(digest):
                whole = exclusive_or(whole, exclusive_or(digest, self.DATABASE))
        keys = sum(int(part.connection.call("DBSIZE")[1:-2]) for part in self.parts)
        return b"+%s\r\n" % (exclusive_or(whole, self.DATABASE) if keys else whole).hex().encode()

    def reset(self):
        return next(filter(None, [part.reset() for part in self.parts]), None)


def exclusive_or(one, other):
    return bytes(a ^ b for a, b in zip(one, other))


class Peer:
    """One connection of the client under test; never blocks."""

    def __init__(self, address):
        self.sock = socket.create_connection(address, 5)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.received = bytearray()
        self.closed = False
        self.writable = True
        self.sent = 0

    def drain(self):
        """Reads the bytes that are there. Returns true if there were any, except MONITOR's lines
        about the gauge."""
        got = False
        while not self.closed:
            try:
                data = self.sock.recv(1 << 18)
            except BlockingIOError:
                break
            except ConnectionError:
                data = b""
            if data:
                self.received += data
                got = got or normalise(data) != b""
            else:
                self.closed = got = True
        return got

    def write(self, data):
        """Sends a part of `data`. Returns how many bytes were sent; 0 if there is no room yet."""
        if not self.writable:
            return len(data)
        try:
            n = self.sock.send(data)
            self.sent += n
            return n
        except BlockingIOError:
            return 0
        except ConnectionError:
            self.writable = False
            return len(data)

    def half_close(self):
        self.writable = False
        try:
            self.sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # closed by the other side already

    def unsent(self):
        return struct.unpack("i", fcntl.ioctl(self.sock, SIOCOUTQ, b"\0" * 4))[0]

    def close(self):
        self.sock.close()


class Work:
    """Measures the work of processes: each thread with work runs, or waits for a processor."""

    def __init__(self, processes):
        self.processes = processes
        self.seen = self._look()

    def _look(self):
        return {(process.pid, thread): ran + waited
                for process in self.processes for thread, ran, waited in threads_of(process)}

    def done(self):
        """Returns how many seconds the busiest thread has worked since the last call."""
        before, self.seen = self.seen, self._look()
        return max((total - before.get(thread, total) for thread, total in self.seen.items()), default=0.0)


class Run:
    """Sends a stream to one address. `processes` take part in the answers."""

    def __init__(self, stream, address, gauge, timeout=TIMEOUT, processes=()):
        self.stream = stream
        self.timeout = timeout
        self.processes = processes
        self.address = address
        self.gauge = gauge
        self.peers = {}
        self.rng = random.Random(stream.seed)  # the same cuts on every run

    def reference(self):
        """Runs with Redis itself, and returns the snapshots."""
        snapshots = []
        for step in self._steps():
            self._settle()
            if step.unblock:
                self._wait_for_unblocked()
            snapshots.append(self._snapshot())
        return snapshots

    def follow(self, snapshots):
        """Runs with the proxy, and returns the first difference, or None."""
        for number, step in enumerate(self._steps()):
            difference = self._reach(snapshots[number])
            if difference:
                return f"sync {number}: {difference}"
        return None

    def close(self):
        for peer in self.peers.values():
            peer.close()

    def _steps(self):
        """Sends the stream, and stops at every sync so that the caller can compare."""
        for step in self.stream.steps:
            if step.act == "sync":
                yield step
                continue
            if step.conn not in self.peers:
                self.peers[step.conn] = Peer(self.address)
            peer = self.peers[step.conn]
            if step.act == "send":
                self._send(peer, step)
            elif step.act == "halfclose":
                peer.half_close()
            elif step.act == "close":
                peer.close()
                del self.peers[step.conn]
            else:
                raise ValueError(step.act)

    def _send(self, peer, step):
        data = b"".join(step.atoms)
        for chunk in cut(data, step.mode, self.rng):
            view = memoryview(chunk)
            while view:
                n = peer.write(view)
                view = view[n:]
                if n == 0:
                    self._drain()
                    ready(self._open_sockets(), [peer.sock], timeout=1)
            if step.mode == "paused":
                time.sleep(self.rng.choice((0, 0, 0.0003, 0.001)))
        self._drain()

    def _drain(self):
        return any([peer.drain() for peer in self.peers.values()])

    def _settle(self, rounds=2):
        sent = sum(peer.sent for peer in self.peers.values())
        rounds += min(sent >> 14, 64)
        quiet = 0
        while quiet < 4 or rounds > 0:
            self.gauge.ping()
            rounds -= 1
            busy = self._drain() or any(peer.unsent() for peer in self.peers.values()
                                        if peer.writable and not peer.closed)
            quiet = 0 if busy else quiet + 1

    def _wait_for_unblocked(self):
        deadline = time.monotonic() + BLOCKED_TIMEOUT
        while self.gauge.blocked() and time.monotonic() < deadline:
            time.sleep(0.002)
        self._settle()

    def _snapshot(self):
        return Snapshot({name: normalise(bytes(peer.received))
                         for name, peer in self.peers.items()},
                        {name: peer.closed for name, peer in self.peers.items()},
                        self.gauge.blocked(), self.gauge.digest())

    def _reach(self, expected):
        deadline = time.monotonic() + self.timeout
        work = Work(self.processes)
        settled = False
        while True:
            progress = self._drain()
            now = time.monotonic()
            if now > deadline:
                deadline += work.done()
            if progress:
                deadline = max(deadline, now + self.timeout)
            if self._far_from(expected) and now < deadline:
                self._wait_for_input()
                continue
            seen = self._snapshot()
            work.done()  # work for the snapshot does not count
            difference = expected.difference(seen)
            if now > deadline or (settled and not difference):
                return difference
            if difference:
                if expected.ruled_out_by(seen):
                    deadline = min(deadline, now + 0.2)
                settled = False
                self._wait_for_input()
            else:
                # Reads once more: bytes that should not come may follow.
                self.gauge.ping()
                self.gauge.ping()
                settled = True

    def _far_from(self, expected):
        """A cheap first look: comparing megabytes after every read would be slow, and asking servers for digests would
        keep them from what they are to answer."""
        return any(not peer.closed and self._lacks(peer.received, expected.received[name])
                   for name, peer in self.peers.items())

    @staticmethod
    def _lacks(received, expected):
        """Returns true if the bytes so far are right, but incomplete."""
        if len(expected) - len(received) > 4096:
            return True
        data = normalise(bytes(received))
        return len(data) < len(expected) and expected.startswith(data)

    def _wait_for_input(self):
        ready(self._open_sockets(), timeout=0.001)

    def _open_sockets(self):
        return [peer.sock for peer in self.peers.values() if not peer.closed]


def cut(data, mode, rng):
    """Returns the chunks in which to send `data`."""
    if mode == "whole" or len(data) < 2:
        return [data]
    if mode == "bytes":
        return [data[i:i + 1] for i in range(len(data))]
    at = sorted(rng.randrange(1, len(data)) for _ in range(rng.randint(1, 8)))
    return [data[a:b] for a, b in zip([0] + at, at + [len(data)])]


__all__ = ["Gauge", "Gauges", "Run", "Snapshot", "encode", "TOP"]
