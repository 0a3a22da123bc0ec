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
    """(host, port) where clients encrypt, by `context`: a Connection to it does."""

    context = None

    @classmethod
    def of(cls, address, context):
        self = cls(address)
        self.context = context
        return self


class Encrypted(io.RawIOBase):
    """`sock`: connected, and this one's from now on. It may be read and written at the same time, each by
    one thread."""

    def __init__(self, sock, context, session=None):
        super().__init__()
        self.sock = sock
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost", session=session)
        self.lock = threading.RLock()
        self.plain = b""  # decrypted, and not read yet
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
        """Whether it is done; else it wants input. The other side may have said the end before."""
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
        """Returns all decrypted bytes that are there; None: it needs more input; b"": the end."""
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
        """Returns when all bytes have been given to the kernel."""
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
        """Returns the bytes that are there, without waiting for more."""
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
        """Sends TLS' end; bytes from the other side can still be read."""
        with self.lock:
            while self._decrypt_ahead():
                pass
            self._step(self.tls.unwrap)

    def _decrypt_ahead(self):
        """Reads ahead, because OpenSSL sends its end only if no unread bytes are there."""
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
        """Sends TLS' end, as a library would, if that is possible at once."""
        if self.sock.fileno() >= 0:
            try:
                self.sock.settimeout(0)
                self.close_notify()
            except (OSError, ValueError):
                pass
            self.sock.close()
        super().close()
