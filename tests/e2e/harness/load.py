# SPDX-License-Identifier: BSD-3-Clause
"""Clients that open a connection for each request, as many web applications do; and how many
clients fit."""

import resource
import threading
import warnings

from .resp import Connection
from .wait import until

# Descriptors that a test and its hasp need beside those of clients.
SPARE = 500


def clients_that_fit(wanted):
    """Raises this process' limit of descriptors to the hard one. Returns `wanted`, or fewer if that is too low."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY or most >= wanted + SPARE:
        return wanted
    warnings.warn(f"{most - SPARE} clients instead of {wanted}: the hard limit of descriptors is {most}")
    return most - SPARE


class Load:
    """`clients` threads, each of which sends one request per connection; `faults` has all that was
    not a right answer."""

    def __init__(self, address, clients=4):
        self.address = address
        self.faults = []
        self.counts = [0] * clients
        self.ending = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(clients)]

    def run(self, number):
        while not self.ending.is_set() and not self.faults:
            try:
                with Connection(self.address) as one:
                    reply = one.call("INCR", "n")
                    if not reply.startswith(b":"):
                        self.faults.append(reply)
            except (OSError, EOFError, AssertionError) as fault:
                self.faults.append(repr(fault))
            self.counts[number] += 1

    @property
    def done(self):
        return sum(self.counts)

    def goes_on(self):
        """Waits until each client has connected again and got an answer."""
        before = list(self.counts)
        until(lambda: self.faults or all(now > then + 1 for now, then in zip(self.counts, before)),
              "each client to be served twice")

    def stop(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop()
