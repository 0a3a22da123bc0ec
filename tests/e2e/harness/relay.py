# SPDX-License-Identifier: BSD-3-Clause
"""A relay to Redis that can be cut, also between a command and its reply.

    with Relay(redis.address) as relay: hasp before relay.address ...
"""

import contextlib
import socket
import threading
import time


class Relay:
    """Copies bytes both ways between each client that connects and `target`, (host, port)."""

    def __init__(self, target):
        self.target = target
        self.swallows = False  # if true, the relay drops Redis' replies
        self.lost = set()  # ports, on Redis' side, of connections over which the relay forwards nothing any more
        # A reply, or a tuple of replies, that the relay holds back until this is None again.
        self.holds_back = None
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def cut(self):
        """Ends all connections and refuses new ones until mend()."""
        listener, self.listener = self.listener, None
        if listener:
            hang_up(listener)
        for pair in self.pairs:
            for end in pair:
                hang_up(end)
        self.pairs = []

    def mend(self):
        self.swallows = False
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=64)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                near, _ = listener.accept()
            except OSError:
                listener.close()
                return
            try:
                far = socket.create_connection(self.target)
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.pairs.append((near, far))
            if self.listener is not listener:  # cut() ran while this thread connected
                hang_up(near)
                hang_up(far)
            threading.Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near, far):
        """Copies both ways until both ends are closed. Only then closes the sockets, so that no
        other connection gets their numbers while a thread still uses them."""
        replies = threading.Thread(target=self._copy, args=(far, near, True), daemon=True)
        replies.start()
        self._copy(near, far, False)
        replies.join()
        near.close()
        far.close()

    def _copy(self, source, sink, replies):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._pass_on(data, source, sink, replies)
        hang_up(source)
        hang_up(sink)

    def _pass_on(self, data, source, sink, replies):
        """Forwards `data`. `replies`: it comes from Redis. Other kinds of relays override this."""
        if self.lost and (source if replies else sink).getsockname()[1] in self.lost:
            return
        while replies and self._is_held(data):
            time.sleep(0.001)
        if not (replies and self.swallows):
            sink.sendall(data)

    def _is_held(self, data):
        held = self.holds_back
        return data in held if isinstance(held, tuple) else data == held

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cut()


def hang_up(end):
    """Shuts the socket down, which also wakes threads that read from it."""
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
