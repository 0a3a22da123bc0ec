# SPDX-License-Identifier: BSD-3-Clause
"""What Redis was seen to have of one lock, from look to look: for lockchecker.py."""

import bisect


def waiter_of(entry):
    """Who stands there, of an entry in a queue: the value of a rule's lock, a verb's owner."""
    _, _, _, _, kind, _, _, token, value = entry.split(" ", 8)
    return value if kind in "rv" else token.partition("/")[0]


def worker_of(ticket):
    """Which worker's try that is, of a ticket or what begins with one; None: it is no ticket."""
    worker, dash, _ = ticket.removeprefix("=").partition("-")
    return worker if worker and dash else None


class Seen:
    """What was there, as one look saw it, and all behind that until the one that began at `last`."""

    __slots__ = ("asked", "answered", "last", "lock", "record", "queue")

    def __init__(self, asked, answered, lock, record, queue):
        self.asked, self.answered, self.last = asked, answered, asked
        self.lock, self.record, self.queue = lock, record, queue

    def is_same(self, other):
        return (self.lock, self.record, self.queue) == (other.lock, other.record, other.queue)

    def entries(self):
        return [entry for entry in self.queue.split("\n") if entry]

    def __str__(self):
        waiters = "".join(f"\n    {entry}" for entry in self.entries())
        return f"{self.answered:.3f}-{self.last:.3f} lock <{self.lock}> record <{self.record[:200]}>{waiters}"


class Looks:
    """All of them, in the order of time."""

    def __init__(self):
        self.all = []

    def add(self, asked, answered, lock, record, queue):
        seen = Seen(asked, answered, lock, record, queue)
        if self.all and self.all[-1].is_same(seen):
            self.all[-1].last = asked
        else:
            self.all.append(seen)

    def _until(self, at):
        """How many were made until then."""
        return bisect.bisect_right(self.all, at, key=lambda seen: seen.answered)

    def within(self, begin, end):
        """What was there at any moment between the two."""
        return self.all[max(0, self._until(begin) - 1):self._until(end)]

    def went(self, who, since, until):
        """Between which moments `who`, which was in the queue at `since`, left it; None: it was there at
        `until`, as far as was seen, or never."""
        after = None
        for seen in reversed(self.all[:self._until(until)]):
            if any(waiter_of(entry) == who for entry in seen.entries()):
                return (seen.last, after.answered) if after else None
            if seen.last < since:
                return None
            after = seen
        return None
