# SPDX-License-Identifier: BSD-3-Clause
"""Mishaps of applications, hasp and Redis while an application counts.

    mishaps = Mishaps(random.Random(seed), redis_server, config, lease=0.2)
    Counting(app, redis_server, mishaps.address).run(mishaps.one_of("pause", "kill"))
"""

import os
import signal
import time

from .processes import BUG, Hasp


class Mishaps:
    """Starts a hasp with `config`, and disturbs it, Redis and the application."""

    KINDS = ("pause", "kill", "hasp", "redis")

    def __init__(self, chance, server, config, lease, binary=None):
        self.chance, self.server, self.config, self.lease, self.binary = chance, server, config, lease, binary
        self.gone = set()
        self.happened = dict.fromkeys(self.KINDS, 0)
        self.faults = []
        self.port = 0
        self.hasp = self._start()
        self.port = self.address[1]

    @property
    def address(self):
        return self.hasp.address

    def _start(self):
        return Hasp(f"[hasp]\nlisten = 127.0.0.1:{self.port}\n{self.config}", binary=self.binary)

    def one_of(self, *kinds):
        """Returns a function for Counting.run(), which causes one of these kinds of mishaps."""
        def happen(counting):
            kind = self.chance.choice(kinds)
            if getattr(self, f"_{kind}")(counting):
                self.happened[kind] += 1
            self._let_go_on(counting)
        return happen

    def _let_go_on(self, counting):
        """Lets the application work, so that the next mishap comes in the middle of its work."""
        before = counting.rounds()
        deadline = time.monotonic() + 1
        while counting.rounds() < before + 50 and time.monotonic() < deadline:
            time.sleep(0.01)

    def _victim(self, counting):
        alive = [pid for pid in counting.pids() if pid not in self.gone]
        return self.chance.choice(alive) if alive else None

    def _pause(self, counting):
        """Pauses a process for longer than a guard lasts."""
        pid = self._victim(counting)
        if not pid or not send(pid, signal.SIGSTOP):
            return False
        time.sleep(1.5 * self.lease)
        return send(pid, signal.SIGCONT)

    def _kill(self, counting):
        """Kills a worker, but no more than a quarter of them in total."""
        pid = self._victim(counting)
        if not pid or len(self.gone) >= len(counting.pids()) // 4:
            return False
        self.gone.add(pid)
        return send(pid, signal.SIGKILL)

    def _hasp(self, _counting):
        self.hasp.kill()
        bug = BUG.search(self.hasp.log)
        if bug:
            self.faults.append(f"hasp reported {bug.group()!r}")
        self.hasp.remove()
        self.hasp = self._start()
        return True

    def _redis(self, _counting):
        self.server.kill()
        self.server.start()
        return True

    def end(self):
        """Ends hasp. Returns a list of its faults."""
        fault = self.hasp.stop()
        self.hasp.remove()
        return self.faults + [fault] if fault else self.faults


def send(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
