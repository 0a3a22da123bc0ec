# SPDX-License-Identifier: BSD-3-Clause
"""Periods in which a busy machine delayed the campaign, and by how much: excuses for late replies."""

import bisect
import collections
import os


def threads_of(process):
    """Returns [(thread, seconds that it ran, seconds that it waited for a processor)]; empty if the
    process is gone."""
    told = []
    try:
        tasks = f"/proc/{process.pid}/task"
        for thread in os.listdir(tasks):
            with open(f"{tasks}/{thread}/schedstat", encoding="ascii") as file:
                ran, waited, _ = file.read().split()
            told.append((thread, int(ran) / 1e9, int(waited) / 1e9))
    except OSError:
        pass
    return told


class Delays:
    """Measures the scheduling delay of the campaign's own clients."""

    def __init__(self):
        self.times, self.late = [], []

    def beat(self, at, late):
        if late > 0.001:
            self.times.append(at)
            self.late.append(late)

    def within(self, begin, end):
        first = bisect.bisect_left(self.times, begin)
        # A late beat shows a delay of the time before it.
        last = first
        worst = 0.0
        while last < len(self.times) and self.times[last] - self.late[last] <= end:
            worst = max(worst, self.late[last])
            last += 1
        return worst


class Starving:
    """Measures how long runnable threads did not run, as the kernel counts it."""

    def __init__(self):
        self.threads = collections.defaultdict(lambda: ([], []))

    def sample(self, at, who, thread, total):
        """Returns the total delay of one of `who`'s threads."""
        times, totals = self.threads[who, thread]
        if not totals or total != totals[-1]:
            times.append(at)
            totals.append(total)

    def within(self, begin, end, *who):
        """Returns the greatest delay of `who`'s threads."""
        worst = 0.0
        for (whose, _), (times, totals) in self.threads.items():
            if whose not in who or not times or times[-1] < begin:
                continue
            first = max(bisect.bisect_left(times, begin) - 1, 0)
            last = min(bisect.bisect_left(times, end), len(times) - 1)
            worst = max(worst, totals[last] - totals[first])
        return worst
