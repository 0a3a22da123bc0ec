# SPDX-License-Identifier: BSD-3-Clause
"""A relay that delays requests and replies of hasp, by the kind of the connection."""

import socket
import threading

from .line import queue_of
from .relay import Relay, hang_up
from .replies import FENCE, NIL
from .wait import until


class Gates(Relay):
    """A relay that knows the kinds of hasp's connections: "own", "listening", and "link" for
    clients. It holds back requests or replies of the kinds that the last shut() names. `waiting`:
    the held pieces. `passed`: the replies that went through, by kind."""

    def __init__(self, target):
        self.requests, self.replies, self.waiting = set(), set(), []
        self.kinds, self.passed = {}, {"own": b"", "listening": b"", "link": b""}
        self.changed = threading.Condition()
        super().__init__(target)

    def shut(self, requests=(), replies=()):
        """Holds back requests and replies of these kinds of connections, and no others."""
        with self.changed:
            self.requests, self.replies = set(requests), set(replies)
            self.changed.notify_all()

    def open(self):
        self.shut()

    def cut_links(self, kind="link"):
        """Closes hasp's end of the links. The relay still forwards held requests to Redis."""
        for near, far in self.pairs:
            if self.kinds.get(far) == kind:
                hang_up(near)

    def cut(self):
        self.open()
        super().cut()

    def kind(self, far, data, replies):
        if not replies and b"SUBSCRIBE" in data:
            self.kinds[far] = "listening"
        elif not replies and b"\r\nCOMMAND\r\n" in data:
            self.kinds[far] = "own"
        return self.kinds.setdefault(far, "link")

    def _pass_on(self, data, source, sink, replies):
        far = source if replies else sink
        data = self._let_through(source, far, data, replies)
        sink.sendall(data)
        if replies:
            self.passed[self.kinds[far]] += data

    def _let_through(self, source, far, data, replies):
        """Waits until its gate is open. Returns `data` and the bytes that came after it."""
        kind = self.kind(far, data, replies)

        def is_open():
            return kind not in (self.replies if replies else self.requests)

        with self.changed:
            if not is_open():
                self.waiting.append(data)
            while not self.changed.wait_for(is_open, timeout=0.01):
                if piece := at_hand(source):
                    self.kind(far, piece, replies)
                    self.waiting.append(piece)
                    data += piece
        return data


def at_hand(source):
    """Returns the bytes that have arrived; b"" also at the end, which the next recv() reports."""
    try:
        return source.recv(65536, socket.MSG_DONTWAIT)
    except OSError:
        return b""


def subscribe(hasp, gates, plain):
    """Makes hasp subscribe, by a client that waits for a lock."""
    with hasp.connect() as one:
        assert one.call("LOCK", "other", "AS", "somebody") == FENCE
        assert one.call("LOCK", "other", "WAIT", 10) == NIL
    until(lambda: b"subscribe" in gates.passed["listening"], "hasp to subscribe")
    until(lambda: not plain.exists(queue_of("other")), "that client to leave the queue")
    hasp.take_turn()
