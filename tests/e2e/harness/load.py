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
    """Raises the limit of descriptors. Returns `wanted`, or as many clients as the limit allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if most == resource.RLIM_INFINITY or most >= wanted + SPARE:
        return wanted
    warnings.warn(f"{most - SPARE} clients instead of {wanted}: the hard limit of descriptors is {most}")
    return most - SPARE


class Load:
    """`clients` threads that open a connection for each INCR. `faults`: wrong replies and
    errors."""

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
        """Waits until each client has completed two more requests."""
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
