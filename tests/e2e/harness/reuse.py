# SPDX-License-Identifier: BSD-3-Clause
"""A redis-server that outlives a test.

Starting a server costs fifty times as much as emptying one. So each test worker keeps a server,
which the next test gets if this test never killed, stopped or signalled it, and left its
configuration and role as they were. (New users are deleted.) Otherwise the next test gets a new
server.
"""

import re

from .processes import RedisServer
from .resp import Connection, encode, pipeline

# If Redis does not answer for this many seconds, it runs a script: the next test gets another
# server.
PATIENCE = 5

FACTS = [("ACL", "LIST"), ("MODULE", "LIST"), ("INFO", "replication"), ("INFO", "commandstats")]
EMPTY = [("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"), ("CLIENT", "KILL", "TYPE", "pubsub"),
         ("CLIENT", "UNPAUSE"), ("FLUSHALL",), ("FUNCTION", "FLUSH"), ("SCRIPT", "FLUSH"), ("ACL", "LOG", "RESET"),
         ("SLOWLOG", "RESET"), ("LATENCY", "RESET"), ("CONFIG", "RESETSTAT")]


class ReusedRedis:
    """take() returns a server without data; put_back() decides whether another test may have it."""

    def __init__(self):
        self.server = None
        self.facts = None  # as the server reported them when it was new

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
        if self.server:
            self.server.stop()
            self.server.remove()
            self.server = None

    def connect(self):
        return Connection(self.server.unix, timeout=PATIENCE)

    def is_unchanged(self):
        """If the server is unchanged, empties it and closes the connections that the test left."""
        if self.server.was_disturbed or not self.server.running():
            return False
        try:
            with self.connect() as connection:
                delete_users(connection)
                if facts(connection) != self.facts:
                    return False
                return not any(reply.startswith(b"-") for reply in pipeline(connection, *EMPTY))
        except (OSError, EOFError):
            return False


def delete_users(connection):
    names = re.findall(rb"\r\nuser (\S+) ", connection.call("ACL", "LIST"))
    if len(names) > 1:
        connection.call("ACL", "DELUSER", *(name for name in names if name != b"default"))


def facts(connection):
    config = unparsed(connection, "CONFIG", "GET", "*")
    users, modules, replication, calls = pipeline(connection, *FACTS)
    return config, users, modules, re.findall(rb"(?:role|connected_slaves):\w+", replication), b"cmdstat_debug:" in calls


def unparsed(connection, *command):
    """Returns the reply as it is. To parse it would cost more than everything else between two tests."""
    end = b"$3\r\nEND\r\n"
    connection.send(encode(*command) + encode("ECHO", "END"))
    reply = b""
    while not reply.endswith(end):
        reply += connection.file.read1(1 << 16) or end
        if reply.startswith(b"-"):
            break
    return reply
