# SPDX-License-Identifier: BSD-3-Clause
"""What Sentinel's and a cluster's servers have in common.

The servers of one topology have a loopback address of their own, so that the port of one that is
dead is still free when it comes back: the kernel gives its own connections ports at 127.0.0.1.
"""

import pathlib
import random

import redis as redis_py

from .processes import RedisServer
from .wait import until

# Replicas follow at once; and 127.0.0.1 is not the only loopback address.
OPTIONS = ("--repl-diskless-sync-delay", 0, "--repl-ping-replica-period", 1, "--protected-mode", "no")

# On a busy machine an election may have to be repeated: longer than tests wait for hasp.
SETTLING = 90


class Unreachable(Exception):
    """A server that is dead, stopped, or too busy to tell now."""


def private_address():
    """Of 16 million, so that topologies of tests that run at the same time do not meet."""
    return f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"


class Node(RedisServer):
    """A server of a topology. freeze() and thaw() stop it and let it go on."""

    def answers(self):
        """It is neither dead nor stopped."""
        if not self.running():
            return False
        stat = pathlib.Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rsplit(")", 1)[1].split()[0] not in "TZ"

    def ask(self, *command):
        """Its answer, as redis-py has it."""
        if not self.answers():
            raise Unreachable(self)
        try:
            with self.client(socket_timeout=5) as client:
                return client.execute_command(*command)
        except (redis_py.exceptions.ConnectionError, redis_py.exceptions.TimeoutError) as error:
            raise Unreachable(self) from error

    def role(self):
        """("master", ...) or ("slave", its primary's host, port, "connected", offset)."""
        return self.ask("ROLE")

    def is_primary(self):
        return self.role()[0] == "master"

    def follows(self, primary):
        """It replicates that one, and has all that was written before it began."""
        role = self.role()
        return role[0] == "slave" and (role[1], role[2], role[3]) == (*primary.address, "connected")

    def __str__(self):
        return "%s:%d" % self.address


def settles(condition, what):
    """until(), where a server that does not answer, or not as long as its cluster is down, means: not yet."""
    def told():
        try:
            return condition()
        except Unreachable:
            return None
        except redis_py.exceptions.ResponseError as error:
            if not str(error).startswith("CLUSTERDOWN"):
                raise
            return None

    return until(told, what, timeout=SETTLING)


def remove(processes):
    for process in processes:
        process.kill()
    for process in processes:
        process.remove()
