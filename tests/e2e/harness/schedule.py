# SPDX-License-Identifier: BSD-3-Clause
"""Chooses the test that a worker of pytest-xdist runs next.

Most tests wait more than they work, and a few files take most of the time. One of LANE workers
begins with these long files, the longest first; if all workers did, the busy campaigns would be too
much for a small machine. Each worker takes a file of its own, so that waiting tests run beside
working ones, and the tests of a file share their fixtures. In the end, a worker helps with the file
that has most tests left, so that no worker is idle.
"""

import collections
import functools
import pathlib

from xdist.scheduler import LoadScheduling

# Sorted by the longest test of each file. If a file is missing here, the whole run only takes
# longer.
LONG = ("journey", "partition_campaign", "differential", "sentinel_locks", "discover_campaign", "cluster_campaign",
        "failover_campaign", "counting", "hostile_campaign", "fencing_campaign", "waiting_many", "chaos")

# In the order of tests/README.md. Renewal is missing: it takes long, and the simulation tests it,
# too.
CORE = ("starting", "forwarding", "locks", "owners", "verbs", "disconnect", "waiting", "guards", "observe",
        "reload", "leaving")
# contrib/check also runs these with the plain build, to show that this hasp works.
BASIC = CORE[:3]

# Lists the tests that contrib/check runs with the sanitizers; tests/choose_sanitized chose them.
SANITIZED = pathlib.Path(__file__).resolve().parents[1] / "sanitized.txt"

# One of LANE workers begins with the long files.
LANE = 3

# Tests sent ahead: a worker starts one only when it knows the next; short ones end too soon.
AHEAD, AHEAD_OF_SHORT, SHORT_SECONDS = 2, 8, 0.02


@functools.cache  # called for the path of each test
def name_of(path):
    return pathlib.PurePath(path).stem.removeprefix("test_")


def by_length(items):
    """Sorts the long tests to the front. The others keep their order, but in each file, the tests
    that share hasps come first: they use the same hasps one after the other."""
    files = {}

    def place(item):
        name = name_of(item.path)
        file = files.setdefault(item.path, len(files))
        return LONG.index(name) if name in LONG else len(LONG), file, "share_hasp" not in item.fixturenames

    items.sort(key=place)


def mark(items):
    """Marks tests. The tests of the scripts need no hasp, so they run only with the build without
    sanitizers. If a parametrized test needs hasp, contrib/check runs only its first row, because
    the other rows mostly run the same code."""
    begun = set()
    chosen = set(SANITIZED.read_text().splitlines())
    for item in items:
        name = name_of(item.path)
        function = item.nodeid.partition("[")[0]
        if name.startswith("scripts_"):
            item.add_marker("unless_sanitized")
        if function in begun and not item.get_closest_marker("unless_sanitized"):
            item.add_marker("further_row")
        begun.add(function)
        if item.nodeid.removeprefix("tests/e2e/") in chosen:
            item.add_marker("sanitized")
        if name in CORE:
            item.add_marker("core")
        if name in BASIC:
            item.add_marker("basic")


def file_of(test):
    return test.partition("::")[0]


def is_long(file):
    return name_of(file) in LONG


class Schedule(LoadScheduling):
    """Like LoadScheduling, but decides otherwise which worker gets which of `pending`, and when."""

    def __init__(self, config, log):
        super().__init__(config, log)
        self.left = {}   # {file: its pending tests}
        self.at = {}     # {worker: its file}

    def schedule(self):
        first = self.collection is None
        if first and self._check_nodes_have_same_collection():
            self.collection = next(iter(self.node2collection.values()))
            self.pending[:] = range(len(self.collection))
            for test, name in enumerate(self.collection):
                self.left.setdefault(file_of(name), collections.deque()).append(test)
        for _ in range(AHEAD if first else 0):  # each worker gets a first test before any gets a second
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
        """Returns the file from which the worker gets its next test, or None if no test is left."""
        long = [file for file in self.left if is_long(file)]
        if long and self.nodes.index(node) % LANE == 0:
            return long[0]
        if self.at.get(node) in self.left and self.at[node] not in long:
            return self.at[node]
        others = [file for file in self.left if file not in long] or long
        free = (file for file in others if file not in self.at.values())
        return next(free, None) or max(others, key=lambda file: len(self.left[file]), default=None)
