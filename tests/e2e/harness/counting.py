# SPDX-License-Identifier: BSD-3-Clause
"""Runs tests/apps/counter.*, which count without a lock, and checks the counts.

    counting = Counting("counter.php", redis_server, hasp.address, rounds=2000)
    counting.run(mishap)    runs to the end, while mishap(counting) disturbs other processes
    counting.faults()       returns what must not have happened

If the application does not know the result of a write, the counter may or may not contain it.
"""

import collections
import concurrent.futures
import os
import pathlib
import tempfile

from .apps import run_app

APPS = ["counter.php", "counter.py", "counter.rb", "counter.js"]
GUARD = "[guard counter]\npattern = counter:*\nacquire_on = GET\n"


class Counting:
    def __init__(self, app, server, address, keys=20, workers=50, rounds=20000, think_us=1000):
        self.app, self.server, self.address = app, server, address
        self.settings = {"keys": keys, "workers": workers, "rounds": rounds, "think_us": think_us}
        self.keys = [f"counter:{n}" for n in range(keys)]
        handle, self.log = tempfile.mkstemp(prefix="counting-")
        os.close(handle)
        with server.client() as plain:
            plain.mset(dict.fromkeys(self.keys, 0))

    def run(self, mishap=None, timeout=600):
        try:
            with concurrent.futures.ThreadPoolExecutor() as pool:
                running = pool.submit(run_app, self.app, self.address, timeout=timeout, log=self.log, **self.settings)
                while mishap and not running.done():
                    mishap(self)
                self.result = running.result()
            self._sum_up()
        finally:
            os.unlink(self.log)
        return self

    def events(self):
        lines = pathlib.Path(self.log).read_text().split("\n")[:-1]
        return [line.split() for line in lines]

    def pids(self):
        return [int(event[1]) for event in self.events() if event[0] == "p"]

    def rounds(self):
        """Returns how many rounds have ended."""
        return sum(event[0] in "krwu" for event in self.events())

    def _sum_up(self):
        number = {kind: collections.Counter() for kind in "pskrwu"}
        acknowledged = collections.Counter()
        for kind, key, *value in self.events():
            number[kind][key] += 1
            acknowledged[(key, *value)] += kind == "k"
        with self.server.client() as plain:
            self.values = dict(zip(self.keys, map(int, plain.mget(self.keys))))
        self.acknowledged = number["k"]
        self.refused = sum((number["r"] + number["w"]).values())
        # Writes of unknown outcome: the worker was killed, or got an error that does not tell.
        self.unknown = {key: number["s"][key] - number["k"][key] - number["w"][key] for key in self.keys}
        self.lost_by_key = {key: self.acknowledged[key] - self.values[key] for key in self.keys}
        self.lost = sum(self.lost_by_key.values())
        self.twice = [pair for pair, times in acknowledged.items() if times > 1]

    def faults(self):
        """Returns the lost updates: numbers that Redis acknowledged to two clients, and counters
        that differ from the acknowledged writes by more than the writes of unknown outcome."""
        return [f"{key} was counted to {number} twice" for key, number in self.twice] + [
            f"{key} is {self.values[key]}: {self.acknowledged[key]} acknowledged, {self.unknown[key]} unknown"
            for key in self.keys
            if not 0 <= self.values[key] - self.acknowledged[key] <= self.unknown[key]]

    def __str__(self):
        unknown = sum(self.unknown.values())
        # Counters are above the acknowledged writes if Redis did a write whose reply was lost.
        what = f"unknown={unknown} written={-self.lost}" if unknown else f"lost={self.lost}"
        return (f"acknowledged={self.acknowledged.total()} refused={self.refused} "
                f"sum={sum(self.values.values())} {what}")
