# SPDX-License-Identifier: BSD-3-Clause
"""A proxy that copies bytes and gets something wrong now and then, on purpose.

The testers are tested with it: each must accept `none` and find every other
fault. Replies pass through `_spoil`, one chunk as read from Redis at a time.

    none        nothing is wrong
    drop        a byte of a reply is missing
    duplicate   a byte of a reply comes twice
    swap        two neighbouring bytes of a reply change places
    swallow     a whole chunk of replies is missing
    extra       a reply that nobody asked for
    hold        a chunk of replies waits until the next one
    deaf        a client's half-close is not passed on
    open        Redis closes, the client is not told
    cut         what Redis says of a protocol error is lost
    request     a byte of a request comes twice
    hang        after a while, nothing passes any more
    leak        clients' sockets are never closed
"""

import socket
import threading

FAULTS = ("none", "drop", "duplicate", "swap", "swallow", "extra", "hold", "deaf",
          "open", "cut", "request", "hang", "leak")


class FaultyProxy:
    def __init__(self, upstream, fault="none", every=40):
        """`upstream` is (host, port); the fault happens at every so many chunks."""
        assert fault in FAULTS
        self.upstream, self.fault, self.every = upstream, fault, every
        self.chunks = 0
        self.leaked = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=511)
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            server = socket.create_connection(self.upstream)
        except OSError:
            client.close()
            return
        for sock in (client, server):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        up = threading.Thread(target=self._requests, args=(client, server), daemon=True)
        up.start()
        self._replies(server, client)
        up.join()
        if self.fault == "leak":
            self.leaked.append(client)
        else:
            client.close()
        server.close()

    def _requests(self, client, server):
        try:
            while data := client.recv(65536):
                if self.fault == "request" and self._due():
                    data = data[:1] + data
                if self.fault == "hang" and self.chunks > 10 * self.every:
                    continue
                try:
                    server.sendall(data)
                except OSError:
                    return  # what Redis said before it closed is still to be read
            if self.fault != "deaf":
                server.shutdown(socket.SHUT_WR)
        except OSError:
            shut(server)

    def _replies(self, server, client):
        held = b""
        try:
            while data := server.recv(65536):
                due = self._due()
                if due and self.fault == "hold":
                    held += data
                    continue
                client.sendall(held + self._spoil(data, due))
                held = b""
        except OSError:
            pass
        if self.fault not in ("open", "leak"):
            shut(client)

    def _due(self):
        self.chunks += 1
        return self.chunks % self.every == 0

    def _spoil(self, data, due):
        if self.fault == "cut" and b"-ERR Protocol error" in data:
            return data[:data.index(b"-ERR Protocol error")]
        if not due:
            return data
        i = len(data) // 2
        if self.fault == "drop":
            return data[:i] + data[i + 1:]
        if self.fault == "duplicate":
            return data[:i + 1] + data[i:]
        if self.fault == "swap":
            return data[:i - 1] + data[i:i + 1] + data[i - 1:i] + data[i + 1:]
        if self.fault == "swallow":
            return b""
        if self.fault == "extra":
            return data + b"+OK\r\n"
        return data  # the other faults do not change data


def shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
