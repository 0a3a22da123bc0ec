# SPDX-License-Identifier: BSD-3-Clause
"""A redis-server and hasps that serve more than one test.

Starting a server costs fifty times as much as emptying one. So each test worker keeps a server. The
next test gets it if this test has not killed, stopped or signalled it, and has left its
configuration and role as they were. (New users are deleted.) Otherwise the next test gets a new
server.

A test that only connects to hasp, or reads what it logs, gets a SharedHasp: the process may have
served earlier tests with the same configuration.
"""

import re

from .processes import Hasp, RedisServer, short
from .resp import Connection, encode, pipeline

# If Redis does not answer for this many seconds, it runs a script, and the next test gets a new
# server.
PATIENCE = 5

FACTS = [("ACL", "LIST"), ("MODULE", "LIST"), ("INFO", "replication"), ("INFO", "commandstats")]
KILL = [("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), ("CLIENT", "KILL", "TYPE", "pubsub")]
# The scripts stay, because Redis takes 10 ms to compile those of hasp.
EMPTY = [("CLIENT", "UNPAUSE"), ("FLUSHALL",), ("FUNCTION", "FLUSH"), ("ACL", "LOG", "RESET"),
         ("SLOWLOG", "RESET"), ("LATENCY", "RESET"), ("CONFIG", "RESETSTAT")]

# Number of hasps that a test worker keeps.
KEPT = 3


class ReusedRedis:
    """take() returns a server without data; put_back() keeps it for the next test, or ends it. The
    hasps in front of the server end with it."""

    def __init__(self):
        self.server = None
        self.facts = None  # facts() of the server when it was new
        self.hasps = ReusedHasps()

    def take(self):
        if not self.server:
            self.server = RedisServer()
            with self.connect() as connection:
                self.facts = facts(connection)
        self.server.was_disturbed = False
        return self.server

    def put_back(self):
        if not self.is_unchanged():
            self.drop()

    def drop(self):
        self.hasps.drop()
        if self.server:
            self.server.stop()
            self.server.remove()
            self.server = None

    def connect(self):
        return Connection(self.server.unix, timeout=PATIENCE)

    def is_unchanged(self):
        """Returns whether the server is unchanged, and then empties it and closes the connections
        that the test left, but for those of kept hasps."""
        if self.server.was_disturbed or not self.server.running():
            return False
        self.server.disconnect()
        try:
            with self.connect() as connection:
                if delete_users(connection):
                    self.hasps.drop()  # they would go on trying to log in as a deleted user
                if facts(connection) != self.facts:
                    return False
                commands = EMPTY if self.hasps.kept else KILL + EMPTY
                return not any(reply.startswith(b"-") for reply in pipeline(connection, *commands))
        except (OSError, EOFError):
            return False


def delete_users(connection):
    """Deletes all users but the default one. Returns true if there were any."""
    names = re.findall(rb"\r\nuser (\S+) ", connection.call("ACL", "LIST"))
    if len(names) > 1:
        connection.call("ACL", "DELUSER", *(name for name in names if name != b"default"))
    return len(names) > 1


def facts(connection):
    config = unparsed(connection, "CONFIG", "GET", "*")
    users, modules, replication, calls = pipeline(connection, *FACTS)
    return config, users, modules, re.findall(rb"(?:role|connected_slaves):\w+", replication), b"cmdstat_debug:" in calls


def unparsed(connection, *command):
    """Returns the raw reply: parsing it would cost more than all else between two tests."""
    end = b"$3\r\nEND\r\n"
    connection.send(encode(*command) + encode("ECHO", "END"))
    reply = b""
    while not reply.endswith(end):
        reply += connection.file.read1(1 << 16) or end
        if reply.startswith(b"-"):
            break
    return reply


class SharedHasp:
    """A hasp that may have served other tests. A test may only connect to it, and read its log."""

    def __init__(self, hasp):
        self.process = hasp
        self.begun = hasp.log_file.stat().st_size  # offset in the log where this test's part begins

    def connect(self, **options):
        return self.process.connect(**options)

    def client(self, **options):
        return self.process.client(**options)

    def is_up(self, connections=1):
        self.process.is_up(connections)
        return self

    def take_turn(self):
        self.process.take_turn()

    @property
    def address(self):
        return self.process.address

    @property
    def log(self):
        """Returns the lines since this test began. Those of hasp's start may not be among them."""
        return short(self.process.log_file.read_bytes()[self.begun:].decode(errors="replace"))


class ReusedHasps:
    """take() returns a hasp with that configuration; put_back() keeps it for another test."""

    def __init__(self):
        self.kept = {}  # {configuration: its hasp}, the most recently used one last

    def take(self, config, authority=None):
        hasp = self.kept.pop(config, None)
        return SharedHasp(hasp or Hasp(config, authority=authority))

    def put_back(self, shared):
        """Keeps the hasp. If this ends a hasp, returns a text about its faults, or None."""
        hasp = shared.process
        hasp.disconnect()
        config = hasp.config_file.read_text()
        # With several workers, no reply shows that all of them are at rest.
        if (not hasp.running() or hasp.has_bug() or config in self.kept or "workers = " in config
                or not is_at_rest(hasp)):
            return end(hasp)
        print_log(hasp, shared.begun)
        self.kept[config] = hasp
        return end(self.kept.pop(next(iter(self.kept)))) if len(self.kept) > KEPT else None

    def drop(self):
        faults = [fault for fault in map(end, self.kept.values()) if fault]
        self.kept.clear()
        assert not faults, "\n".join(faults)


def is_at_rest(hasp):
    """Waits until hasp and Redis have processed what earlier clients sent; false if they hang."""
    try:
        hasp.take_turn()
        with hasp.connect(timeout=PATIENCE) as connection:
            return [connection.call("PING") for _ in range(2)] == [b"+PONG\r\n"] * 2
    except (OSError, EOFError):
        return False


def print_log(hasp, begin=0):
    """Prints hasp's log from the byte `begin` on. pytest shows it if the test fails."""
    log = short(hasp.log_file.read_bytes()[begin:].decode(errors="replace"))
    print(f"--- log of hasp, configured by\n{hasp.config_file.read_text()}---\n{log}")


def end(hasp):
    """Ends hasp. Returns a text about its faults, or None."""
    fault = hasp.stop()
    print_log(hasp)
    if fault:
        fault += f"; its configuration is\n{hasp.config_file.read_text()}\nand its log ends\n{hasp.log[-4000:]}"
    hasp.remove()
    return fault
