# SPDX-License-Identifier: BSD-3-Clause
"""A TLS socket that works like an ordinary socket.

Python's own TLS socket cannot be half closed: its shutdown() ends the encryption and continues in
plain text.
"""

import io
import socket
import ssl
import threading

RECORD = 1 << 14


class TlsAddress(tuple):
    """(host, port) of a TLS listener. A Connection to it uses `context`."""

    context = None

    @classmethod
    def of(cls, address, context):
        self = cls(address)
        self.context = context
        return self


class Encrypted(io.RawIOBase):
    """TLS over the connected socket `sock`, which it closes at the end. One thread may read while
    another one writes."""

    def __init__(self, sock, context, session=None):
        super().__init__()
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost", session=session)
        self.lock = threading.RLock()
        self.plain = b""  # decrypted bytes that the test has not read yet
        try:
            while not self._step(self.tls.do_handshake):
                self._feed()
        except BaseException:
            sock.close()
            raise

    def __getattr__(self, name):
        """Passes on attributes that do not concern the encryption."""
        return getattr(self.sock, name)

    def _flush(self):
        data = self.outgoing.read()
        if data:
            self.sock.sendall(data)

    def _step(self, do, *args):
        """Calls do(). Returns true if that is done, or TLS has ended; false if it needs input."""
        with self.lock:
            try:
                do(*args)
                return True
            except ssl.SSLZeroReturnError:
                return True
            except ssl.SSLWantReadError:
                return False
            finally:
                self._flush()

    def _feed(self):
        """Reads from the socket once."""
        data = self.sock.recv(RECORD)
        with self.lock:
            if data:
                self.incoming.write(data)
            else:
                self.incoming.write_eof()

    def _decrypt(self):
        """Returns the decrypted bytes that are there; None if it needs input; b"" at the end."""
        with self.lock:
            if self.plain:
                return self.plain
            try:
                self.plain = self.tls.read(RECORD)
                return self.plain
            except ssl.SSLZeroReturnError:
                return b""
            except ssl.SSLWantReadError:
                return None
            finally:
                self._flush()

    def sendall(self, data):
        """Returns when the kernel has all bytes."""
        view = memoryview(data)
        for at in range(0, len(view), RECORD):
            self._step(self.tls.write, view[at:at + RECORD])

    def send(self, data, *_):
        self.sendall(data)
        return len(data)

    def recv(self, size, flags=0):
        while (data := self._decrypt()) is None:
            self._feed()
        if flags & socket.MSG_PEEK:
            return self._peek(size)
        self.plain = data[size:]
        return data[:size]

    def _peek(self, size):
        """Returns up to `size` bytes that have arrived, without waiting."""
        before = self.sock.gettimeout()
        self.sock.settimeout(0)
        try:
            while len(self.plain) < size:
                with self.lock:
                    while self._decrypt_ahead():
                        pass
                self._feed()
        except BlockingIOError:
            pass
        finally:
            self.sock.settimeout(before)
        return self.plain[:size]

    def readable(self):
        return True

    def readinto(self, into):
        data = self.recv(len(into))
        into[:len(data)] = data
        return len(data)

    def recv_into(self, into, *_):
        return self.readinto(into)

    def makefile(self, *_args, **_options):
        return io.BufferedReader(self)

    def shutdown(self, how):
        """SHUT_WR ends the stream in TLS, and then in TCP."""
        if how == socket.SHUT_WR:
            self.close_notify()
        self.sock.shutdown(how)

    def close_notify(self):
        """Sends close_notify. Bytes from the peer can still be read."""
        with self.lock:
            while self._decrypt_ahead():
                pass
            self._step(self.tls.unwrap)

    def _decrypt_ahead(self):
        """Decrypts one more record, if one has arrived: OpenSSL refuses to end TLS while a record is unread."""
        if not self.incoming.pending and not self.tls.pending():
            return False
        try:
            data = self.tls.read(RECORD)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            return False
        self.plain += data
        return bool(data)

    def fileno(self):
        return self.sock.fileno()

    def close(self):
        """Sends close_notify if it can do so at once, as libraries do, and closes the socket."""
        if self.sock.fileno() >= 0:
            try:
                self.sock.settimeout(0)
                self.close_notify()
            except (OSError, ValueError):
                pass
            self.sock.close()
        super().close()
