# SPDX-License-Identifier: BSD-3-Clause
"""Connections that are one owner: at one worker, two workers, or two proxies.

hasp learns in different ways what each of them does.
"""

import pytest

from .replies import OK, ONE
from .wait import until

OWNERS = pytest.mark.parametrize("owner", ["address", "name", "user", "AS"])
WHERE = pytest.mark.parametrize("where", ["worker", "two workers", "two proxies"])


class Partners:
    """Connections, at the same worker or apart; those made by join() are one owner."""

    def __init__(self, start_hasp, plain, where, owner, rules):
        self.plain, self.owner = plain, owner
        workers = 2 if where == "two workers" else 1
        self.hasps = [start_hasp(rules, workers=workers).is_up(workers)
                      for _ in range(2 if where == "two proxies" else 1)]
        self.apart = where == "two workers"
        self.words = ("AS", "us") if owner == "AS" else ()
        self.connections = []

    def worker_of(self, connection):
        """Returns the worker, which the lock's ticket names."""
        assert connection.call("LOCK", "probe", "AS", "probe").startswith(b":")
        worker = self.plain.get("hasp:fence:{probe}").split(" ")[2].split("-")[0]
        assert connection.call("UNLOCK", "probe", "AS", "probe") == ONE
        return worker

    def connect(self, number=0):
        """Connects, every other time to another worker or proxy, if there is one."""
        connection = self.hasps[number % len(self.hasps)].connect()
        self.connections.append(connection)
        return connection

    def join(self):
        one, other = self.connect(0), self.connect(1)
        for _ in range(80 if self.apart else 0):
            if self.worker_of(other) != self.worker_of(one):
                break
            other = self.connect(1)
        else:
            assert not self.apart, "a worker that gets no connection"
        for connection in (one, other):
            if self.owner == "name":
                assert connection.call("CLIENT", "SETNAME", "us") == OK
            if self.owner == "user":
                assert connection.call("AUTH", "us", "x") == OK
        return one, other

    def hang_up(self, connection, last=("LOCK", "last", "AS", "last")):
        """Closes a connection, and returns when hasp has released all its locks, the last one
        last."""
        assert connection.call(*last).startswith(b":")
        connection.close()
        until(lambda: not self.plain.exists(last[1]), "the last lock to be released")


def setting(owner):
    """Returns the owner's setting; AS names an owner with any configuration."""
    return {} if owner == "AS" else {"owner": owner}
