# SPDX-License-Identifier: BSD-3-Clause
"""A name that moves to other addresses, and a port at which connections hang. Neither needs privileges.

    hosts = Hosts(tmp_path)
    hosts.move("127.0.0.2")
    hasp = start_hasp(within=hosts.within, upstream=f"{hosts.name}:6379")

libnss_wrapper answers hasp's getaddrinfo() from a file.
"""

import itertools
import os
import socket


def nss(**files):
    """Returns `within` for a process whose libnss_wrapper reads these files."""
    # By default, the library loads libc by RTLD_DEEPBIND, which AddressSanitizer refuses.
    return ("env", "LD_PRELOAD=libnss_wrapper.so", "NSS_WRAPPER_DISABLE_DEEPBIND=1",
            *(f"NSS_WRAPPER_{name.upper()}={file}" for name, file in files.items()))


class Hosts:
    """A hosts file with one name. Processes that start with `within` read it before /etc/hosts."""

    def __init__(self, directory, name="redis.test"):
        self.name = name
        self.file = directory / "hosts"
        self.mtimes = itertools.count(1)
        self.move()
        self.within = nss(hosts=self.file)

    def move(self, *addresses):
        """Gives the name these addresses instead of its present ones.

        The library reads a file again only if its date differs in whole seconds, so each version
        gets its own."""
        draft = self.file.with_suffix(".draft")
        draft.write_text("".join(f"{address} {self.name}\n" for address in addresses))
        mtime = next(self.mtimes)
        os.utime(draft, (mtime, mtime))
        draft.replace(self.file)


def fill_backlog(address, family=socket.AF_INET):
    """Connects until the queue of a listener that accepts nothing is full. Returns these connections: the kernel
    drops further attempts to connect until they are closed."""
    waiting = []
    while True:
        s = socket.socket(family)
        s.settimeout(0.2)
        waiting.append(s)
        try:
            s.connect(address)
        except (BlockingIOError, TimeoutError):
            return waiting
