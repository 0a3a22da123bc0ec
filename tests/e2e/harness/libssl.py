# SPDX-License-Identifier: BSD-3-Clause
"""A TLS client that can do what Python's ssl cannot: update keys, renegotiate, and end without
close_notify.

    with Libssl(tls_address(hasp)) as c: c.write(b"..."); c.update_keys(); c.read(100)
"""

import ctypes
import ctypes.util
import socket

from .wait import PATIENCE

KEY_UPDATE_REQUESTED = 1  # asks the peer to update its keys, too
TLS1_2, TLS1_3 = 0x0303, 0x0304
SET_MIN_VERSION, SET_MAX_VERSION = 123, 124


def library():
    lib = ctypes.CDLL(ctypes.util.find_library("ssl"))
    for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
        getattr(lib, name).restype = ctypes.c_void_p
    return lib


class Libssl:
    """A connection that accepts any certificate. `receive_buffer`: see Connection."""

    def __init__(self, address, version=TLS1_3, receive_buffer=None):
        self.lib = library()
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.connect(address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The library has no time-outs of its own, but obeys the kernel's.
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, PATIENCE.to_bytes(8, "little") + bytes(8))
        self.context = ctypes.c_void_p(self.lib.SSL_CTX_new(ctypes.c_void_p(self.lib.TLS_client_method())))
        for bound in SET_MIN_VERSION, SET_MAX_VERSION:
            self.lib.SSL_CTX_ctrl(self.context, bound, ctypes.c_long(version), None)
        self.ssl = ctypes.c_void_p(self.lib.SSL_new(self.context))
        self.lib.SSL_set_fd(self.ssl, self.sock.fileno())
        assert self.lib.SSL_connect(self.ssl) == 1

    def write(self, data):
        assert self.lib.SSL_write(self.ssl, data, len(data)) == len(data)

    def read(self, size):
        """Returns exactly `size` bytes, or fewer at the end of the connection."""
        data, into = b"", ctypes.create_string_buffer(1 << 16)
        while len(data) < size:
            n = self.lib.SSL_read(self.ssl, into, min(size - len(data), len(into)))
            if n <= 0:
                break
            data += into.raw[:n]
        return data

    def update_keys(self):
        """Updates the keys of both directions: ours at once, the peer's with its next bytes."""
        assert self.lib.SSL_key_update(self.ssl, KEY_UPDATE_REQUESTED) == 1
        assert self.lib.SSL_do_handshake(self.ssl) == 1

    def renegotiate(self):
        """Returns true if the peer accepts another handshake."""
        assert self.lib.SSL_renegotiate(self.ssl) == 1
        return self.lib.SSL_do_handshake(self.ssl) == 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.SSL_free(self.ssl)
        self.lib.SSL_CTX_free(self.context)
        self.sock.close()
