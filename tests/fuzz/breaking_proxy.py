# SPDX-License-Identifier: BSD-3-Clause
"""A proxy between hasp and Redis that breaks hasp's scripts on their way, on purpose.

hasp sends a script's text in EVAL, and calls it by the text's SHA1 in EVALSHA. The proxy replaces
both by those of the broken text, so Redis never knows the intact script.

Each campaign must find every defect of BREAKS that concerns it.
"""

import hashlib
import socket
import threading

from lua_scripts import NAMES, broken_by, script_text

# name -> what is broken in the scripts' sources; see lua_scripts.py
BREAKS = {
    # Does not ask which client has the lock.
    "owner": ("release_by_anybody",),
    # The script hands the lock off as it is.
    "keep": ("hand_off_held",),
    # Two waiters of different owners get the lock, in the layout `count`.
    "twice": ("two_owners",),
}


class BreakingProxy:
    """`upstream` is the path of a unix socket, `address` what hasp connects to, `breaks` are as
    in BREAKS."""

    def __init__(self, upstream, breaks):
        self.upstream = upstream
        self.broken = {script_text(name): script_text(name, breaks) for name in NAMES if broken_by(name, breaks)}
        self.shas = {}       # hash of the text that hasp knows -> hash of the text that Redis got
        self.applied = set()  # texts that the proxy has replaced
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=511)
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.listener.close()

    def complete(self):
        """Returns true if each broken script has come by: hasp was built of these sources."""
        return len(self.applied) == len(self.broken)

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(str(self.upstream))
            except OSError:  # Redis is down: the client's connection closes, too
                near.close()
                far.close()
                continue
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for target, a, b in ((self._requests, near, far), (self._copy, far, near)):
                threading.Thread(target=target, args=(a, b), daemon=True).start()

    def _copy(self, source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        shut(sink)
        shut(source)

    def _requests(self, source, sink):
        buffer = b""
        try:
            while data := source.recv(65536):
                buffer += data
                out = []
                while (argv_end := split(buffer)) is not None:
                    argv, end = argv_end
                    out.append(self._break(argv, buffer[:end]))
                    buffer = buffer[end:]
                sink.sendall(b"".join(out))
        except OSError:
            pass
        shut(sink)
        shut(source)

    def _break(self, argv, raw):
        name = argv[0].upper() if argv else b""
        if name == b"EVALSHA":
            argv[1] = self.shas.get(argv[1].lower(), argv[1])
        elif name == b"EVAL" and len(argv) > 1:
            argv[1] = self._patch(argv[1])
        elif name == b"SCRIPT" and len(argv) > 2 and argv[1].upper() == b"LOAD":
            argv[2] = self._patch(argv[2])
        else:
            return raw
        return b"*%d\r\n" % len(argv) + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in argv)

    def _patch(self, script):
        text = script.decode()
        if text not in self.broken:
            return script
        self.applied.add(text)
        broken = self.broken[text].encode()
        self.shas[sha1(script)] = sha1(broken)
        return broken


def sha1(script):
    return hashlib.sha1(script).hexdigest().encode()


def split(buffer):
    """(arguments, length) of the first request in `buffer`; None: it is not whole. Whatever is
    no array of bulk strings is one without arguments, up to the end of its line."""
    end = buffer.find(b"\r\n")
    if end < 0:
        return None
    at, argv = end + 2, []
    if buffer[:1] != b"*":
        return argv, at
    for _ in range(int(buffer[1:end])):
        end = buffer.find(b"\r\n", at)
        if end < 0:
            return None
        size = int(buffer[at + 1:end])
        at = end + 2
        if len(buffer) < at + size + 2:
            return None
        argv.append(buffer[at:at + size])
        at += size + 2
    return argv, at


def shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
