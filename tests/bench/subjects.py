# SPDX-License-Identifier: BSD-3-Clause
"""The subjects of the benchmarks: hasp, its peers, and no proxy at all, each in front of one Redis.

Every subject has an address, the process' number (None: there is no proxy), options for
redis-benchmark, and stop(), which returns the process' fault, or None. The kernel chooses the
ports; files are in a temporary directory. build.py says which hasp is measured.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from build import TOP, program

sys.path.insert(0, str(TOP / "tests" / "e2e"))

from harness import Hasp, until  # noqa: E402
from harness.processes import free_port  # noqa: E402

HAPROXY = """
global
    nbthread 1
    maxconn 8000
defaults
    mode tcp
    timeout connect 5s
    timeout client 1h
    timeout server 1h
frontend in
    bind 127.0.0.1:{port}
    default_backend redis
backend redis
    server redis {upstream}
"""

NUTCRACKER = """
bench:
  listen: 127.0.0.1:{port}
  redis: true
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: false
  preconnect: true
  server_connections: 1
  servers:
   - {upstream}:1
"""


class Direct:
    """Redis without a proxy."""

    name, pid, options = "direct", None, ()

    def __init__(self, redis):
        self.address = redis.address

    def stop(self):
        pass


class Left(Exception):
    """A program exited before it listened, perhaps because another process has its port."""


class Peer:
    """Another project's proxy, in the foreground, which listens on a port that we choose. `settings` are
    filled into `config`, too."""

    options = ()

    def __init__(self, name, config, upstream, command, **settings):
        self.name = name
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.address = ("127.0.0.1", free_port())
        file = self.dir / f"{name}.conf"
        host, port = upstream
        file.write_text(config.format(port=self.address[1], upstream=f"{host}:{port}", **settings))
        self.log = (self.dir / "log").open("wb")
        # Debian installs daemons in /usr/sbin, which is not in the PATH of an ordinary user.
        self.child = subprocess.Popen(command(str(file)), stdin=subprocess.DEVNULL,
                                      stdout=self.log, stderr=self.log, cwd=self.dir,
                                      env={**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"})
        self.pid = self.child.pid
        try:
            until(self._answers, f"{name} to listen")
        except (TimeoutError, Left):
            self.stop()
            raise

    @classmethod
    def started(cls, *args, **settings):
        for _ in range(20):
            with contextlib.suppress(Left):
                return cls(*args, **settings)
        return cls(*args, **settings)

    def _answers(self):
        if self.child.poll() is not None:
            raise Left(f"{self.name} left with status {self.child.returncode}:"
                       f" {(self.dir / 'log').read_text()[-500:]}")
        try:
            socket.create_connection(self.address, 1).close()
            return True
        except OSError:
            return False

    def stop(self):
        self.child.kill()
        self.child.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


LOCKS = "tests/bench/locks"

# The keys of tests/bench/locks have these rules.
RULES = """
[lock bench]
pattern = bench:*
[lock value]
pattern = value:*
owner = value
[lock waits]
pattern = waits:*
wait = 5s
[guard bench]
pattern = guard:*
acquire_on = GET
"""

OURS = """
[hasp]
listen = 127.0.0.1:0
workers = {workers}
{options}[upstream]
{upstream}
pooling = {pooling}
[verbs]
""" + RULES


class Ours:
    """hasp, with the verbs, the rule and the guard that the benchmarks need. `options`: lines of
    [hasp]."""

    def __init__(self, redis, workers, pooling="shared", binary=None, rules="", options="",
                 upstream=None, discover=False):
        self.name = ("hasp" + (f", {workers} workers" if workers > 1 else "")
                     + (f", {pooling}" if pooling != "shared" else ""))
        host, port = redis.address
        config = OURS.format(workers=workers, pooling=pooling, options=options,
                             upstream=upstream or f"address = {host}:{port}") + rules
        arguments = ()
        if discover:
            config = f"[hasp]\nlisten = 127.0.0.1:0\n[upstream]\npooling = {pooling}\n"
            arguments = ("--discover", f"{host}:{port}")
        self.hasp = Hasp(config, binary=binary or program("hasp"), options=arguments)
        # Only now does hasp know which commands may share a link.
        until(lambda: self.hasp.log.count("upstream_up") >= workers, "hasp to know Redis")
        self.address, self.pid, self.options = self.hasp.address, self.hasp.pid, ()

    def stop(self):
        fault = self.hasp.stop()
        log = self.hasp.log
        self.hasp.remove()
        return f"{self.name}: {fault}; its log ends\n{log[-2000:]}" if fault else None


def haproxy(redis):
    return Peer.started("haproxy", HAPROXY, redis.address, lambda file: ["haproxy", "-db", "-f", file])


def nutcracker(redis):
    return Peer.started("nutcracker", NUTCRACKER, redis.address,
                        lambda file: ["nutcracker", "-c", file, "-o", f"{file}.log", "-a", "127.0.0.1",
                                      "-s", str(free_port())])


SUBJECTS = {
    "direct": Direct,
    "haproxy": haproxy,
    "nutcracker": nutcracker,
    "hasp": lambda redis: Ours(redis, 1),
    "hasp2": lambda redis: Ours(redis, 2),
    "session": lambda redis: Ours(redis, 1, "session"),
}


def cpu_seconds(pid):
    """Returns the user and system time of all threads of a process, including those that have
    ended."""
    if pid is None:
        return 0.0
    # The process' own clock, of clock_getcpuclockid(3): /proc counts in hundredths of a second.
    return time.clock_gettime(~pid << 3 | 2)
