# SPDX-License-Identifier: BSD-3-Clause
"""hasp as systemd starts it: with sockets on which another process listens."""

import contextlib
import json
import signal
import socket
import subprocess
import sys

from .by_hand import HASP
from .processes import short
from .wait import until

# Does what systemd does between fork() and exec(). Arguments: sockets, LISTEN_FDS, LISTEN_PID,
# command.
LAUNCH = """
import fcntl, json, os, sys
high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in json.loads(sys.argv[1])]
for i, fd in enumerate(high):
    os.dup2(fd, 3 + i, inheritable=True)
    os.close(fd)
os.environ.update(LISTEN_FDS=sys.argv[2], LISTEN_PID=sys.argv[3] or str(os.getpid()))
os.execv(sys.argv[4], sys.argv[4:])
"""


@contextlib.contextmanager
def listening(address="127.0.0.1", family=socket.AF_INET):
    with socket.socket(family) as sock:
        sock.bind((address, 0) if family == socket.AF_INET else address)
        sock.listen(128)
        yield sock


class Service:
    """hasp as systemd starts it: with `sockets` at descriptors 3, 4 ..."""

    def __init__(self, path, log, *sockets, count=None, pid=""):
        self.log = log
        self.begin = len(self.text) if log.exists() else 0
        fds = [sock.fileno() for sock in sockets]
        with log.open("a") as stderr:
            self.child = subprocess.Popen(
                [sys.executable, "-c", LAUNCH, json.dumps(fds), str(len(fds) if count is None else count), str(pid),
                 HASP, "-c", str(path)],
                stdin=subprocess.DEVNULL, stderr=stderr, pass_fds=fds)

    @property
    def text(self):
        return short(self.log.read_text())

    def serves(self):
        until(lambda: " started " in self.text[self.begin:] or self.child.poll() is not None, "hasp to start")
        assert self.child.poll() is None, self.text
        return self

    def restart(self):
        self.child.send_signal(signal.SIGTERM)
        assert self.child.wait(60) == 0, self.text

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()


def at(sock):
    return "{}:{}".format(*sock.getsockname())
