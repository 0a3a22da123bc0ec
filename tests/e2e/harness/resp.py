# SPDX-License-Identifier: BSD-3-Clause
"""A RESP2/RESP3 connection without interpretation: bytes go in, whole frames come out.

Frames are the received bytes, so that a test can compare hasp's bytes with Redis' down to the last
CR LF.
"""

import socket

from .encrypted import Encrypted, TlsAddress
from .wait import PATIENCE


def encode(*args):
    """Returns a command as an array of bulk strings."""
    out = b"*%d\r\n" % len(args)
    for arg in args:
        if not isinstance(arg, bytes):
            arg = str(arg).encode()
        out += b"$%d\r\n%s\r\n" % (len(arg), arg)
    return out


def pipeline(connection, *commands):
    """Sends all commands in one write, and returns the replies."""
    connection.send(b"".join(encode(*command) for command in commands))
    return [connection.read() for _ in commands]


class Connection:
    """A connection to Redis or hasp. `address`: (host, port), or the path of a unix socket; a
    TlsAddress makes the connection use TLS.

    `receive_buffer`: how many bytes the kernel buffers for a client that does not read (in fact
    twice as many); otherwise up to tcp_rmem.
    `source`: the host to connect from."""

    def __init__(self, address, timeout=PATIENCE, receive_buffer=None, source=None):
        tcp = isinstance(address, tuple)
        family = socket.AF_UNIX if not tcp else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self.sock = socket.socket(family)
        if tcp:
            self.sock.settimeout(timeout)
            self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer:  # must be set before connect() announces a window
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            self.sock.bind((source, 0))
        self.sock.connect(address if tcp else str(address))
        # Only now, because connect() to a unix socket with a full backlog would fail at once.
        self.sock.settimeout(timeout)
        if isinstance(address, TlsAddress):
            self.sock = Encrypted(self.sock, address.context)
        self.file = self.sock.makefile("rb")

    def send(self, data):
        self.sock.sendall(data)

    def call(self, *args):
        """Sends one command and returns the next frame."""
        self.send(encode(*args))
        return self.read()

    def read(self):
        """Reads one frame. Attributes (`|`) belong to the frame that they describe."""
        line = self._line()
        kind, rest = line[:1], line[1:-2]
        if kind in b"+-:_#,(":
            return line
        if kind in b"$!=":
            return line + (self._stream() if rest == b"?" else self._bulk(int(rest)))
        if kind in b"*~>":
            return line + self._elements(rest, 1)
        if kind == b"%":
            return line + self._elements(rest, 2)
        if kind == b"|":
            return line + self._elements(rest, 2) + self.read()
        raise ValueError(f"not RESP: {line!r}")

    def at_end(self):
        """Returns true if the peer closes without sending anything more."""
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self):
        self.file.close()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _line(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError(f"connection closed after {line!r}")
        return line

    def _bulk(self, size):
        if size < 0:
            return b""
        data = self.file.read(size + 2)
        if len(data) != size + 2 or not data.endswith(b"\r\n"):
            raise EOFError(f"bulk of {size} ends after {len(data)} bytes")
        return data

    def _stream(self):
        """Returns the chunks of a streamed string (`$?`), the last of which is empty."""
        out = b""
        while True:
            line = self._line()
            out += line
            if line == b";0\r\n":
                return out
            out += self._bulk(int(line[1:-2]))

    def _elements(self, count, each):
        if count != b"?":
            return b"".join(self.read() for _ in range(max(int(count), 0) * each))
        out = b""
        while self.file.peek(1)[:1] != b".":
            out += self.read()
        return out + self._line()
