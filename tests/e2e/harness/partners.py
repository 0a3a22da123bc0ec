# SPDX-License-Identifier: BSD-3-Clause
"""Connections of one owner: at one worker, at two workers, or at two proxies.

hasp learns what each connection does in a different way in these cases.
"""

import pytest

from .replies import OK, ONE
from .wait import until

OWNERS = pytest.mark.parametrize("owner", ["address", "name", "user", "AS"])
WHERE = pytest.mark.parametrize("where", ["worker", "two workers", "two proxies"])


class Partners:
    """Connections to one worker, two workers or two proxies. Those made by join() are one owner."""

    def __init__(self, start_hasp, plain, where, owner, rules):
        self.plain, self.owner = plain, owner
        workers = 2 if where == "two workers" else 1
        self.hasps = [start_hasp(rules, workers=workers).is_up(workers)
                      for _ in range(2 if where == "two proxies" else 1)]
        self.apart = where == "two workers"
        self.words = ("AS", "us") if owner == "AS" else ()
        self.connections = []

    def worker_of(self, connection):
        """Returns the number of the connection's worker, which begins a lock's ticket."""
        assert connection.call("LOCK", "probe", "AS", "probe").startswith(b":")
        worker = self.plain.get("hasp:fence:{probe}").split(" ")[2].split("-")[0]
        assert connection.call("UNLOCK", "probe", "AS", "probe") == ONE
        return worker

    def connect(self, number=0):
        """Connects; with two proxies, an odd `number` connects to the second."""
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
            assert not self.apart, "the second worker gets no connection"
        for connection in (one, other):
            if self.owner == "name":
                assert connection.call("CLIENT", "SETNAME", "us") == OK
            if self.owner == "user":
                assert connection.call("AUTH", "us", "x") == OK
        return one, other

    def hang_up(self, connection, last=("LOCK", "last", "AS", "last")):
        """Closes a connection. Returns when hasp has released all its locks; it releases `last`
        last."""
        assert connection.call(*last).startswith(b":")
        connection.close()
        until(lambda: not self.plain.exists(last[1]), "the last lock to be released")


def setting(owner):
    """Returns the owner's setting; AS names an owner with any configuration."""
    return {} if owner == "AS" else {"owner": owner}
