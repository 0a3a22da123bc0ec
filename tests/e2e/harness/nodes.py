# SPDX-License-Identifier: BSD-3-Clause
"""Shared by the servers of sentinels and clusters.

Each topology has its own loopback address, so that the port of a dead server stays free until the
server restarts: on 127.0.0.1, the kernel may give it to another connection.
"""

import functools
import pathlib
import random

import redis as redis_py

from .processes import RedisServer
from .wait import until

# Replicas follow without delay, and servers accept clients on any loopback address.
OPTIONS = ("--repl-diskless-sync-delay", 0, "--repl-ping-replica-period", 1, "--protected-mode", "no")

# Seconds: longer than tests wait for hasp, because a busy machine may need several elections.
SETTLING = 90


class Unreachable(Exception):
    """A server that is dead, stopped, or too busy to answer."""


def private_address():
    """Returns one of 16 million addresses, so that topologies of simultaneous tests do not meet."""
    return f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"


class Asked:
    """A server that ask() asks over one connection, which redis-py opens again after a restart."""

    @functools.cached_property
    def asking(self):
        return self.client(socket_timeout=5)

    def ask(self, *command):
        """Returns the server's answer, as redis-py parses it."""
        try:
            return self.asking.execute_command(*command)
        except (redis_py.exceptions.ConnectionError, redis_py.exceptions.TimeoutError) as error:
            raise Unreachable(self) from error


class Node(Asked, RedisServer):
    """A server of a topology. freeze() stops it, and thaw() resumes it."""

    def answers(self):
        """Returns true if the server is neither dead nor stopped."""
        if not self.running():
            return False
        stat = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rsplit(")", 1)[1].split()[0] not in "TZ"

    def ask(self, *command):
        if not self.answers():
            raise Unreachable(self)
        return super().ask(*command)

    def role(self):
        """Returns ("master", ...) or ("slave", its primary's host, port, "connected", offset)."""
        return self.ask("ROLE")

    def is_primary(self):
        return self.role()[0] == "master"

    def follows(self, primary):
        """Returns true if the server replicates `primary`, and has got its data."""
        role = self.role()
        return role[0] == "slave" and (role[1], role[2], role[3]) == (*primary.address, "connected")

    def __str__(self):
        return "%s:%d" % self.address


def settles(condition, what):
    """Like until(), but treats an unreachable server and -CLUSTERDOWN as "not yet"."""
    def told():
        try:
            return condition()
        except Unreachable:
            return None
        except redis_py.exceptions.ResponseError as error:
            if not str(error).startswith("CLUSTERDOWN"):
                raise
            return None

    return until(told, what, timeout=SETTLING, rest=2)  # a check of all servers takes long


def remove(processes):
    for process in processes:
        process.kill()
    for process in processes:
        process.remove()
