# SPDX-License-Identifier: BSD-3-Clause
"""Independent servers, a majority of which grants locks."""

import atexit

from .processes import RedisServer
from .reuse import ReusedRedis
from .scrape import of
from .sections import section, verbs
from .wait import until


idle = []  # ReusedRedis objects of earlier quorums
atexit.register(lambda: [reused.drop() for reused in idle])


def reusable():
    """Returns a server of an earlier quorum, or a new one. put_back() runs only now, when the hasps
    of that quorum, which might still write to the server, have ended."""
    if not idle:
        return ReusedRedis()
    reused = idle.pop()
    reused.put_back()
    return reused


class Quorum:
    """Independent servers, a majority of which grants locks. `tls`: for each server, options with
    which it accepts only TLS."""

    def __init__(self, n=5, tls=()):
        self.reused = [] if tls else [reusable() for _ in range(n)]
        self.new = [RedisServer(tls=options) for options in tls]
        self.servers = self.new + [reused.take() for reused in self.reused]

    def section(self, timeout="5s", restart_delay="0", on_lost="log", tls=None):
        """Returns a [quorum] section. `timeout` is longer than the default, for busy machines.
        `tls`: further options."""
        addresses = " ".join("%s:%d" % server.address for server in self.servers)
        return section("quorum locks", {
            "servers": addresses, "timeout": timeout, "restart_delay": restart_delay, "on_lost": on_lost,
            **(tls or {}),
        })

    def sections(self, lease="20s", max_lease="20s", timeout="5s", restart_delay="0", on_lost="log", tls=None,
                 **options):
        """Returns the [quorum] section, and a [verbs] section that uses it."""
        return self.section(timeout, restart_delay, on_lost, tls) + verbs(
            quorum="locks", reentrant="no", lease=lease, max_lease=max_lease, **options)

    def values(self, key):
        """Returns the key's values at the running servers."""
        return [server.client().get(key) for server in self.servers if server.running()]

    def is_free(self, key):
        return not any(self.values(key))

    def is_everywhere(self, key):
        return None not in self.values(key)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self.new:
            server.stop()
            server.remove()
        idle.extend(self.reused)


def connected(hasp, n=5):
    """Returns hasp when its workers have `n` connections to the quorum's servers, in total."""
    until(lambda: hasp.log.count("quorum_server_up") >= n, "hasp to be connected to the quorum")
    hasp.take_turn()
    return hasp


def count(hasp, what):
    """Returns the metric hasp_<what> for the quorum's locks."""
    return of(hasp, f"hasp_{what}", "locks", kind="quorum")
