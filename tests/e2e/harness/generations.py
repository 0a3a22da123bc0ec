# SPDX-License-Identifier: BSD-3-Clause
"""A hasp that is upgraded by SIGUSR2, and its successors."""

import contextlib
import os
import signal

import pytest

from .by_hand import alive
from .wait import until


class Generations:
    """A hasp and its successors, which all write to the log of the first."""

    def __init__(self, hasp):
        self.hasp = hasp
        self.pids = [hasp.pid]

    @property
    def newest(self):
        return self.pids[-1]

    def log_count(self, what):
        return self.hasp.log.count(what)

    def upgrade(self):
        count = self.log_count(" upgraded pid=")
        os.kill(self.newest, signal.SIGUSR2)
        until(lambda: self.log_count(" upgraded pid=") > count or "upgrade_failed" in self.hasp.log, "the upgrade")
        assert "upgrade_failed" not in self.hasp.log
        self.pids.append(int(self.hasp.log.rsplit(" upgraded pid=", 1)[1].split()[0]))

    def fails(self, count=1):
        os.kill(self.newest, signal.SIGUSR2)
        until(lambda: self.log_count("upgrade_failed") >= count, "the upgrade to fail")

    def end(self):
        for pid in self.pids[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        for pid in self.pids[1:]:
            until(lambda pid=pid: not alive(pid), "a hasp to leave")


@pytest.fixture
def generations(start_hasp):
    begun = []

    def start(*args, **options):
        begun.append(Generations(start_hasp(*args, **options)))
        return begun[-1]

    yield start
    for one in begun:
        one.end()
