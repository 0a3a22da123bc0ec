# SPDX-License-Identifier: BSD-3-Clause
"""A network whose packets can be dropped, and a name that can move to other addresses.

    with Network() as network, RedisServer(within=network.within) as redis:
        hasp = start_hasp(within=network.within, listen="unix:...", upstream=...)
        network.cut()

Needs root, for namespaces. What is in a Network is reached by unix sockets.
"""

import subprocess

from .processes import Process
from .wait import until


class Network(Process):
    """A network namespace that has nothing but its own loopback."""

    def __init__(self):
        super().__init__("network")
        self.spawn("unshare", "--net", "sh", "-c", "ip link set lo up && echo up && exec sleep infinity")
        until(lambda: "up" in self.log or not self.running(), "the namespace")
        self.within = ("nsenter", "--target", self.pid, "--net")

    def cut(self, port):
        """From now on nothing gets to this port, nor back from it, and nobody is told."""
        for direction in ("--dport", "--sport"):
            self._iptables("-A", "INPUT", "-p", "tcp", direction, port, "-j", "DROP")

    def mend(self):
        self._iptables("-F", "INPUT")

    def _iptables(self, *args):
        subprocess.run([*map(str, [*self.within, "iptables", "-w", *args])], check=True,
                       capture_output=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.remove()


class Hosts:
    """An /etc/hosts of its own, with one name."""

    def __init__(self, directory, name="redis.test"):
        self.name = name
        self.file = directory / "hosts"
        self.move()
        self.within = ("unshare", "--mount", "sh", "-c",
                       f'mount --bind {self.file} /etc/hosts && exec "$@"', "sh")

    def move(self, *addresses):
        """The name means these from now on."""
        self.file.write_text("".join(f"{address} {self.name}\n" for address in addresses))
