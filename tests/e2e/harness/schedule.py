# SPDX-License-Identifier: BSD-3-Clause
"""Which test a worker of pytest-xdist runs next.

Most tests wait more than they work, and a few files take most of the time. Those are begun first,
the longest before the others, but by some of the workers only: campaigns are busy, and all of them
at once would be too much for a small machine. Of the other files each worker has one for itself:
so those that wait run beside those that work, and what a file's tests share is made once. A worker
takes a test when it is done with one, not its share of them beforehand, and in the end from where
most are left: nobody waits for one who has many.
"""

import collections
import functools
import pathlib

from xdist.scheduler import LoadScheduling

# By the longest test of each. One that is missing here only makes the whole take longer.
LONG = ("journey", "partition_campaign", "differential", "sentinel_locks", "discover_campaign", "cluster_campaign",
        "failover_campaign", "counting", "building", "hostile_campaign", "fencing_campaign", "waiting_many", "chaos")

# In the order in which tests/README.md has them read: the basic ones first. Renewal, which takes long,
# is the simulation's, too.
CORE = ("starting", "forwarding", "locks", "owners", "verbs", "disconnect", "waiting", "guards", "observe",
        "reload", "leaving")
# contrib/check runs these with both builds: they show that each is a working hasp.
BASIC = CORE[:3]

# Of the workers, one in so many begins with those.
LANE = 3

# A worker begins a test when it knows the next one. Short ones would be over before it comes.
AHEAD, AHEAD_OF_SHORT, SHORT_SECONDS = 2, 8, 0.02


@functools.cache  # asked of a path for each of its tests
def name_of(path):
    return pathlib.PurePath(path).stem.removeprefix("test_")


def by_length(items):
    """The long ones, and the others as they were."""
    def place(item):
        name = name_of(item.path)
        return LONG.index(name) if name in LONG else len(LONG)

    items.sort(key=place)


def mark(items):
    """Tests of the scripts need no hasp. So the build without sanitizers runs them."""
    for item in items:
        name = name_of(item.path)
        if name in CORE:
            item.add_marker("core")
        if name in BASIC:
            item.add_marker("basic")
        if name.startswith("scripts_"):
            item.add_marker("unless_sanitized")


def file_of(test):
    return test.partition("::")[0]


def is_long(file):
    return name_of(file) in LONG


class Schedule(LoadScheduling):
    """Of LoadScheduling all but who gets which of `pending`, and when."""

    def __init__(self, config, log):
        super().__init__(config, log)
        self.left = {}   # file: its tests that are pending
        self.at = {}     # worker: its file

    def schedule(self):
        first = self.collection is None
        if first and self._check_nodes_have_same_collection():
            self.collection = next(iter(self.node2collection.values()))
            self.pending[:] = range(len(self.collection))
            for test, name in enumerate(self.collection):
                self.left.setdefault(file_of(name), collections.deque()).append(test)
        for _ in range(AHEAD if first else 0):  # none gets its second before each has its first
            for node in self.nodes:
                self.give(node)
        for node in self.nodes:
            self.check_schedule(node)

    def check_schedule(self, node, duration=0):
        """Called when a worker is done with a test, which took `duration` seconds."""
        if node.shutting_down:
            return
        ahead = AHEAD_OF_SHORT if 0 < duration < SHORT_SECONDS else AHEAD
        while self.pending and len(self.node2pending[node]) < ahead:
            self.give(node)
        if not self.pending:
            node.shutdown()

    def give(self, node):
        file = self.file_for(node)
        if file:
            test = self.left[file].popleft()
            if not self.left[file]:
                del self.left[file]
            self.at[node] = file
            self.pending.remove(test)
            self.pending.insert(0, test)
        self._send_tests(node, 1)

    def file_for(self, node):
        """None: all that is pending was another's, which is no more."""
        long = [file for file in self.left if is_long(file)]
        if long and self.nodes.index(node) % LANE == 0:
            return long[0]
        if self.at.get(node) in self.left and self.at[node] not in long:
            return self.at[node]
        others = [file for file in self.left if file not in long] or long
        free = (file for file in others if file not in self.at.values())
        return next(free, None) or max(others, key=lambda file: len(self.left[file]), default=None)
