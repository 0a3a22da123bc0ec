# SPDX-License-Identifier: BSD-3-Clause
"""redis-server and hasp as child processes, each with a directory of its own.

    with RedisServer() as redis, Hasp(f"[upstream]\naddress = ...") as hasp: ...

The directories are short-named (a unix socket's path has at most 107 bytes)
and go when the process is stopped.
"""

import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref

import redis as redis_py

from .encrypted import TlsAddress
from .resp import Connection
from .wait import until

# redis-py's errors name the host and port, which connections to unix sockets lack.
redis_py.UnixDomainSocketConnection.host = redis_py.UnixDomainSocketConnection.port = "unix"

TOP = pathlib.Path(__file__).resolve().parents[3]

if not pathlib.Path("/proc/self/stat").exists():  # in a plain chroot, for example
    raise RuntimeError("the tests need /proc, which is not mounted")

# Text that no hasp may print, however the test itself ends.
BUG = re.compile(r"hasp: bug:|AddressSanitizer|LeakSanitizer|ThreadSanitizer"
                 r"|UndefinedBehaviorSanitizer|: runtime error: ")


LINE = re.compile(r'^time=(\S+) level=(\w+) (?:msg="(?P<msg>(?:[^"\\]|\\.)*)"$'
                  r'|event=(\w+)(?: mode=(enforce|observe) (\w+=(?:"(?:[^"\\]|\\.)*"|\S+)))?)', re.M)


def short(log):
    """Returns lines for tests: `TIME LEVEL EVENT key=value ...`, or `TIME LEVEL MESSAGE`."""
    def shorten(line):
        time_, level, message, event, mode, section = line.groups()
        if message is not None:
            return f"{time_} {level} " + re.sub(r"\\(.)", r"\1", message)
        return f"{time_} {level} " + (f"{mode} {section} event={event}" if mode else event)
    return LINE.sub(shorten, re.sub(r"^\{.*\}$", of_json, log, flags=re.M))


def of_json(line):
    """Converts a JSON line of the log to logfmt."""
    return " ".join(f"{key}={json.dumps(value) if ' ' in str(value) else value}" for key, value in json.loads(line[0]).items())


class Process:
    """A child process whose output goes to a file in its own directory. `within`: a command that
    runs the process elsewhere, see network.py."""

    def __init__(self, name, within=()):
        self.name = name
        self.within = within
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.log_file = self.dir / f"{name}.log"
        self.child = None
        self.was_disturbed = False  # a test has signalled or ended the process: see reuse.py
        self.connections = weakref.WeakSet()  # the tests' connections to this process

    def spawn(self, *argv, env=None):
        command = ["setpriv", "--pdeathsig", "KILL", *map(str, [*self.within, *argv])]  # dies with the tests
        with self.log_file.open("ab") as log:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.dir,
                env={**os.environ, **(env or {})})

    @property
    def pid(self):
        return self.child.pid

    @property
    def log(self):
        return self.log_file.read_text(errors="replace")

    def running(self):
        return self.child is not None and self.child.poll() is None

    def signal(self, number):
        self.was_disturbed = True
        self.child.send_signal(number)

    def freeze(self):
        """Sends SIGSTOP, and returns when the kernel has stopped the process."""
        self.signal(signal.SIGSTOP)
        stats = list(pathlib.Path(f"/proc/{self.pid}/task").glob("*/stat"))
        until(lambda: all(stat.read_text().rsplit(")", 1)[1].split()[0] == "T" for stat in stats),
              f"all threads of {self.name} to stop")

    @contextlib.contextmanager
    def frozen(self):
        """Stops the process within the block."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def thaw(self):
        self.signal(signal.SIGCONT)

    def wait(self, timeout):
        """Returns the exit status as soon as the process has ended, or None after the time-out, in
        seconds. (Popen.wait() with a time-out checks only every 50 ms.)"""
        deadline = time.monotonic() + timeout
        if self.running():
            left = os.pidfd_open(self.pid)
            try:
                poll = select.poll()
                poll.register(left, select.POLLIN)
                poll.poll(timeout * 1000)
            finally:
                os.close(left)
        # If the process is traced, its tracer learns of the end before this parent does.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.child.wait(max(0, deadline - time.monotonic()))
        return self.child.returncode

    def kill(self):
        self.was_disturbed = True
        if self.running():
            self.child.kill()
        if self.child is not None:
            self.child.wait()

    def remove(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def connected(self, connection):
        self.connections.add(connection)
        return connection

    def disconnect(self):
        """Closes the connections that tests have opened to this process."""
        for connection in list(self.connections):
            if isinstance(connection, Connection):
                connection.close()
            else:
                connection.connection_pool.disconnect()
        self.connections.clear()


def redis_program():
    """The server that tests start: $REDIS_SERVER, see tests/servers, or the one that is installed."""
    return os.environ.get("REDIS_SERVER", "redis-server")


def other_server(name):
    """The program of another server: "redis8" or "valkey8", see tests/servers."""
    return subprocess.run([TOP / "tests/servers", name], stdout=subprocess.PIPE, check=True, text=True).stdout.strip()


class RedisServer(Process):
    """A private redis-server on a unix socket, and on a port that the kernel chose. `tls`: options
    with which that port accepts only TLS, see tls.py. `program`: see other_server()."""

    def __init__(self, *options, host="127.0.0.1", port=0, within=(), tls=(), program=None):
        super().__init__("redis", within)
        self.options, self.tls = options, tls
        self.program = program or redis_program()
        self.unix = self.dir / "redis.sock"
        self.host, self.port = host, port
        self.bus = 0  # the port of a cluster node's bus
        self.start()

    def start(self):
        """Starts the server, also again on the same port after stop() or kill()."""
        for _ in range(5):
            port = self.port or free_port(self.host)
            listens = ("--port", 0, "--tls-port", port, *self.tls) if self.tls else ("--port", port)
            bus = self.bus or free_port(self.host)
            if "--cluster-enabled" in self.options:
                # By default, the bus uses the port plus 10,000, which may be in use or above 65,535.
                listens += ("--cluster-port", bus)
            self.spawn(self.program, *listens, *self.further_listeners(), "--bind", self.host,
                       "--unixsocket", self.unix, "--save", "", "--appendonly", "no",
                       "--enable-debug-command", "local",
                       "--dir", self.dir, *self.options)
            until(lambda: self.ready() or not self.running(), "redis-server to start")
            if self.running():
                self.port, self.bus = port, bus
                return
        raise RuntimeError(f"redis-server does not start:\n{self.log}")

    def further_listeners(self):
        """Returns options for other ports. start() calls this for each try: if another process has
        taken a port in the meantime, the next try uses others."""
        return ()

    def ready(self):
        if not self.unix.exists():  # looking for the file is cheaper than connecting
            return False
        try:
            return bool(self.client().ping())
        except redis_py.exceptions.ConnectionError:
            return False

    @property
    def address(self):
        return (self.host, self.port)

    def client(self, **options):
        """Returns a redis-py client that connects directly to Redis, with replies as str."""
        return self.connected(redis_py.Redis(unix_socket_path=str(self.unix), decode_responses=True, **options))

    def connect(self):
        return self.connected(Connection(str(self.unix)))

    def stop(self):
        self.kill()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.remove()


class ProtectedRedis(RedisServer):
    """A Redis that requires a password, which client() knows."""

    def __init__(self, *options):
        super().__init__("--requirepass", "secret", *options)

    def client(self, **options):
        return super().client(password="secret", **options)


class Hasp(Process):
    """hasp in the foreground with the given configuration, ready for connections. `authority`: if
    set, clients use TLS and trust this authority, see tls.py."""

    def __init__(self, config, env=None, binary=None, within=(), options=(), authority=None):
        super().__init__("hasp", within)
        self.authority = authority
        # hasp starts in another directory, so its path must be absolute.
        self.binary = os.path.abspath(binary or os.environ.get("HASP", str(TOP / "hasp")))
        self.config_file = self.dir / "hasp.ini"
        self.config_file.write_text(config)
        self.expect_exit = 0
        self.spawn(self.binary, *options, "-c", self.config_file, env=env)
        until(lambda: self.ready or not self.running(), "hasp to start")
        if not self.ready:
            log = self.log
            self.kill()
            self.remove()
            raise RuntimeError(f"hasp does not start:\n{log}")

    @property
    def log(self):
        return short(super().log)

    @property
    def ready(self):
        """Returns true if all listeners are ready, with their modes and owners."""
        # Reading the raw log first is cheaper.
        return b"started" in self.log_file.read_bytes() and " started " in self.log

    @property
    def listening(self):
        """Returns the listeners' addresses from hasp's log."""
        return re.findall(r"\blistening address=(\S+)", self.log)

    @property
    def address(self):
        """Returns the first listener, or the first TLS listener if clients use TLS: (host, port),
        or the path of a unix socket."""
        address = self.listening[0]
        if self.authority:
            address = re.search(r"\blistening address=(\S+) tls=yes", self.log)[1]
        if address.startswith("unix:"):
            return address[len("unix:"):]
        host, port = address.rsplit(":", 1)
        address = (host.strip("[]"), int(port))
        return TlsAddress.of(address, self.authority.trusting(check_hostname=False)) if self.authority else address

    def configure(self, text):
        """Replaces hasp's file in one step, because a reload may be reading it."""
        draft = self.dir / "draft"
        draft.write_text(text)
        draft.replace(self.config_file)

    def edit(self, old, new):
        """Replaces a part of hasp's file, and sends SIGHUP."""
        text = self.config_file.read_text()
        assert old in text
        self.configure(text.replace(old, new))
        self.signal(signal.SIGHUP)

    def reload(self, old, new):
        """Replaces a part of hasp's file, and reloads it. Returns when at least one worker uses the
        new file."""
        before = self.log.count("reloaded")
        self.edit(old, new)
        until(lambda: self.log.count("reloaded") > before, "the reload")
        self.take_turn()

    def is_up(self, connections=1):
        """Returns itself when its workers have that many own connections; see also is_ready()."""
        until(lambda: self.log.count("upstream_up") >= connections, "hasp's own connections")
        return self

    def client(self, **options):
        """Returns a redis-py client of hasp, with replies as str."""
        if isinstance(self.address, tuple):
            host, port = self.address
            if self.authority:
                options = {"ssl": True, "ssl_ca_certs": str(self.authority.cert), "ssl_check_hostname": False, **options}
            return self.connected(redis_py.Redis(host, port, decode_responses=True, **options))
        return self.connected(redis_py.Redis(unix_socket_path=self.address, decode_responses=True, **options))

    def connect(self, **options):
        return self.connected(Connection(self.address, **options))

    @property
    def replica_options(self):
        """Returns options for a RedisServer that replicates the server behind this hasp, through
        hasp."""
        options = ("--replicaof", "{} {}".format(*self.address))
        if self.authority:
            cert, key = self.authority.cert, self.authority.key
            options += ("--tls-replication", "yes", "--tls-ca-cert-file", cert, "--tls-cert-file", cert,
                        "--tls-key-file", key)
        return options

    def take_turn(self):
        """Returns when hasp has read everything that was sent to it before the call."""
        for _ in range(2):
            with self.connect() as other:
                other.sock.shutdown(socket.SHUT_WR)
                assert other.at_end()

    def has_bug(self):
        return BUG.search(self.log_file.read_text(errors="replace"))

    def stop(self):
        """Sends SIGTERM. Returns a text about the faults of the process, or None."""
        was_running = self.running()
        if was_running:
            self.signal(signal.SIGTERM)
        status = self.wait(60)
        if status is None:
            self.kill()
            return "hasp did not leave within 60 s of SIGTERM"
        bug = self.has_bug()
        if bug:
            return f"hasp reported {bug.group()!r}"
        if status != self.expect_exit:
            return f"hasp {'left' if was_running else 'was gone'} with status {status}"
        return None


def free_port(host="127.0.0.1"):
    with socket.socket() as s:
        s.bind((host, 0))
        return s.getsockname()[1]
